from __future__ import annotations

import pytest
import torch
from torch.nn.utils.rnn import pack_sequence

from tests.checks.equations import randomize
from tests.inputs.strings import normal, ptr_of
from wlkernelnn.sequence import RKM, StringKernelConv, StringKernelNetwork, StringNetwork

D, C = 4, 3


def made(**options: object) -> StringNetwork:
    model = StringNetwork(StringKernelNetwork(D, 5, 2, act="relu"), C, **options)  # type: ignore[arg-type]
    randomize(model)
    return model


def test_two_linear_layers() -> None:
    """An activation and dropout between them."""
    model = made(dropout=0.5, hidden_channels=6, act="sigmoid")
    first, *_, last = model.head
    assert (first.in_features, first.out_features, last.out_features) == (5, 6, C)
    x = normal(2, 3, D)
    model.eval()
    h, _ = model.encoder(x)
    hidden = torch.sigmoid(h.mean(1) @ first.weight.t() + first.bias)
    torch.testing.assert_close(model(x), hidden @ last.weight.t() + last.bias)
    seen = []
    last.register_forward_hook(lambda module, inputs, out: seen.append(inputs[0]))
    model.train()(x.repeat(50, 1, 1))
    assert 0.4 < float((seen[0] == 0).double().mean()) < 0.6


def test_no_biases() -> None:
    model = made(hidden_channels=6, bias=False)
    assert [name for name, _ in model.head.named_parameters()] == ["0.weight", "3.weight"]


def test_both_layouts_and_their_gradients() -> None:
    model, x = made(hidden_channels=2), normal(3, 4, D)
    found = []
    for inputs in ((x,), (x.view(-1, D), ptr_of([4, 4, 4]))):
        logits = model(*inputs)
        found.append((logits, *torch.autograd.grad(logits.square().sum(), list(model.parameters()))))
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other)


def test_empty_strings() -> None:
    model = made()
    for logits in (model(normal(0, D), ptr_of([0, 0])), model(normal(2, 0, D))):
        assert torch.equal(logits, model.head.bias.expand(2, C))  # type: ignore[union-attr]


def test_bad_arguments() -> None:
    with pytest.raises(ValueError, match="hidden_channels must be an integer of at least 1, got 0"):
        made(hidden_channels=0)
    with pytest.raises(ValueError, match=r"dropout must be in \[0, 1\), got 1.0"):
        made(dropout=1.0)


def test_no_activation_and_small_pointers() -> None:
    network = StringNetwork(StringKernelConv(3, 4), 2, hidden_channels=5, act=None).eval()
    x, ptr = torch.randn(6, 3), torch.tensor([0, 1, 3, 6])
    torch.testing.assert_close(network(x, ptr.to(torch.uint8)), network(x, ptr))


def test_packed_sequences_are_refused() -> None:
    with pytest.raises(TypeError, match="StringNetwork reads no PackedSequence: path_graph makes"):
        StringNetwork(RKM(1, 2), 3)(pack_sequence([torch.ones(2, 1)]))
