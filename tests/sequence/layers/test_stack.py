from __future__ import annotations

import pytest
import torch

from tests.checks.equations import randomize
from tests.inputs.strings import end_to_end, normal, ptr_of
from wlkernelnn.sequence import RKM, Stack, StringKernelConv, StringKernelNetwork

D = 3


def layers() -> list[StringKernelConv]:
    found = [
        StringKernelConv(D, 4, 1),
        StringKernelConv(4, 2, 2, feedback=True),
        StringKernelConv(2, 2, 1, 0.5),
    ]
    for layer in found:
        randomize(layer)
    return found


@pytest.mark.parametrize("jumping", ["last", "sum", "cat"])
def test_layers_read_what_the_layer_before_wrote(jumping: str) -> None:
    parts = layers()
    if jumping == "sum":
        parts = [StringKernelConv(D, 2, 1).double(), parts[2]]  # of one width
    stack, (x, ptr) = (
        Stack(parts, jumping=jumping),
        end_to_end([normal(length, D) for length in (3, 0, 1, 4)]),
    )
    state = tuple(normal(layer.ngram + layer.feedback, 4, layer.out_channels) for layer in parts)
    came, after = stack(x, ptr, state)
    outputs, expected_after, h = [], [], x
    for layer, before in zip(parts, state, strict=True):
        h, last = layer(h, ptr, before)
        outputs.append(h)
        expected_after.append(last)
    expected = torch.cat(outputs, dim=1) if jumping == "cat" else h
    if jumping == "sum":
        expected = torch.stack(outputs).sum(0)
    torch.testing.assert_close(came, expected)
    assert isinstance(after, tuple)
    for one, other in zip(after, expected_after, strict=True):
        torch.testing.assert_close(one, other)
    assert (stack.in_channels, stack.out_channels) == (D, expected.size(1))


def test_dropout_is_between_layers_only() -> None:
    """The first layer sees all of x, the output is whole; what lies between is 0 or 1 / (1 − p)."""
    parts = [StringKernelConv(30, 30, 1, 0.0), StringKernelConv(30, 30, 1, 0.0)]
    for layer in parts:
        torch.nn.init.eye_(layer.lins[0].weight)
    stack = Stack(parts, dropout=0.25, jumping="cat")
    first, second = stack(torch.ones(40, 30), ptr_of([30, 10]))[0].split(30, dim=1)
    assert bool((first == 1).all())
    values, counts = second.unique(return_counts=True)
    torch.testing.assert_close(values, torch.tensor([0, 1 / 0.75]))
    assert 0.2 < counts[0] / second.numel() < 0.3
    alone = Stack(parts[:1], dropout=0.25)
    assert bool((alone(torch.ones(4, 30), ptr_of([4]))[0] == 1).all())
    assert bool((stack.eval()(torch.ones(4, 30), ptr_of([4]))[0] == 1).all())


def test_locked_dropout_is_one_mask_a_string() -> None:
    """As above, but what is dropped is dropped at all tokens of its string."""
    parts = [StringKernelConv(30, 30, 1, 0.0), StringKernelConv(30, 30, 1, 0.0)]
    for layer in parts:
        torch.nn.init.eye_(layer.lins[0].weight)
    stack = Stack(parts, dropout=0.25, locked=True)
    out, _ = stack(torch.ones(43, 30), ptr_of([30, 3, 10]))
    strings = out.split([30, 3, 10])
    for string in strings:
        assert torch.equal(string, string[:1].expand_as(string))
    assert not torch.equal(strings[0][0], strings[2][0])
    torch.testing.assert_close(out.unique(), torch.tensor([0, 1 / 0.75]))
    assert bool((stack.eval()(torch.ones(4, 30), ptr_of([4]))[0] == 1).all())


def test_states_that_do_not_match() -> None:
    stack, x = Stack(layers()), normal(2, 3, D)
    _, state = stack(x)
    with pytest.raises(ValueError, match="a tuple of the states of 3 layers, got 2 of them"):
        stack(x, state=state[:2])
    with pytest.raises(ValueError, match="a tuple of the states of 3 layers, got Tensor"):
        stack(x, state=state[0])
    with pytest.raises(ValueError, match=r"needs a state of shape \[1, 2, 4\], got \[3, 2, 2\]"):
        stack(x, state=(state[1], state[1], state[2]))


def test_bad_arguments() -> None:
    with pytest.raises(ValueError, match="at least one layer, got none"):
        Stack([])
    with pytest.raises(TypeError, match="layer 1 must be a sequence model, got Linear"):
        Stack([StringKernelConv(3, 4), torch.nn.Linear(4, 4)])
    for dropout in (1.0, -0.5):
        with pytest.raises(ValueError, match=rf"dropout must be in \[0, 1\), got {dropout}"):
            Stack(layers(), dropout=dropout)
    with pytest.raises(ValueError, match="jumping must be one of last, sum, cat, got 'max'"):
        Stack(layers(), jumping="max")
    with pytest.raises(ValueError, match=r'jumping="sum" needs layers of one width, got \[4, 2, 2\]'):
        Stack(layers(), jumping="sum")


def test_layers_that_do_not_fit() -> None:
    with pytest.raises(ValueError, match="layer 1 writes 5 values, layer 2 reads 4"):
        Stack([StringKernelConv(3, 4), StringKernelConv(4, 5), StringKernelConv(4, 4)])
    Stack([StringKernelConv(3, 4), StringKernelConv(-1, 5)])


def test_lazy_layers_know_their_widths() -> None:
    stack = Stack([StringKernelConv(-1, 4), RKM(-1, 5)])
    stack(normal(2, 3, 6).float())
    assert [layer.in_channels for layer in stack.layers] == [6, 4]
    with pytest.raises(ValueError, match="reads tokens of 6 values"):
        stack.layers[0](normal(2, 3, 7).float())


def test_hooks_of_layers_are_called() -> None:
    model = StringKernelNetwork(3, 4, 2)
    seen: list[tuple[int, torch.Tensor]] = []
    for i, layer in enumerate(model.layers):
        layer.register_forward_hook(lambda _, __, out, i=i: seen.append((i, out[0])))
    out, _ = model(torch.randn(2, 5, 3))
    assert [i for i, _ in seen] == [0, 1]
    torch.testing.assert_close(seen[1][1].sum(), out.sum())
    # A hook may put another output in the place of a layer's.
    model.layers[0].register_forward_hook(lambda _, __, out: (torch.zeros_like(out[0]), out[1]))
    a, b = (model(torch.randn(2, 5, 3))[0] for _ in range(2))
    torch.testing.assert_close(a, b)
