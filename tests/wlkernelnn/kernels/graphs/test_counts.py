from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from wlkernelnn.kernels.graphs import counts
from wlkernelnn.kernels.graphs.counts import count_matrix, count_sides


def random_counts(seed: int = 0, rows: int = 60) -> np.ndarray:
    """Some columns in most rows, most columns in few, and one column and one row without anything."""
    rng = np.random.default_rng(seed)
    dense = rng.integers(0, 4, (rows, 50)) * (rng.random((rows, 50)) < np.linspace(0.7, 0.01, 50))
    dense[:, 49] = 0
    dense[7] = 0
    return dense


def test_matrix_counts_every_occurrence() -> None:
    owner, column = np.array([2, 0, 2, 2]), np.array([1, 0, 1, 3])
    matrix = count_matrix(owner, column, 3, 4)
    np.testing.assert_array_equal(matrix.toarray(), [[1, 0, 0, 0], [0, 0, 0, 0], [0, 2, 0, 1]])
    assert matrix.dtype == np.float64
    assert matrix.nnz == 3
    weighted = count_matrix(owner, column, 3, 4, np.array([0.5, 2.0, 0.25, -1.0]))
    np.testing.assert_array_equal(weighted.toarray(), [[2, 0, 0, 0], [0, 0, 0, 0], [0, 0.75, 0, -1]])


def test_products_are_inner_products() -> None:
    dense = random_counts()
    side, nothing = count_sides(sparse.csr_array(dense.astype(np.float64)))
    assert nothing is None
    assert side.frequent.shape[1] > 3
    assert side.rare.nnz > 10
    product = side.product(side)
    assert product.dtype == np.float64
    np.testing.assert_array_equal(product, dense @ dense.T)
    np.testing.assert_array_equal(side.squares, (dense**2).sum(1))
    np.testing.assert_array_equal(side.sizes, np.ones(60))


def test_parts_and_both_sides_share_columns() -> None:
    dense = random_counts()
    a, b = count_sides(sparse.csr_array(dense.astype(np.float64)), 25)
    assert b is not None
    assert (len(a.sizes), len(b.sizes)) == (25, 35)
    np.testing.assert_array_equal(a.product(b), dense[:25] @ dense[25:].T)
    np.testing.assert_array_equal(a.part(3, 9).product(b.part(10, 11)), dense[3:9] @ dense[35:36].T)
    np.testing.assert_array_equal(b.part(10, 12).squares, (dense[35:37] ** 2).sum(1))


def test_frequent_columns_are_those_of_more_than_a_twentieth() -> None:
    dense = np.zeros((40, 3))
    dense[:2, 0] = 5  # exactly a twentieth
    dense[:3, 1] = 1
    dense[:, 2] = 1
    side, _ = count_sides(sparse.csr_array(dense))
    assert side.frequent.shape == (40, 2)
    np.testing.assert_array_equal(side.rare.toarray(), dense[:, :1])


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_all_dense_or_all_sparse_are_the_same(share: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counts, "_FREQUENT", share)
    dense = random_counts(1)
    side, _ = count_sides(sparse.csr_array(dense.astype(np.float64)))
    assert side.frequent.shape[1] == (0 if share else np.any(dense, axis=0).sum())
    np.testing.assert_array_equal(side.product(side), dense @ dense.T)


@pytest.mark.parametrize(
    ("rows", "dtype"),
    [
        ([[4095.0, 90.0], [1.0, -3.0]], np.float32),  # 4095² + 90² < 2²⁴
        ([[4096.0, 0.0], [1.0, 0.0]], np.float64),
        ([[0.5, 1.0], [1.0, 1.0]], np.float64),
        ([[0.0, 0.0], [0.0, 0.0]], np.float32),
    ],
)
def test_float32_only_where_it_is_exact(rows: list[list[float]], dtype: type) -> None:
    side, _ = count_sides(sparse.csr_array(np.array(rows)))
    assert side.frequent.dtype == side.rare.dtype == dtype
    np.testing.assert_array_equal(side.product(side), np.array(rows) @ np.array(rows).T)


def test_no_step_rounds() -> None:
    # 4097² is odd and above 2²⁴; float32 does not know it. Rare and frequent columns.
    dense = np.diag(np.full(50, 4097.0))
    dense[:, 0] = 4097.0
    side, _ = count_sides(sparse.csr_array(dense))
    assert side.rare.nnz
    np.testing.assert_array_equal(side.product(side), dense @ dense.T)
    assert side.product(side)[1, 2] == 16_785_409


@pytest.mark.parametrize("shape", [(0, 0), (0, 3), (3, 0)])
def test_nothing(shape: tuple[int, int]) -> None:
    side, _ = count_sides(sparse.csr_array(shape, dtype=np.float64))
    np.testing.assert_array_equal(side.product(side), np.zeros((shape[0], shape[0])))
    np.testing.assert_array_equal(side.squares, np.zeros(shape[0]))
