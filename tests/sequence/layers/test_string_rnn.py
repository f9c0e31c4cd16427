from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pack_sequence, unpack_sequence

from tests.checks.equations import randomize
from tests.inputs.strings import LENGTHS, end_to_end, normal, ptr_of
from wlkernelnn.sequence import (
    RKM,
    RRNN,
    RRNNGRU,
    Bidirectional,
    LanguageModel,
    RecurrentKernelMachine,
    Stack,
    StringKernelConv,
    StringKernelNetwork,
    StringModel,
    StringRNN,
    WeightDrop,
    detached,
    path_graph,
    to_list,
)
from wlkernelnn.testing.string_laws import parts
from wlkernelnn.training import load_checkpoint, save_checkpoint

D, K = 3, 4
CELLS: dict[str, Callable[[int], StringModel]] = {
    "string_kernel": lambda width: StringKernelConv(width, K, 2, feedback=True, act="tanh"),
    "string_kernel-module": lambda width: StringKernelConv(width, K, act=torch.nn.Softplus(2.0)),
    "rkm": lambda width: RKM(width, K, ngram=(1, 3, 2, 1), layer_norm="state"),
    "rkm-linear": lambda width: RKM(width, K, "linear", sigma_f2="learned", feedback=False),
    "kernel_machine": lambda width: RecurrentKernelMachine(width, K, "gaussian", ngram=2),
    "rrnn": lambda width: RRNN(width, K, 2, 2),
    "rrnn-gru": lambda width: RRNNGRU(width, K, 2),
    "weight_drop": lambda width: WeightDrop(RKM(width, K), "lin_h.weight", 0.5),
}
ALL_CELLS = pytest.mark.parametrize("make", CELLS.values(), ids=CELLS)
SETS = pytest.mark.parametrize("lengths", LENGTHS.values(), ids=LENGTHS)
Make = Callable[[int], StringModel]


def drawn(model: StringModel) -> StringModel:
    randomize(model)
    return model.eval()


def by_hand(model: StringModel, strings: list[Tensor], state: object = None) -> tuple[list[Tensor], object]:
    """A model of both directions: one reads each string, the other one each string turned round."""
    cell, reverse = model.cell, model.reverse
    before = (None, None) if state is None else state
    onward, last = cell(*end_to_end(strings), before[0])
    back, first = reverse(*end_to_end([string.flip(0) for string in strings]), before[1])
    ptr = ptr_of([len(string) for string in strings])
    pairs = zip(to_list(onward, ptr), to_list(back, ptr), strict=True)
    return [torch.cat([one, other.flip(0)], 1) for one, other in pairs], (last, first)


def close(one: object, other: object) -> None:
    for a, b in zip(parts(one), parts(other), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)


@pytest.mark.halved
@ALL_CELLS
@SETS
def test_each_direction_by_hand(make: Make, lengths: list[int]) -> None:
    model, strings = drawn(Bidirectional(make(D))), [normal(length, D) for length in lengths]
    if not strings:
        out, state = model(normal(0, D), ptr_of([]))
        assert out.shape == (0, 2 * K)
        return
    x, ptr = end_to_end(strings)
    out, state = model(x, ptr)
    expected, expected_state = by_hand(model, strings)
    close(out, torch.cat(expected))
    close(state, expected_state)
    # States are taken back, each by its direction.
    out, after = model(x, ptr, state)
    expected, expected_after = by_hand(model, strings, state)
    close(out, torch.cat(expected))
    close(after, expected_after)


@ALL_CELLS
def test_layers_by_hand(make: Make) -> None:
    model, strings = drawn(StringRNN(make(D), 3, bidirectional=True)), [normal(n, D) for n in (2, 0, 4, 1)]
    assert (model.in_channels, model.out_channels) == (D, 2 * K)
    out, state = model(*end_to_end(strings))
    states, h = [], strings
    for layer in model.layers:
        assert isinstance(layer, Bidirectional)
        assert layer.in_channels == h[0].size(1)
        h, of_layer = by_hand(layer, h)
        states.append(of_layer)
    close(out, torch.cat(h))
    close(state, tuple(states))


