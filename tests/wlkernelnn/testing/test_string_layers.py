"""Theorem 1, the closed forms of Table 4, footnote 3 and the walks on strings, on drawn strings."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import combinations
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from torch import Tensor
from torch_geometric.data import Batch, Data

from tests.checks.equations import randomize
from tests.checks.pairwise import pairwise
from tests.inputs.strategies import strings
from wlkernelnn.ops.string import Steps
from wlkernelnn.sequence import StringKernelConv, path_graph
from wlkernelnn.testing import (
    assert_is_word_cnn,
    assert_matches_string_kernel,
    assert_sums_tokens,
    assert_walks_on_strings,
    reference_strings,
    subsequence_graph,
)
from wlkernelnn.testing import string_layers as string_layers_module

D, K = 2, 2
REPEAT = settings(max_examples=4, deadline=None, derandomize=True)
NGRAMS = [1, 2, 3]
DECAYS = [0, 0.6, 1, "learned"]
NORMALIZE = [False, True]


def made(**options: Any) -> StringKernelConv:
    layer = StringKernelConv(D, K, **{"normalize": False, "decay": 0.6, **options})
    randomize(layer)
    return layer


def fixed() -> list[Tensor]:
    generator = torch.Generator().manual_seed(5)
    return [torch.randn(length, D, dtype=torch.float64, generator=generator) for length in (4, 0, 1, 3)]


Assertion = Callable[..., float]


def assert_always(assertion: Assertion, layer: StringKernelConv, allowed: float = 1e-12) -> None:
    @REPEAT
    @given(strings(D, max_strings=2, max_tokens=4))
    def check(some: list[Tensor]) -> None:
        assert assertion(layer, some) < allowed

    check()


@pytest.mark.halved
@pairwise(ngram=NGRAMS, decay=DECAYS, normalize=NORMALIZE)
def test_theorem_1(ngram: int, decay: Any, normalize: bool) -> None:
    """And Table 4 (b), which is (1 − λ)ⁿ Z' times the kernel of Table 5 (b)."""
    assert_always(assert_matches_string_kernel, made(ngram=ngram, decay=decay, normalize=normalize))


@pairwise(ngram=NGRAMS, decay=DECAYS, normalize=NORMALIZE)
def test_sums(ngram: int, decay: Any, normalize: bool) -> None:
    """Table 4 (c)."""
    layer = made(ngram=ngram, decay=decay, normalize=normalize, compose="add")
    assert_always(assert_sums_tokens, layer)


@pairwise(ngram=NGRAMS, act=[None, "tanh"])
def test_footnote_3(ngram: int, act: str | None) -> None:
    assert_always(assert_is_word_cnn, made(ngram=ngram, decay=0, compose="add", act=act))


@pytest.mark.halved
@pairwise(ngram=NGRAMS, normalize=NORMALIZE, decay=[*DECAYS, "gated", "feedback"])
def test_walks_on_strings(ngram: int, decay: Any, normalize: bool) -> None:
    options = {"decay": "gated", "feedback": True} if decay == "feedback" else {"decay": decay}
    assert_always(assert_walks_on_strings, made(ngram=ngram, normalize=normalize, **options))


@pytest.mark.halved
@pairwise(ngram=NGRAMS, normalize=NORMALIZE, decay=[*DECAYS, "gated", "feedback"])
def test_walks_on_graphs(ngram: int, decay: Any, normalize: bool) -> None:
    """Batches of PyG: strings, and trees with weights of edges."""
    options = {"decay": "gated", "feedback": True} if decay == "feedback" else {"decay": decay}
    layer = made(ngram=ngram, normalize=normalize, **options)
    tree = Data(x=fixed()[0], edge_index=torch.tensor([[0, 1, 2, 0], [2, 2, 3, 3]]))
    tree.edge_weight = torch.tensor([0.5, -1.0, 2.0, 1.0], dtype=torch.float64)
    for graph in (path_graph(fixed()), tree, Batch.from_data_list([tree, tree])):
        assert assert_walks_on_strings(layer, graph) < 1e-12
    with pytest.raises(ValueError, match=r"x of graph 0 is torch.float32: make it double\(\) first"):
        assert_walks_on_strings(layer, path_graph([torch.zeros(2, D, dtype=torch.float32)]))


