"""The papers' theorems, checked in numbers: each with the line that checks it, and its error."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import mpmath
import numpy as np
import torch
from torch_geometric.data import Data

from wlkernelnn import testing
from wlkernelnn.bench.harness.options import TableOptions
from wlkernelnn.bench.harness.races import Known, Race
from wlkernelnn.bench.harness.tables import Rows
from wlkernelnn.cli.options import PositiveInt
from wlkernelnn.conv.deep import DeepKernelConv
from wlkernelnn.conv.random_walk import RandomWalkKernelConv
from wlkernelnn.conv.wl import WLKernelConv
from wlkernelnn.kernels import (
    DeepGraphKernel,
    DeepStringKernel,
    Inverse,
    Polynomial,
    RandomWalkKernel,
    WLKernel,
    WLSubtreeKernel,
)
from wlkernelnn.sequence import StringKernelConv
from wlkernelnn.testing.colours import first_difference
from wlkernelnn.testing.exact import exact

from .theorem_samples import (
    NUM_TYPES,
    D,
    K,
    drawn,
    needing_relabelling,
    nodes_alike,
    random_graphs,
    random_strings,
    small_graphs,
)

LEGEND = """* Errors are the largest over all graphs or strings and all channels, relative to the sum of the
  absolute values of all terms (theorems 1 and 3, equation 7, proposition 2, Table 4, random walks), to the
  largest value of nodes of the same colour (equal colours) or to the largest value (the others); float64.
* Graphs are drawn at random: 0 to 8 nodes, directed and undirected, with self loops, multi-edges and
  isolated nodes, with edge types and edge weights. Weights are normal with standard deviation 1/2. Theorem 4
  has graphs of 2 to 4 nodes with edges of one kind, and strings of theorem 2 have up to 3 tokens, since it is
  checked in exact arithmetic; with erf, weights and features are 0.01 times as large.
* Strings are drawn at random: 0 to 7 tokens, among them empty ones and single tokens. Theorem 1 and the
  sums hold for every state c_1 … c_n at every token.
* Theorems 2 and 4, lemma 1: the number is fᵀK⁺f beside its bound, the largest over all states: at most 1.
  c before the activation, h after it, Σ the sum of h over nodes. c_1 of the first layer reaches its bound
  as soon as there are as many nodes or tokens as features.
