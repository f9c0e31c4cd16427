"""What holds for every kernel of graphs: scikit-learn's protocol, blocks, normalisation."""

from __future__ import annotations

from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, WhiteKernel
from sklearn.kernel_ridge import KernelRidge
from sklearn.svm import SVC
from torch_geometric.data import Data

from wlkernelnn.kernels import (
    DeepGraphKernel,
    DeepStringKernel,
    PathKernel,
    RandomWalkKernel,
    StringKernel,
    StructureKernel,
    WLKernel,
    WLSubtreeKernel,
    objects,
)
from wlkernelnn.kernels.base import cut
from wlkernelnn.testing import assert_psd

KERNELS: dict[str, StructureKernel] = {
    "walks of codes": RandomWalkKernel(3, 0.5),
    "all lengths": RandomWalkKernel(3, 0.5, all_lengths=True),
    "geometric": RandomWalkKernel(None, 0.01, decay_bounds=(1e-4, 0.02)),
    "deep": DeepGraphKernel(2, 2, 0.1),
    "deep, angles": DeepGraphKernel(1, 2, 0.1, "add", "arccos1"),
    "subtree": WLSubtreeKernel(2),
    "WL of walks": WLKernel(RandomWalkKernel(2, 0.5), 2),
}
EVERY = pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)


def some_graphs(count: int, seed: int = 0) -> list[Data]:
    generator = torch.Generator().manual_seed(seed)
    graphs = []
    for i in range(count):
        n = 1 + i % 5
        edges = torch.randint(n, (2, n), generator=generator)
        graphs.append(
            Data(
                x=torch.randint(2, (n, 2), generator=generator),
                edge_index=torch.cat([edges, edges.flip(0)], 1),
                edge_type=torch.zeros(2 * n, dtype=torch.int64),
            )
        )
    return [*graphs, Data(num_nodes=0)]


GRAPHS = some_graphs(9)


def with_(kernel: StructureKernel, **options: object) -> StructureKernel:
    return clone(kernel).set_params(**options)


@EVERY
def test_a_kernel_is_symmetric_and_psd(kernel: StructureKernel) -> None:
    assert_psd(kernel, GRAPHS)
    whole = kernel(GRAPHS)
    assert whole.shape == (10, 10)
    assert whole.dtype == np.float64
    np.testing.assert_allclose(kernel(GRAPHS[:4], GRAPHS), whole[:4], rtol=1e-12)
    np.testing.assert_allclose(kernel(GRAPHS, GRAPHS), whole, rtol=1e-12)
    np.testing.assert_allclose(kernel.diag(GRAPHS), whole.diagonal(), rtol=1e-12)


@EVERY
def test_normalize(kernel: StructureKernel) -> None:
    plain, normal = kernel(GRAPHS), with_(kernel, normalize=True)(GRAPHS)
    root = np.sqrt(plain.diagonal())
    expected = np.divide(
        plain, np.outer(root, root), out=np.zeros_like(plain), where=np.outer(root, root) > 0
    )
    np.testing.assert_allclose(normal, expected, rtol=1e-12)
    assert not normal[-1].any()  # a graph without nodes: 0/0 counts as 0