@pytest.mark.parametrize(("feedback", "normalize"), [(False, True), (True, False)])
def test_gated_subsequences_one_by_one(feedback: bool, normalize: bool) -> None:
    """Each subsequence counts s of its own tokens, and λ of all others behind its first."""
    layer = made(ngram=2, decay="gated", feedback=feedback, normalize=normalize)
    (string, *_), steps = fixed(), 4
    first, second = (string @ lin.weight.detach().t() for lin in layer.lins)
    h, _ = layer(string, torch.tensor([0, steps]))
    seen = torch.cat([torch.zeros(1, K), h.detach()[:-1]])
    logits = string @ layer.decay.lins[-1].weight.t() + layer.decay.lins[-1].bias
    if feedback:
        logits = logits + seen @ layer.decay.lins[0].weight.t()
    gate = 1 / (1 + torch.exp(-logits.detach()))
    scale = 1 - gate if normalize else torch.ones_like(gate)
    for t in range(steps):
        total = torch.zeros(K, dtype=torch.float64)
        for i, k in combinations(range(t + 1), 2):
            weight = torch.ones(K, dtype=torch.float64)
            for r in range(i + 1, t + 1):
                weight = weight * (1 if r == k else gate[r])
            total += weight * scale[i] * first[i] * scale[k] * second[k]
        torch.testing.assert_close(h[t], total)


# The parts


def test_reference_strings() -> None:
    layer = made(ngram=3)
    references = reference_strings(layer)
    assert len(references) == K
    assert torch.equal(references[1], torch.stack([lin.weight[1] for lin in layer.lins]))
    assert torch.equal(reference_strings(layer, 2)[0], references[0][:2])


def test_subsequence_graph() -> None:
    string = torch.zeros(4, D)
    graph = subsequence_graph(string, 0.5)
    assert graph.edge_index.tolist() == [[0, 0, 0, 1, 1, 2], [1, 2, 3, 2, 3, 3]]
    assert graph.edge_weight.tolist() == [1, 0.5, 0.25, 1, 0.5, 1]
    graph = subsequence_graph(string, torch.tensor([9, 3, 2, 9]))
    assert graph.edge_weight.tolist() == [1, 3, 6, 1, 2, 1]
    forgetful = subsequence_graph(string, 0.0)
    assert torch.equal(forgetful.edge_index, path_graph([string]).edge_index)
    assert forgetful.edge_weight.tolist() == [1, 1, 1]
    assert subsequence_graph(string[:0], 0.5).edge_index.shape == (2, 0)


@pytest.mark.parametrize("ngram", [1, 3])
def test_weight_of_subsequences(ngram: int) -> None:
    for length in range(6):
        places = combinations(range(length), ngram)
        expected = math.fsum(0.7 ** (length - some[0] - ngram) for some in places)
        found = string_layers_module._weight_of_subsequences(length, ngram, 0.7)
        assert found == pytest.approx(expected, rel=1e-13)


# That the assertions notice.

BARE: dict[str, tuple[Assertion, dict[str, Any]]] = {
    "kernel": (assert_matches_string_kernel, {"ngram": 3}),
    "sums": (assert_sums_tokens, {"ngram": 3, "compose": "add"}),
    "cnn": (assert_is_word_cnn, {"ngram": 3, "compose": "add", "decay": 0}),
    "walks": (assert_walks_on_strings, {"ngram": 3, "decay": "gated"}),
}
ALL_BARE = pytest.mark.parametrize(("assertion", "options"), BARE.values(), ids=BARE)