* Told apart: the number is the least relative difference between the outputs of two graphs.
"""


@dataclass(frozen=True)
class Check:
    """A theorem, the code that checks it, its error, ratio or difference, and what that must be."""

    theorem: str
    line: str
    number: float
    allowed: str


def law(theorem: str, line: str, *errors: float) -> Check:
    """What holds up to rounding."""
    return Check(theorem, line, max(errors), "≤ 1e-9")


def walks(n: int, decay: float | str, **options: Any) -> RandomWalkKernelConv:
    return drawn(RandomWalkKernelConv(D, K, n, decay, num_edge_types=NUM_TYPES, **options))


def relabelling(decay: float | str = "gated", **options: Any) -> WLKernelConv:
    return drawn(WLKernelConv(D, K, 3, 3, decay, num_edge_types=NUM_TYPES, **options))


def walk_checks(graphs: list[Data]) -> Iterator[Check]:
    """Layers that are kernels."""
    matches = partial(testing.assert_matches_kernel, graphs=graphs)
    line = "assert_matches_kernel({}, {}, graphs)"
    for decay, name in ((0.7, "theorem 3"), ("learned", "theorem 3, learned λ"), ("gated", "gated walks")):
        constant = decay if isinstance(decay, float) else 1.0
        errors = [matches(walks(n, decay), RandomWalkKernel(n, constant)) for n in (1, 2, 3, 4)]
        yield law(f"{name}, n = 1 … 4", line.format("layer", "RandomWalkKernel(n, decay)"), *errors)
    errors = [
        matches(walks(n, 0.7, compose="add"), DeepGraphKernel(1, n, 0.7, "add", "identity"))
        for n in (1, 2, 3)
    ]
    kernel = 'DeepGraphKernel(1, n, decay, "add", "identity")'
    yield law("equation (7) with sums, n = 1 … 3", line.format("layer", kernel), *errors)
    layers = (relabelling(0.7, act="tanh", readout=readout) for readout in ("sum", "last", "cat"))
    errors = [matches(layer, RandomWalkKernel(3, 0.7)) for layer in layers]
    yield law("proposition 2, L = 3", line.format("wl_layer", "RandomWalkKernel(n, decay)"), *errors)


def string_checks(strings: list[torch.Tensor]) -> Iterator[Check]:
    """String layers that are kernels, convolutions, or walks."""
    constant: tuple[Any, ...] = (0, 0.7, "learned")
    kernels, on_paths = testing.assert_matches_string_kernel, testing.assert_walks_on_strings
    claims: list[tuple[str, Callable[..., float], tuple[Any, ...], dict[str, Any]]] = [
        ("theorem 1", kernels, constant, {"normalize": False}),
        ("Table 4 (b): (1 − λ)ⁿ Z' times Table 5 (b)", kernels, constant, {}),
        ("Table 4 (c) in closed form", testing.assert_sums_tokens, constant, {"compose": "add"}),
        (
            "footnote 3: λ = 0 is the word CNN",
            testing.assert_is_word_cnn,
            (0,),
            {"compose": "add", "act": "tanh"},
        ),
        ("λ = 0: random walks on the path graph", on_paths, (0,), {}),
        ("any λ: random walks on its closure", on_paths, (0.7, "learned"), {}),
        ("gated by tokens: the same", on_paths, ("gated",), {}),
        ("gated by tokens and h: the same", on_paths, ("gated",), {"feedback": True}),
    ]
    for theorem, assertion, decays, options in claims:
        errors = [
            assertion(drawn(StringKernelConv(D, K, n, decay, **options)), strings)
            for n in (1, 2, 3)
            for decay in decays
        ]
        yield law(f"{theorem}, n = 1 … 3", f"{assertion.__name__}(layer, strings)", *errors)


def law_checks(graphs: list[Data], strings: list[torch.Tensor]) -> Iterator[Check]:
    """Laws of layers, kernels and sequence models."""
    wl = relabelling(act="tanh")
    for name, assertion in (
        ("numbering of nodes", testing.assert_permutation_equivariant),
        ("company in a batch", testing.assert_batching_invariant),
    ):
        yield law(name, f"{assertion.__name__}(layer, graphs)", assertion(wl, graphs))
    kernels = (
        RandomWalkKernel(3, 0.7),
        DeepGraphKernel(2, 2, 0.1, composition=Polynomial(2, 0.5)),
        WLSubtreeKernel(3),
        WLKernel(RandomWalkKernel(2), 2),
    )
    below = (testing.assert_psd(kernel, graphs) for kernel in kernels)
    yield law("kernels are positive semi-definite", "assert_psd(kernel, graphs)", *below)
    layer = drawn(StringKernelConv(D, D, 2, act="tanh", feedback=True, highway=True, readout="learned"))
    equal = torch.randn(8, 6, D, dtype=torch.float64)
    error = testing.assert_strings_independent(layer, strings[:20])
    yield law("strings in company, of NaN too", "assert_strings_independent(layer, strings)", error)
    error = testing.assert_resumes(layer, strings)
    yield law("strings interrupted anywhere", "assert_resumes(layer, strings)", error)
    error = testing.assert_layouts_agree(layer, equal)
    yield law("strings padded or end to end", "assert_layouts_agree(layer, x)", error)


def colour_checks(count: int) -> Iterator[Check]:
    """Weisfeiler-Lehman colours: what layers cannot and can tell apart."""
    graphs = random_graphs(count, seed=1, labels=True)
    theorem = f"equal colours, equal outputs ({nodes_alike(graphs, depth=4):,} nodes with neighbours)"
    line = "assert_colours_decide(layer, graphs)"
    yield law(theorem, line, testing.assert_colours_decide(relabelling(), graphs))

    def told_apart(theorem: str, pairs: Iterable[tuple[Data, Data]], **options: Any) -> Check:
        differences = []
        for first, second in pairs:
            told = first_difference(first, second, rounds=12)
            if told is not None:
                layer = drawn(WLKernelConv(D, 8, max(told, 1) + 1, act="tanh", **options))
                differences.append(testing.assert_tells_apart(layer, first, second))
        line = "assert_tells_apart(layer, first, second)"
        return Check(f"{theorem} ({len(differences)} pairs)", line, min(differences), "> 1e-12")

    graphs = random_graphs(count, seed=2, labels=True, no_isolated_nodes=True, plain_edges=True)
    yield told_apart("told apart, different outputs", zip(graphs[1::2], graphs[2::2], strict=False))
    alone = needing_relabelling()
    yield told_apart("told apart by relabelling alone", alone, num_edge_types=NUM_TYPES)


def containment_checks(count: int) -> Iterator[Check]:
    """Deep layers in the spaces of deep kernels."""
    choices = (
        ("square", Polynomial(2, 1.0), 0.5),
        ("quadratic", Polynomial(2, 0.5), 0.5),
        ("erf", Inverse(400.0), 0.01),
    )
    for name, composition, scale in choices:
        activation: Any = testing.ACTIVATIONS[name]  # layers take any function of tensors
        of_strings, of_graphs = [], []
        for depth in (2, 3):
            widths = [D, *[2] * (depth - 1)]
            for n in (1, 2):
                strings = [
                    drawn(StringKernelConv(width, 2, n, 0.5, normalize=False, act=activation), scale)
                    for width in widths
                ]
                kernel = DeepStringKernel(depth, n, 0.5, composition)
                for seed in range(count):
                    some = [scale * string[:3] for string in random_strings(4, seed)]
                    of_strings.append(testing.rkhs_ratios(strings, kernel, some, activation))
            for compose in ("mul", "add"):
                layers = [
                    drawn(DeepKernelConv(width, 2, 2, 0.5, compose=compose, act=activation), scale)
                    for width in widths
                ]
                graph_kernel = DeepGraphKernel(depth, 2, 0.5, compose, composition)
                for seed in range(count):
                    graphs = small_graphs(3, seed)
                    for graph in graphs:
                        graph.x = scale * graph.x
                    of_graphs.append(testing.rkhs_ratios(layers, graph_kernel, graphs, activation))
        line = "rkhs_ratios(layers, Deep{}Kernel(L, n, decay, …), {}s, activation)"
        for theorem, structure, found in ((2, "string", of_strings), (4, "graph", of_graphs)):
            for kind in found[0]:
                yield Check(
                    f"theorem {theorem}, {name} in {composition}, {kind.replace('sum', 'Σ')}",
                    line.format(structure.title(), structure),
                    max(ratios[kind] for ratios in found),
                    "≤ 1",
                )


def lemma_checks() -> Iterator[Check]:
    """Sigmoids in the space of 1 / (2 − k)."""
    with mpmath.workdps(120):
        x = exact(np.cos(np.pi * (np.arange(30) + 0.5) / 30))
        kernel = 1 / (2 - np.outer(x, x))

        def logistic(z: Any) -> Any:
            return 1 / (1 + mpmath.exp(-z))

        def norm(sigma: Callable[[Any], Any], w: float) -> Any:
            return testing.rkhs_norm(np.array([sigma(mpmath.mpf(w) * v) for v in x], dtype=object), kernel)[0]

        bound = testing.norms(testing.ACTIVATIONS["erf"], Inverse())(mpmath.mpf(1))
        line = 'rkhs_norm(values, 1 / (2 - x @ x.T))[0] <= norms(ACTIVATIONS["erf"], Inverse())(w @ w)'
        yield Check("lemma 1, erf, ‖w‖ = 1", line, float(norm(mpmath.erf, 1.0) / bound), "≤ 1")
        growth = norm(logistic, 4.0) / norm(logistic, 1.0)
        yield Check(
            "lemma 1 fails for the logistic function, ‖w‖ > π/√2",
            "rkhs_norm(values, 1 / (2 - x @ x.T))[0], ‖w‖ = 4 beside ‖w‖ = 1",
            float(growth),
            "no bound",
        )


@dataclass
class TheoremOptions(TableOptions):
    """What is checked, and where results go.

    Args:
        quick: Few graphs: only to see that everything works.
        graphs: Graphs, or strings, for each theorem.
    """

    graphs: PositiveInt = 300


def checks(options: TheoremOptions, known: Known) -> Iterator[Check]:
    """All theorems."""
    known["graphs"] = count = 10 if options.quick else options.graphs
    graphs, strings = random_graphs(count), random_strings(count)
    yield from walk_checks(graphs)
    yield from string_checks(strings)
    yield from law_checks(graphs, strings)
    yield from colour_checks(2 * count)
    yield from containment_checks(1 if options.quick else 10)
    yield from lemma_checks()


def shown(checks: Sequence[Check]) -> Rows:
    """The table of all checks, its header first."""
    rows = [(check.theorem, f"`{check.line}`", f"{check.number:.2g}", check.allowed) for check in checks]
    return [("theorem", "checked by", "number", "allowed"), *rows]


main = Race(
    "theorems",
    __doc__,
    TheoremOptions,
    "Theorems in numbers",
    LEGEND,
    checks,
    show=shown,
    entry="checks",
).main