@pytest.mark.parametrize(
    ("kernel", "n_jobs"), [*zip(KERNELS.values(), cycle([None, 2]), strict=False)], ids=str
)
def test_blocks_threads_and_files_do_not_matter(
    kernel: StructureKernel, n_jobs: int | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    kernel = with_(kernel, normalize=True)
    whole, across = kernel(GRAPHS), kernel(GRAPHS[:3], GRAPHS)
    monkeypatch.setattr(StructureKernel, "_budget", 3)
    monkeypatch.setattr(StructureKernel, "_diag_budget", 2)
    out = np.memmap(tmp_path / "gram", dtype=np.float64, mode="w+", shape=(10, 10))
    assert kernel.gram(GRAPHS, out=out, n_jobs=n_jobs) is out
    np.testing.assert_allclose(out, whole, rtol=1e-12)
    np.testing.assert_allclose(kernel.gram(GRAPHS[:3], GRAPHS, n_jobs=n_jobs), across, rtol=1e-12)


def test_progress_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    RandomWalkKernel(2).gram(GRAPHS, progress=True)
    assert "RandomWalkKernel" in capsys.readouterr().out
    RandomWalkKernel(2).gram(GRAPHS)
    assert not capsys.readouterr().out


def test_out_that_cannot_hold_the_values() -> None:
    with pytest.raises(ValueError, match=r"array of floats \(10, 10\), got float64 \(2, 2\)"):
        RandomWalkKernel(2).gram(GRAPHS, out=np.zeros((2, 2)))
    with pytest.raises(ValueError, match=r"array of floats \(10, 10\), got int64 \(10, 10\)"):
        RandomWalkKernel(2, normalize=True).gram(GRAPHS, out=np.zeros((10, 10), dtype=np.int64))
    short = RandomWalkKernel(2).gram(GRAPHS, out=np.zeros((10, 10), dtype=np.float32))
    np.testing.assert_allclose(short, RandomWalkKernel(2)(GRAPHS), rtol=1e-6)


COMPLETE = Data(num_nodes=20, edge_index=torch.ones(20, 20).fill_diagonal_(0).nonzero().t())
LARGE = Data(
    x=torch.full((2, 1), 1e200, dtype=torch.float64), edge_index=torch.tensor([[0, 1], [1, 0]]), num_nodes=2
)


@pytest.mark.parametrize(
    ("kernel", "some"),
    [
        (DeepStringKernel(composition="exp"), ["ab" * 20, "abab"]),
        (DeepStringKernel(2, 2, 1e40), ["abab", "ab"]),
        (DeepStringKernel(2, 2, 1e40, "arccos0"), ["ab" * 4, "ab"]),
        (StringKernel(2, 1e80, "a"), ["abab", "ab"]),
        (StringKernel(2, 1e80, "c"), ["ababab", "ab"]),
        (StringKernel(400, 10.0, "lodhi"), ["ab", "ab"]),
        (RandomWalkKernel(130), [COMPLETE]),
        (RandomWalkKernel(400, 10.0), [COMPLETE]),
        (RandomWalkKernel(2), [LARGE]),
        (RandomWalkKernel(None, 0.1), [LARGE]),
        (DeepGraphKernel(1, 2), [LARGE]),
        (WLKernel(RandomWalkKernel(130), 1), [COMPLETE]),
        (WLKernel(RandomWalkKernel(130, normalize=True), 1), [COMPLETE]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_float64_does_not_hold_is_an_error(kernel: StructureKernel, some: list[Any]) -> None:
    """And neither infinite, nor NaN, nor a warning, in whatever thread."""
    normal = with_(kernel, normalize=True)
    calls = [kernel, kernel.diag, lambda X: kernel.gram(X, X, n_jobs=2), normal]
    for call in [*calls, lambda X: kernel(X, eval_gradient=True)]:
        with pytest.raises(ValueError, match=r"Kernel\(.* grows beyond the range of float64: use smaller"):
            call(some)


def test_what_out_does_not_hold_is_an_error() -> None:
    kernel = RandomWalkKernel(60)
    assert np.isfinite(kernel([COMPLETE])).all()
    with pytest.raises(ValueError, match="grows beyond the range of float32"):
        kernel.gram([COMPLETE], out=np.zeros((1, 1), dtype=np.float32))
    with pytest.raises(ValueError, match="grows beyond the range of float64"):
        RandomWalkKernel(400).local(COMPLETE, COMPLETE)
    with pytest.raises(ValueError, match="grows beyond the range of float64"):
        DeepStringKernel(2, 2, 1e80).local("abab", "ab")


@EVERY
def test_no_graphs(kernel: StructureKernel) -> None:
    assert kernel([]).shape == (0, 0)
    assert kernel(GRAPHS, []).shape == (10, 0)
    assert kernel.diag([]).shape == (0,)
    _, slopes = kernel([], eval_gradient=True)
    assert slopes.shape == (0, 0, kernel.n_dims)


@EVERY
def test_scikit_learns_protocol(kernel: StructureKernel) -> None:
    copy = clone(kernel)
    assert copy == kernel
    assert copy.get_params() == kernel.get_params()
    assert not kernel.is_stationary()
    assert not kernel.requires_vector_input
    assert kernel.bounds.shape == (kernel.n_dims, 2) or kernel.n_dims == 0
    if kernel.n_dims:
        moved = kernel.clone_with_theta(kernel.theta + np.log(0.5))
        assert moved(GRAPHS).sum() < kernel(GRAPHS).sum()
        assert moved != kernel
    with pytest.raises(ValueError, match="cannot be had together with Y"):
        kernel(GRAPHS, GRAPHS, eval_gradient=True)
    fixed = {name: "fixed" for name in kernel.get_params() if name.endswith("decay_bounds")}
    assert with_(kernel, **fixed).n_dims == 0
    composed = ConstantKernel(2.0) * kernel + WhiteKernel(0.1)
    np.testing.assert_allclose(composed(objects(GRAPHS)), 2 * kernel(GRAPHS) + 0.1 * np.eye(10), rtol=1e-12)


@EVERY
@pytest.mark.filterwarnings("ignore:The optimal value found")  # at a bound of λ
def test_gaussian_process(kernel: StructureKernel) -> None:
    """It predicts what the formula says, and λ moves uphill if there is one."""
    graphs, target = objects(GRAPHS[:-1]), np.sin(np.arange(9.0))
    noisy = kernel + WhiteKernel(0.5, "fixed")
    process = GaussianProcessRegressor(noisy, optimizer=None).fit(graphs[:6], target[:6])
    weights = np.linalg.solve(kernel(graphs[:6]) + 0.5 * np.eye(6), target[:6])
    np.testing.assert_allclose(
        process.predict(graphs[6:]), kernel(graphs[6:], graphs[:6]) @ weights, rtol=1e-8
    )
    fitted = GaussianProcessRegressor(noisy).fit(graphs[:6], target[:6])
    gain = fitted.log_marginal_likelihood_value_ - process.log_marginal_likelihood_value_
    assert gain > 0 if kernel.n_dims else gain == 0


@pytest.mark.parametrize("kernel", [KERNELS["subtree"], KERNELS["deep, angles"]], ids=str)
def test_machines_with_precomputed_grams(kernel: StructureKernel) -> None:
    labels = np.array([graph.num_nodes > 2 for graph in GRAPHS])
    gram = with_(kernel, normalize=True)(GRAPHS)
    assert SVC(kernel="precomputed", C=1e3).fit(gram, labels).score(gram, labels) > 0.85
    sizes = gram @ np.arange(10.0)
    ridge = KernelRidge(kernel="precomputed", alpha=1e-6).fit(gram, sizes)
    np.testing.assert_allclose(ridge.predict(gram), sizes, atol=1e-2)


def test_repr_shows_every_argument() -> None:
    text = repr(RandomWalkKernel(3, 0.5))
    assert text == (
        "RandomWalkKernel(walk_length=3, decay=0.5, all_lengths=False, normalize=False, "
        "decay_bounds=(1e-05, 1.0))"
    )


def test_cut() -> None:
    assert list(cut(np.array([2, 2, 3, 9, 1, 0]), 4)) == [(0, 2), (2, 3), (3, 4), (4, 6)]
    assert list(cut(np.zeros(3, int), 4)) == [(0, 3)]
    assert list(cut(np.zeros(0, int), 4)) == []


def test_objects_leave_items_whole() -> None:
    array = objects([[1, 2], [3, 4]])
    assert array.shape == (2,)
    assert array[1] == [3, 4]
    assert objects(GRAPHS).shape == (10,)
    assert objects(pd.Series(["ab", "c"], index=[5, 7])).tolist() == ["ab", "c"]


@pytest.mark.parametrize("items", [{"a": [1]}, {"a"}, pd.DataFrame({"a": [1]}), 3], ids=repr)
def test_objects_of_what_is_no_list(items: Any) -> None:
    with pytest.raises(TypeError, match=f"expected a list of .*, got one {type(items).__name__}"):
        objects(items)


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (RandomWalkKernel(2, normalize="minmax"), "True .cosine. or False, got 'minmax'"),  # type: ignore[arg-type]
        (WLKernel(RandomWalkKernel(2), 1, normalize="none"), "or False, got 'none'"),  # type: ignore[arg-type]
        (WLSubtreeKernel(2, normalize="tanimoto"), "'minmax', 'cosine' or None, got 'tanimoto'"),
    ],
    ids=["walks", "WL", "counts"],
)
def test_an_unknown_normalize_is_refused(kernel: StructureKernel, message: str) -> None:
    for call in (kernel, kernel.diag):
        with pytest.raises(ValueError, match=message):
            call(GRAPHS)


@pytest.mark.parametrize(
    ("kernel", "switch"),
    [
        (RandomWalkKernel(2), "all_lengths"),
        (DeepGraphKernel(), "walks_only"),
        (DeepStringKernel(), "averaged"),
        (PathKernel(), "edge_labels"),
        (WLSubtreeKernel(), "edge_labels"),
        (WLKernel(RandomWalkKernel(2)), "edge_labels"),
    ],
)
def test_switches_take_no_words(kernel: StructureKernel, switch: str) -> None:
    """As of a file of options: Python takes "False" for true."""
    kernel.set_params(**{switch: "False"})
    for call in (kernel, kernel.diag):
        with pytest.raises(ValueError, match=f"^{switch} must be True or False, got 'False'$"):
            call(GRAPHS)
