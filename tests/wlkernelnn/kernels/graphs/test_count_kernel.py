from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from tests.inputs.graphs import random_packed
from wlkernelnn.kernels import MoleculeKernel, PathKernel, ShortestPathKernel, WLKernel, WLSubtreeKernel
from wlkernelnn.kernels.flat_graphs import flat_graphs
from wlkernelnn.kernels.graphs.codings import FEATURES
from wlkernelnn.kernels.graphs.count_kernel import CountKernel, unary
from wlkernelnn.testing import assert_psd

KERNELS = [WLSubtreeKernel(2), ShortestPathKernel(), PathKernel(3)]


def minmax(phi: np.ndarray) -> np.ndarray:
    """The definition, entry by entry."""
    gram = np.ones((len(phi), len(phi)))
    for i, one in enumerate(phi):
        for j, other in enumerate(phi):
            if (one + other).any():
                gram[i, j] = np.minimum(one, other).sum() / np.maximum(one, other).sum()
    return gram


def test_unary_columns_count_minima() -> None:
    counts = np.array([[3, 0, 1], [1, 0, 2], [0, 0, 0]])
    columns = unary(sparse.csr_array(counts.astype(float))).toarray()
    np.testing.assert_array_equal(columns, [[1, 1, 1, 1, 0], [1, 0, 0, 1, 1], [0, 0, 0, 0, 0]])


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: type(kernel).__name__)
def test_normalisations_are_those_of_the_counts(kernel: CountKernel) -> None:
    graphs = random_packed(40, seed=1)
    phi = kernel.features(graphs).toarray()
    assert (phi.sum(1) == 0).any() or not isinstance(kernel, PathKernel)  # single nodes have no path
    np.testing.assert_array_equal(kernel(graphs), phi @ phi.T)
    kernel = kernel.__class__(**kernel.get_params() | {"normalize": "minmax"})
    np.testing.assert_allclose(kernel(graphs), minmax(phi), rtol=1e-15)
    np.testing.assert_array_equal(kernel.diag(graphs), 1)
    assert_psd(kernel, graphs)
    np.testing.assert_allclose(kernel(graphs[:9], graphs[9:]), minmax(phi)[:9, 9:], rtol=1e-15)
    lengths = np.linalg.norm(phi, axis=1)
    cosine = np.divide(phi @ phi.T, np.outer(lengths, lengths), out=np.zeros((40, 40)), where=phi @ phi.T > 0)
    for name in ("cosine", True):
        kernel = kernel.set_params(normalize=name)
        np.testing.assert_allclose(kernel(graphs), cosine, rtol=1e-14)
        features = kernel.features(graphs)
        np.testing.assert_allclose((features @ features.T).toarray(), cosine, rtol=1e-14)
        assert_psd(kernel, graphs)


def test_two_graphs_without_patterns_are_alike() -> None:
    kernel = PathKernel(2, normalize="minmax")
    np.testing.assert_array_equal(kernel(["C", "O", "CO"]), [[1, 1, 0], [1, 1, 0], [0, 0, 1]])
    np.testing.assert_array_equal(kernel.diag(["C", "CO"]), 1)
    assert kernel([]).shape == (0, 0)


def test_a_normalised_kernel_is_a_base_like_any_other() -> None:
    graphs = random_packed(12)
    base = ShortestPathKernel(2, normalize="minmax")
    once = WLKernel(base, num_iterations=0)(graphs)
    np.testing.assert_allclose(once, base(graphs), rtol=1e-15)
    np.testing.assert_allclose(np.diagonal(WLKernel(base, num_iterations=2)(graphs)), 3)


def test_sums_products_and_scales_are_scikit_learns() -> None:
    graphs = random_packed(10)
    one, other = WLSubtreeKernel(1, normalize="minmax"), PathKernel(2, normalize="minmax")
    np.testing.assert_allclose((2.0 * one + other)(graphs), 2 * one(graphs) + other(graphs))
    np.testing.assert_allclose(
        (one * other)(graphs[:3], graphs), one(graphs[:3], graphs) * other(graphs[:3], graphs)
    )
    np.testing.assert_allclose((0.5 * one).diag(graphs), 0.5)


def test_a_large_gram_goes_into_a_file(tmp_path: Path) -> None:
    graphs = random_packed(700, seed=3)
    kernel = WLSubtreeKernel(2, normalize="minmax")
    out = np.memmap(tmp_path / "gram", np.float32, "w+", shape=(700, 700))
    kernel.gram(graphs, out=out, n_jobs=2)
    np.testing.assert_array_equal(out[500:, :40], kernel(graphs[500:], graphs[:40]).astype(np.float32))


def test_unknown_names_are_refused() -> None:
    with pytest.raises(ValueError, match="normalize must be 'minmax', 'cosine' or None, got 'max'"):
        WLSubtreeKernel(normalize="max")(["C"])  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"coding must be .*ogb.*got 'ecfp6'"):
        WLSubtreeKernel(coding="ecfp6")(["C"])


def test_kept_counts_are_the_kernel_itself() -> None:
    """New molecules have atoms, bonds and patterns that the kept ones lack, and more of a pattern."""
    known = ["CCO", "c1ccccc1O", "C", "[Na+].[Cl-]", "CC(=O)NC", "CCCCCCCC"]
    new = ["CCN", "C" * 30, "S(F)(F)(F)(F)(F)F", "C#N", "[Xe]", "c1ccccc1C(=O)O", "CCO"]
    shared = flat_graphs(known, FEATURES), flat_graphs(new, FEATURES)
    for kernel in (
        *(WLSubtreeKernel(h, normalize="minmax", coding=name) for h, name in ((0, "element"), (3, "ecfp"))),
        WLSubtreeKernel(2, edge_labels=False, normalize="minmax", coding="fcfp"),
        ShortestPathKernel(normalize="minmax", coding="ecfp"),
        ShortestPathKernel(3, normalize="minmax", coding="element"),
        *(PathKernel(n, normalize="minmax", coding="ogb") for n in (1, 4, 6)),
        PathKernel(4, edge_labels=False, normalize="minmax", coding="element"),
        MoleculeKernel(),
    ):
        kept = kernel.keep(shared[0])
        assert kept is not None
        np.testing.assert_array_equal(kernel._block(kept.read(shared[1]), kept.side)[0], kernel(new, known))
        np.testing.assert_array_equal(kernel._block(kept.side, kept.side)[0], kernel(known))
        some = kept.side.take(np.array([4, 1]))
        np.testing.assert_array_equal(kernel._block(some, kept.side)[0], kernel(known)[[4, 1]])
    assert WLSubtreeKernel(2, normalize="minmax").keep(known) is None
    assert WLSubtreeKernel(2, coding="ecfp").keep(known) is None