@ALL_BARE
def test_a_wrong_output_is_found_out(assertion: Assertion, options: dict[str, Any]) -> None:
    layer = made(**options)
    assertion(layer, fixed())
    handle = layer.register_forward_hook(lambda module, inputs, out: (out[0] * (1 + 1e-8), out[1]))
    with pytest.raises(AssertionError, match="allowed is 1e-09"):
        assertion(layer, fixed())
    handle.remove()
    layer.register_forward_hook(lambda module, inputs, out: (out[0] * torch.nan, out[1]))
    with pytest.raises(AssertionError, match="not finite"):
        assertion(layer, fixed())


@ALL_BARE
def test_a_leak_is_found_out(assertion: Assertion, options: dict[str, Any]) -> None:
    """A recurrence that reads on from string to string."""

    class Leaky(StringKernelConv):
        def run(self, x: Tensor, steps: Steps, state: Any) -> Any:
            x, glued = steps.leave(x), Steps(steps.ptr[[0, -1]])
            out, _ = super().run(x, glued, None)
            ends = (steps.ptr[1:] - 1).clamp(min=0)
            return steps.enter(out), out[ends].expand(self.ngram, -1, -1)

    layer = Leaky(D, K, **{"normalize": False, "decay": 0.6, **options})
    randomize(layer)
    with pytest.raises(AssertionError, match="relative error"):
        assertion(layer, fixed())


@pytest.mark.parametrize("j", [1, 2, 3])
def test_a_wrong_state_is_found_out(j: int) -> None:
    """Also of a j < n that the output does not show."""
    layer = made(ngram=3)

    def spoil(module: Any, inputs: Any, out: Any) -> Any:
        state = out[1].clone()
        state[j - 1] *= 1 + 1e-8
        return out[0], state

    layer.register_forward_hook(spoil)
    for assertion in (assert_matches_string_kernel, assert_walks_on_strings):
        with pytest.raises(AssertionError, match=f"c_{j}: relative error"):
            assertion(layer, fixed())


@pytest.mark.parametrize("switch", [{"normalize": True}, {"decay": 0.61}], ids=str)
def test_another_layer_is_another_kernel(switch: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """The identities of one layer do not hold for the states of another."""
    layer, other = made(ngram=2), made(ngram=2, **switch)
    other.load_state_dict(layer.state_dict())
    states = string_layers_module.prefix_states(other, fixed())
    monkeypatch.setattr(string_layers_module, "prefix_states", lambda *_: states)
    for assertion in (assert_matches_string_kernel, assert_walks_on_strings):
        with pytest.raises(AssertionError, match=r"c_[12]: relative error"):
            assertion(layer, fixed())


@pytest.mark.parametrize(
    ("assertion", "layer", "message"),
    [
        (assert_matches_string_kernel, made(compose="add"), 'layers with compose="mul", got "add"'),
        (assert_sums_tokens, made(), 'layers with compose="add", got "mul"'),
        (assert_walks_on_strings, made(act="tanh"), "see assert_in_rkhs"),
        (assert_walks_on_strings, made(readout="sum"), 'readout="last", without highway'),
        (assert_matches_string_kernel, made(decay="gated"), "see assert_walks_on_strings"),
        (assert_is_word_cnn, made(compose="add"), "a word CNN has decay=0"),
        (assert_is_word_cnn, made(decay=0), 'compose="add"'),
        (assert_matches_string_kernel, StringKernelConv(D, K), "make the layer double"),
    ],
    ids=lambda value: getattr(value, "__name__", None) or str(value)[:24],
)
def test_layers_that_are_none_of_these(assertion: Assertion, layer: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        assertion(layer, fixed())


def test_nothing_to_check() -> None:
    with pytest.raises(ValueError, match="strings holds no token"):
        assert_matches_string_kernel(made(ngram=3), [torch.zeros(0, D)])
    with pytest.raises(ValueError, match="strings holds no token"):
        assert_is_word_cnn(made(ngram=3, compose="add", decay=0), [torch.zeros(0, D)])
