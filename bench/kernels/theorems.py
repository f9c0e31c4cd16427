"""The papers' theorems, checked in numbers: each with the line that checks it, and its error."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
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

from . import theorem_samples as samples

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
    """One theorem.

    Attributes:
        theorem: Which.
        line: The code that checks it.
        number: Its error, ratio or difference.
        allowed: What it must be, for people.
    """

    theorem: str
    line: str
    number: float
    allowed: str


def walk_checks(graphs: list[Data]) -> Iterator[Check]:
    """Layers that are kernels."""
    line = "assert_matches_kernel(layer, RandomWalkKernel(n, decay), graphs)"
    for decay, name in ((0.7, "theorem 3"), ("learned", "theorem 3, learned λ"), ("gated", "gated walks")):
        constant = decay if isinstance(decay, float) else 1.0
        errors = []
        for n in (1, 2, 3, 4):
            layer = samples.drawn(
                RandomWalkKernelConv(samples.D, samples.K, n, decay, num_edge_types=samples.NUM_TYPES)
            )
            errors.append(testing.assert_matches_kernel(layer, RandomWalkKernel(n, constant), graphs))
        yield Check(f"{name}, n = 1 … 4", line, max(errors), "≤ 1e-9")
    errors = []
    for n in (1, 2, 3):
        layer = samples.drawn(
            RandomWalkKernelConv(
                samples.D, samples.K, n, 0.7, compose="add", num_edge_types=samples.NUM_TYPES
            )
        )
        errors.append(
            testing.assert_matches_kernel(layer, DeepGraphKernel(1, n, 0.7, "add", "identity"), graphs)
        )
    line = 'assert_matches_kernel(layer, DeepGraphKernel(1, n, decay, "add", "identity"), graphs)'
    yield Check("equation (7) with sums, n = 1 … 3", line, max(errors), "≤ 1e-9")
    errors = []
    for readout in ("sum", "last", "cat"):
        wl = samples.drawn(
            WLKernelConv(
                samples.D, samples.K, 3, 3, 0.7, num_edge_types=samples.NUM_TYPES, act="tanh", readout=readout
            )
        )
        errors.append(testing.assert_matches_kernel(wl, RandomWalkKernel(3, 0.7), graphs))
    line = "assert_matches_kernel(wl_layer, RandomWalkKernel(n, decay), graphs)"
    yield Check("proposition 2, L = 3", line, max(errors), "≤ 1e-9")


def string_checks(strings: list[torch.Tensor]) -> Iterator[Check]:
    """String layers that are kernels, convolutions, or walks."""
    constant: tuple[Any, ...] = (0, 0.7, "learned")

    def check(
        theorem: str, assertion: Callable[..., float], decays: tuple[Any, ...], **options: Any
    ) -> Check:
        errors = [
            assertion(samples.drawn(StringKernelConv(samples.D, samples.K, n, decay, **options)), strings)
            for n in (1, 2, 3)
            for decay in decays
        ]
        return Check(f"{theorem}, n = 1 … 3", f"{assertion.__name__}(layer, strings)", max(errors), "≤ 1e-9")

    yield check("theorem 1", testing.assert_matches_string_kernel, constant, normalize=False)
    yield check("Table 4 (b): (1 − λ)ⁿ Z' times Table 5 (b)", testing.assert_matches_string_kernel, constant)
    yield check("Table 4 (c) in closed form", testing.assert_sums_tokens, constant, compose="add")
    yield check(
        "footnote 3: λ = 0 is the word CNN", testing.assert_is_word_cnn, (0,), compose="add", act="tanh"
    )
    yield check("λ = 0: random walks on the path graph", testing.assert_walks_on_strings, (0,))
    yield check("any λ: random walks on its closure", testing.assert_walks_on_strings, (0.7, "learned"))
    yield check("gated by tokens: the same", testing.assert_walks_on_strings, ("gated",))
    yield check("gated by tokens and h: the same", testing.assert_walks_on_strings, ("gated",), feedback=True)


def string_law_checks(strings: list[torch.Tensor]) -> Iterator[Check]:
    """Laws of sequence models."""
    layer = samples.drawn(
        StringKernelConv(samples.D, samples.D, 2, act="tanh", feedback=True, highway=True, readout="learned")
    )
    equal = torch.randn(8, 6, samples.D, dtype=torch.float64)
    for name, line, error in (
        (
            "strings in company, of NaN too",
            "assert_strings_independent(layer, strings)",
            testing.assert_strings_independent(layer, strings[:20]),
        ),
        (
            "strings interrupted anywhere",
            "assert_resumes(layer, strings)",
            testing.assert_resumes(layer, strings),
        ),
        (
            "strings padded or end to end",
            "assert_layouts_agree(layer, x)",
            testing.assert_layouts_agree(layer, equal),
        ),
    ):
        yield Check(name, line, error, "≤ 1e-9")


def law_checks(graphs: list[Data]) -> Iterator[Check]:
    """Laws of layers and kernels."""
    layer = samples.drawn(
        WLKernelConv(samples.D, samples.K, 3, 3, num_edge_types=samples.NUM_TYPES, act="tanh")
    )
    yield Check(
        "numbering of nodes",
        "assert_permutation_equivariant(layer, graphs)",
        testing.assert_permutation_equivariant(layer, graphs),
        "≤ 1e-9",
    )
    yield Check(
        "company in a batch",
        "assert_batching_invariant(layer, graphs)",
        testing.assert_batching_invariant(layer, graphs),
        "≤ 1e-9",
    )
    kernels = (
        RandomWalkKernel(3, 0.7),
        DeepGraphKernel(2, 2, 0.1, composition=Polynomial(2, 0.5)),
        WLSubtreeKernel(3),
        WLKernel(RandomWalkKernel(2), 2),
    )
    below = max(testing.assert_psd(kernel, graphs) for kernel in kernels)
    yield Check("kernels are positive semi-definite", "assert_psd(kernel, graphs)", below, "≤ 1e-9")


def colour_checks(count: int) -> Iterator[Check]:
    """Weisfeiler-Lehman colours: what layers cannot and can tell apart."""
    graphs = samples.random_graphs(count, seed=1, labels=True)
    layer = samples.drawn(WLKernelConv(samples.D, samples.K, 3, 3, num_edge_types=samples.NUM_TYPES))
    line, alike = "assert_colours_decide(layer, graphs)", samples.nodes_alike(graphs, depth=4)
    yield Check(
        f"equal colours, equal outputs ({alike:,} nodes with neighbours)",
        line,
        testing.assert_colours_decide(layer, graphs),
        "≤ 1e-9",
    )
    graphs = samples.random_graphs(count, seed=2, labels=True, no_isolated_nodes=True, plain_edges=True)
    differences = []
    for first, second in zip(graphs[1::2], graphs[2::2], strict=False):
        told = first_difference(first, second, rounds=12)
        if told is not None:
            layer = samples.drawn(WLKernelConv(samples.D, 8, max(told, 1) + 1, act="tanh"))
            differences.append(testing.assert_tells_apart(layer, first, second))
    line = "assert_tells_apart(layer, first, second)"
    yield Check(
        f"told apart, different outputs ({len(differences)} pairs)", line, min(differences), "> 1e-12"
    )
    differences = []
    for first, second in samples.needing_relabelling():
        told = first_difference(first, second, rounds=12)
        assert told is not None
        layer = samples.drawn(
            WLKernelConv(samples.D, 8, told + 1, num_edge_types=samples.NUM_TYPES, act="tanh")
        )
        differences.append(testing.assert_tells_apart(layer, first, second))
    yield Check("told apart by relabelling alone (3 pairs)", line, min(differences), "> 1e-12")


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
            widths = [samples.D if i == 0 else 2 for i in range(depth)]
            for n in (1, 2):
                strings = [
                    samples.drawn(StringKernelConv(width, 2, n, 0.5, normalize=False, act=activation), scale)
                    for width in widths
                ]
                kernel = DeepStringKernel(depth, n, 0.5, composition)
                for seed in range(count):
                    some = [scale * string[:3] for string in samples.random_strings(4, seed)]
                    of_strings.append(testing.rkhs_ratios(strings, kernel, some, activation))
            for compose in ("mul", "add"):
                layers = [
                    samples.drawn(DeepKernelConv(width, 2, 2, 0.5, compose=compose, act=activation), scale)
                    for width in widths
                ]
                graph_kernel = DeepGraphKernel(depth, 2, 0.5, compose, composition)
                for seed in range(count):
                    graphs = samples.small_graphs(3, seed)
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

        def norm(sigma: Callable[[Any], Any], w: float) -> Any:
            return testing.rkhs_norm(np.array([sigma(mpmath.mpf(w) * v) for v in x], dtype=object), kernel)[0]

        bound = testing.norms(testing.ACTIVATIONS["erf"], Inverse())(mpmath.mpf(1))
        line = 'rkhs_norm(values, 1 / (2 - x @ x.T))[0] <= norms(ACTIVATIONS["erf"], Inverse())(w @ w)'
        yield Check("lemma 1, erf, ‖w‖ = 1", line, float(norm(mpmath.erf, 1.0) / bound), "≤ 1")
        growth = norm(lambda z: 1 / (1 + mpmath.exp(-z)), 4.0) / norm(lambda z: 1 / (1 + mpmath.exp(-z)), 1.0)
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
    known["graphs"] = count = 20 if options.quick else options.graphs
    graphs, strings = samples.random_graphs(count), samples.random_strings(count)
    yield from walk_checks(graphs)
    yield from string_checks(strings)
    yield from law_checks(graphs)
    yield from string_law_checks(strings)
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