@ALL_CELLS
def test_one_direction_is_a_stack(make: Make) -> None:
    cell = make(D)
    model = drawn(StringRNN(cell, 2))
    assert model.layers[0] is cell
    assert type(model.layers[1]) is type(cell)
    x, ptr = end_to_end([normal(n, D) for n in (3, 1)])
    close(model(x, ptr), Stack(list(model.layers))(x, ptr))
    assert model(x, ptr)[0].shape == (4, K)


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(make, id=name, marks=[pytest.mark.slow] if name in ("rrnn", "rrnn-gru") else [])
        for name, make in CELLS.items()
    ],
)
def test_gradients(make: Make) -> None:
    """Those of every weight, of the tokens and of the states, by differences."""
    model, (x, ptr) = (
        drawn(StringRNN(make(2), 2, bidirectional=True)),
        end_to_end([normal(n, 2) for n in (2, 0, 1)]),
    )
    _, state = model(x, ptr)

    def total(x: Tensor, state: object) -> Tensor:
        out, after = model(x, ptr, state)
        weights = torch.linspace(-1, 1, out.numel(), dtype=out.dtype).view(out.shape)
        return (out * weights).sum() + sum(part.square().sum() for part in parts(after))

    x.requires_grad_()
    before = detached(state)
    leaves = [x, *(part.requires_grad_() for part in parts(before)), *model.parameters()]
    gradients = torch.autograd.grad(total(x, before), leaves, materialize_grads=True)
    assert all(bool(grad.any()) for grad in gradients[: 1 + len(parts(before))][:2])
    step = 1e-6
    for leaf, grad in zip(leaves, gradients, strict=True):
        if not leaf.numel():
            continue
        way = torch.randn_like(leaf)
        found = []
        for sign in (1, -1):
            with torch.no_grad():
                leaf += sign * step * way
                found.append(float(total(x, before)))
                leaf -= sign * step * way
        numeric = (found[0] - found[1]) / (2 * step)
        assert float((grad * way).sum()) == pytest.approx(numeric, rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("bidirectional", [False, True], ids=["onward", "both"])
def test_torchs_lstm(bidirectional: bool) -> None:
    """With torch's weights: outputs, the order of flattened states, and states that go on."""
    torch.manual_seed(0)
    lstm = torch.nn.LSTM(D, K, 2, batch_first=True, bidirectional=bidirectional).double()
    model = StringRNN(RKM(D, K, "lstm", layer_norm=False), 2, bidirectional).double()
    for number, layer in enumerate(model.layers):
        cells = (layer.cell, layer.reverse) if bidirectional else (layer,)
        for cell, suffix in zip(cells, ("", "_reverse"), strict=False):
            take_weights(cell, lstm, f"l{number}{suffix}")
    x = normal(5, 6, D)
    for inputs in (x, pack_padded_sequence(x, torch.tensor([2, 6, 6, 1, 4]), True, enforce_sorted=False)):
        expected, (h, c) = lstm(inputs)
        out, state = model(inputs)
        same_rows(out, expected)
        ours = parts(state)  # c and h of every layer and direction
        torch.testing.assert_close(torch.stack(ours[0::2]), c)
        torch.testing.assert_close(torch.stack(ours[1::2]), h)
        same_rows(model(inputs, state=state)[0], lstm(inputs, (h, c))[0])


def take_weights(cell: RKM, lstm: torch.nn.LSTM, name: str) -> None:
    """torch's order is i, f, c̃, o; ours c̃, i, f, o."""

    def ours(value: Tensor) -> Tensor:
        i, f, cell, o = value.chunk(4)
        return torch.cat([cell, i, f, o])

    with torch.no_grad():
        cell.lins[0].weight.copy_(ours(getattr(lstm, f"weight_ih_{name}")))
        cell.lin_h.weight.copy_(ours(getattr(lstm, f"weight_hh_{name}")))
        cell.bias.copy_(ours(getattr(lstm, f"bias_ih_{name}") + getattr(lstm, f"bias_hh_{name}")))


def same_rows(out: Tensor | PackedSequence, expected: Tensor | PackedSequence) -> None:
    if isinstance(expected, PackedSequence):
        assert isinstance(out, PackedSequence)
        assert torch.equal(out.batch_sizes, expected.batch_sizes)
        assert torch.equal(out.unsorted_indices, expected.unsorted_indices)
        out, expected = out.data, expected.data
    torch.testing.assert_close(out, expected)


@pytest.mark.halved
@ALL_CELLS
@pytest.mark.parametrize(
    ("lengths", "enforce_sorted"),
    [([2, 4, 1, 4, 3], False), ([4, 3, 3, 1], True), ([3, 3, 3], False), ([3, 3], True), ([5], False)],
    ids=str,
)
def test_packed_strings(make: Make, lengths: list[int], enforce_sorted: bool) -> None:
    """In and out, as the same strings end to end; states are in the order of the strings."""
    model, strings = drawn(StringRNN(make(D), 2, bidirectional=True)), [normal(n, D) for n in lengths]
    x, ptr = end_to_end(strings)
    packed = pack_sequence(strings, enforce_sorted)
    expected, expected_state = model(x, ptr)
    out, state = model(packed)
    close(torch.cat(unpack_sequence(out)), expected)
    close(state, expected_state)
    again, after = model(packed, state=state)
    expected, expected_after = model(x, ptr, expected_state)
    close(torch.cat(unpack_sequence(again)), expected)
    close(after, expected_after)
    graph = path_graph(out)
    assert torch.equal(graph.ptr, ptr)


def test_packed_strings_of_any_order() -> None:
    """Ties may stand in any order: the indices say which."""
    x = [normal(2, D) for _ in range(3)]
    order = torch.tensor([2, 0, 1])
    data = torch.stack([x[i] for i in order], 1).reshape(-1, D)
    packed = PackedSequence(data, torch.tensor([3, 3]), order)
    model = drawn(StringRNN(RKM(D, K)))
    out, state = model(packed)
    expected, expected_state = model(torch.stack(x))
    close(torch.stack(unpack_sequence(out)), expected)
    close(state, expected_state)


def test_packed_strings_have_gradients() -> None:
    model, strings = drawn(StringRNN(RKM(D, K), 2, True)), [normal(n, D).requires_grad_() for n in (1, 3)]
    out, _ = model(pack_sequence(strings, enforce_sorted=False))
    found = torch.autograd.grad(out.data.square().sum(), strings)
    out, _ = model(*end_to_end(strings))
    close(found, torch.autograd.grad(out.square().sum(), strings))


def test_bad_packed_strings() -> None:
    model, packed = StringRNN(RKM(D, K)), pack_sequence([torch.zeros(2, D)])
    with pytest.raises(ValueError, match="StringRNN takes no ptr beside a PackedSequence"):
        model(packed, [0, 2])
    with pytest.raises(ValueError, match=r"StringRNN reads tokens of 3 values, got x of shape \[2, 4\]"):
        model(pack_sequence([torch.zeros(2, D + 1)]))
    with pytest.raises(ValueError, match="needs states of 1 strings"):
        model(packed, state=((torch.zeros(2, K), torch.zeros(2, K)),))


def test_states_carry_over_truncated_back_propagation() -> None:
    """Onward layers read a text in pieces as at once; of both directions each keeps its own state."""
    model, x = drawn(StringRNN(RKM(D, K, ngram=2), 2)), normal(2, 7, D)
    whole, last = model(x)
    pieces, state = [], None
    for piece in x.split(3, 1):
        out, state = model(piece, state=state)
        state = detached(state)
        pieces.append(out)
    close(torch.cat(pieces, 1), whole)
    close(state, last)


def test_dropout_is_between_layers() -> None:
    cell = StringKernelConv(30, 30, 1, 0.0)
    model = StringRNN(cell, 2, dropout=0.25, jumping="cat")
    for layer in model.layers:
        torch.nn.init.eye_(layer.lins[0].weight)
    first, second = model(torch.ones(40, 30), [0, 40])[0].split(30, 1)
    assert bool((first == 1).all())
    torch.testing.assert_close(second.unique(), torch.tensor([0, 1 / 0.75]))
    assert model.eval()(torch.ones(40, 30), [0, 40])[0].unique().tolist() == [1]


def test_new_cells_have_own_weights_of_the_same_kind() -> None:
    cell = RKM(D, K, "rkm_cifg", ngram=2, forget_bias=3.0).double()
    model = StringRNN(cell, 2, True)
    cells = [each for layer in model.layers for each in (layer.cell, layer.reverse)]
    assert [each.in_channels for each in cells] == [D, D, 2 * K, 2 * K]
    assert {each.variant for each in cells} == {"rkm_cifg"}
    assert {each.lin_h.weight.dtype for each in cells} == {torch.float64}
    assert len({each.lin_h.weight.sum().item() for each in cells}) == 4


def test_activations_with_weights_are_not_shared() -> None:
    network = StringKernelNetwork(3, 4, 3, bidirectional=True, act=torch.nn.PReLU())
    found = [module for module in network.modules() if isinstance(module, torch.nn.PReLU)]
    assert len(found) == 6  # of each layer and direction


def test_lazy_widths() -> None:
    model = StringRNN(StringKernelConv(-1, K), 2, True)
    assert model.in_channels == -1
    model(torch.zeros(1, 2, D))
    assert model.in_channels == D
    assert model.layers[0].reverse.lins[0].weight.shape == (K, D)


def test_string_kernel_networks_of_both_directions() -> None:
    network = drawn(StringKernelNetwork(D, K, 2, jumping="cat", bidirectional=True, ngram=1))
    assert network.out_channels == 4 * K
    x, ptr = end_to_end([normal(n, D) for n in (2, 0, 3)])
    close(network(x, ptr), Stack(list(network.layers), jumping="cat")(x, ptr))


def test_saved_and_loaded(tmp_path: Path) -> None:
    for cell in (RecurrentKernelMachine(D, K, "polynomial"), WeightDrop(RKM(D, K), "lin_h.weight", 0.5)):
        model = StringRNN(cell, 2, True, dropout=0.1).eval()
        save_checkpoint(tmp_path / "model", model)
        loaded, _ = load_checkpoint(tmp_path / "model")
        x = torch.randn(2, 3, D)
        close(loaded(x), model(x))


def test_bad_arguments() -> None:
    with pytest.raises(TypeError, match="cell must be a sequence model, got LSTM"):
        StringRNN(torch.nn.LSTM(D, K))
    with pytest.raises(TypeError, match="reverse must be a sequence model, got int"):
        Bidirectional(RKM(D, K), 3)
    with pytest.raises(ValueError, match="reverse must read tokens of 3 values as cell does, got 4"):
        Bidirectional(RKM(D, K), RKM(D + 1, K))
    with pytest.raises(ValueError, match="num_layers"):
        StringRNN(RKM(D, K), 0)
    with pytest.raises(ValueError, match="cell must be made with in_channels, Stack is not"):
        StringRNN(Stack([RKM(D, K)]), 2)
    with pytest.raises(ValueError, match="a tuple of the states of 2 directions, got 1 of them"):
        Bidirectional(RKM(D, K))(torch.zeros(1, 1, D), state=(torch.zeros(1, K),))
    with pytest.raises(ValueError, match="reads from the right"):
        LanguageModel(10, StringRNN(RKM(D, K), bidirectional=True), tied=False)
