from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch

from wlkernelnn import WLKernelConv
from wlkernelnn.blocks.activation import activation, is_pure
from wlkernelnn.sequence import StringKernelConv

INPLACE = torch.nn.ReLU(inplace=True)


def test_by_name_or_as_it_is() -> None:
    own = torch.nn.PReLU()
    assert activation(own) is own
    assert isinstance(activation("tanh"), torch.nn.Tanh)
    assert isinstance(activation(None), torch.nn.Identity)
    function = activation(torch.tanh)
    assert function(torch.ones(1)) == torch.tanh(torch.ones(1))
    assert "tanh" in repr(function)
    assert not is_pure(function)


@pytest.mark.parametrize("act", [torch.nn.ReLU, 3], ids=["class", "number"])
def test_nothing_else(act: Any) -> None:
    with pytest.raises(ValueError, match="act must be a name, a module, a function or None, got"):
        activation(act)


def test_functions_in_layers() -> None:
    x, edges, types = torch.randn(3, 4), torch.tensor([[0, 1], [1, 2]]), torch.tensor([0, 2])
    torch.manual_seed(0)
    layer = WLKernelConv(4, 6, num_edge_types=3, act=torch.tanh)  # type: ignore[arg-type]
    torch.manual_seed(0)
    named = WLKernelConv(4, 6, num_edge_types=3, act="tanh")
    torch.testing.assert_close(layer(x, edges, edge_type=types), named(x, edges, edge_type=types))


GRAPH = {"x": torch.randn(9, 4), "edge_index": torch.randint(9, (2, 30)), "edge_type": torch.arange(30) % 3}
LAYERS: dict[str, tuple[Callable[..., torch.nn.Module], dict[str, torch.Tensor]]] = {
    "graph": (partial(WLKernelConv, 4, 6, num_edge_types=3), GRAPH),
    "string": (partial(StringKernelConv, 4, 6), {"x": torch.randn(3, 5, 4)}),
    "feedback": (partial(StringKernelConv, 4, 6, feedback=True), {"x": torch.randn(3, 5, 4)}),
}


def total(layer: torch.nn.Module, given: dict[str, torch.Tensor]) -> torch.Tensor:
    out = layer(**given)
    return (out[0] if isinstance(out, tuple) else out).square().sum()


@pytest.mark.parametrize("kind", LAYERS)
def test_tensors_that_a_function_brings_along_learn(kind: str) -> None:
    make, given = LAYERS[kind]
    own, slope = torch.nn.PReLU(init=0.3), torch.tensor([0.3], requires_grad=True)
    torch.manual_seed(0)
    total(make(act=own), given).backward()
    torch.manual_seed(0)
    total(make(act=lambda x: torch.nn.functional.prelu(x, slope)), given).backward()
    assert slope.grad is not None
    torch.testing.assert_close(slope.grad, own.weight.grad)


@pytest.mark.parametrize("kind", LAYERS)
def test_gradients_are_of_the_mode_that_a_layer_had(kind: str) -> None:
    make, given = LAYERS[kind]
    x = given["x"].clone().requires_grad_()
    layer = make(act=torch.nn.Sequential(torch.nn.Tanh(), torch.nn.Dropout(0.5))).eval()
    (expected,) = torch.autograd.grad(total(layer, given | {"x": x}), x)
    value = total(layer, given | {"x": x})
    layer.train()
    (came,) = torch.autograd.grad(value, x)
    torch.testing.assert_close(came, expected)
    assert all(part.training for part in layer.modules())


class Half(torch.nn.Module):
    """Dropout as a user may write it: no part of torch's says that it is random."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.dropout(x, 0.5, self.training)


@pytest.mark.parametrize("kind", LAYERS)
@pytest.mark.parametrize(
    "act", [Half(), lambda x: torch.nn.functional.dropout(x, 0.5)], ids=["module", "function"]
)
def test_what_draws_by_itself_has_the_gradients_of_what_it_drew(kind: str, act: Any) -> None:
    make, given = LAYERS[kind]

    def gradients(act: Any) -> list[torch.Tensor]:
        torch.manual_seed(0)
        layer = make(act=act)
        return list(torch.autograd.grad(total(layer, given), list(layer.parameters())))

    for one, other in zip(gradients(act), gradients(torch.nn.Dropout(0.5)), strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("kind", LAYERS)
def test_a_users_module_keeps_the_mode_that_a_layer_had(kind: str) -> None:
    make, given = LAYERS[kind]
    x = given["x"].clone().requires_grad_()
    layer = make(act=Half()).eval()
    (expected,) = torch.autograd.grad(total(layer, given | {"x": x}), x)
    value = total(layer, given | {"x": x})
    layer.train()
    (came,) = torch.autograd.grad(value, x)
    torch.testing.assert_close(came, expected)


@pytest.mark.parametrize("act", [INPLACE, torch.nn.Sequential(torch.nn.Tanh(), INPLACE)], ids=["all", "part"])
def test_nothing_works_in_place(act: torch.nn.Module) -> None:
    with pytest.raises(ValueError, match=r"(?s)act must leave its input as it is, got .*inplace=True"):
        activation(act)


def test_pure_are_torchs_own_without_parameters_modes_and_hooks() -> None:
    class Mine(torch.nn.ReLU):
        pass

    assert all(is_pure(activation(name)) for name in ("relu", "tanh", "gelu", None))
    others = (torch.nn.PReLU(), torch.nn.Dropout(0.5), torch.nn.RReLU(), Mine(), activation(torch.relu))
    assert not any(map(is_pure, others))
    for kind in ("forward_hook", "forward_pre_hook", "full_backward_hook", "full_backward_pre_hook"):
        hooked = torch.nn.ReLU()
        getattr(hooked, f"register_{kind}")(lambda *_: None)
        assert not is_pure(hooked)


@pytest.mark.parametrize("kind", LAYERS)
@pytest.mark.parametrize("act", [torch.relu_, partial(torch.nn.functional.relu, inplace=True)])
def test_functions_that_write_to_their_input(kind: str, act: Any) -> None:
    make, given = LAYERS[kind]
    with pytest.raises(ValueError, match=r"act must leave its input as it is, .*relu.* writes to it"):
        make(act=act)(**given)


@pytest.mark.parametrize("kind", LAYERS)
def test_functions_without_gradients(kind: str) -> None:
    """Only what does not go through them learns."""
    make, given = LAYERS[kind]

    def gradients(act: Any) -> list[torch.Tensor]:
        torch.manual_seed(0)
        layer = make(act=act)
        weights = list(layer.parameters())
        loss = total(layer, given) + sum(0 * weight.sum() for weight in weights)
        return list(torch.autograd.grad(loss, weights))

    found, expected = gradients(lambda x: (x > 0).to(x.dtype)), gradients(lambda x: (x > 0) + 0 * x)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other)
