"""A layer by colours beside the same by nodes."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode
from torch_geometric.nn import MessagePassing

from .colouring import Colouring
from .tracing import CannotGoByColours

Values = Mapping[str, Any]


def compare_with_nodes(
    run: Callable[..., Tensor],
    conv: MessagePassing,
    colours: Colouring,
    level: int,
    nodes: Values,
    edges: Values,
    index: str,
    others: Values,
) -> None:
    """Compare a layer by colours with itself by nodes, on one batch.

    In double precision, without dropout, and with other parameters: those at the start may be zeros.

    Args:
        run: Runs it by colours, with the arguments that follow.
        conv, colours, level, nodes, edges, index, others: As :func:`~wlkernelnn.colours.layers.run_layer`
            takes them.

    Raises:
        ValueError: They differ, or the layer keeps tensors on itself, which would be of colours.
    """
    cannot = f"{type(conv).__name__} cannot go by colours"
    # Tensors that a call by nodes left have gradients, which cannot be copied.
    conv = copy.deepcopy(conv, {id(value): value.detach().clone() for value in _kept(conv)}).double()
    before = _kept(conv)
    generator = torch.Generator().manual_seed(0)
    nodes, edges, others = (
        {name: _doubled(value) for name, value in values.items()} for values in (nodes, edges, others)
    )
    by_nodes = {
        name: tuple(part if part is None else colours.nodes(part, level) for part in value)
        if isinstance(value, tuple)
        else colours.nodes(value, level)
        for name, value in nodes.items()
    } | {name: colours.edges(value) for name, value in edges.items()}
    device = colours.edge_index.device.type
    with torch.no_grad(), torch.autocast(device, enabled=False), torch.random.fork_rng([]), _Exactly():
        for parameter in conv.parameters():
            parameter += 0.1 * torch.randn(parameter.shape, generator=generator).to(parameter)
        try:
            expected = conv(**by_nodes, **{index: colours.edge_index}, **others)
        except (RuntimeError, TypeError) as error:
            raise ValueError(f"{cannot}: by nodes, in double precision, it fails: {error}") from error
        if not isinstance(expected, Tensor):
            raise ValueError(f"{cannot}: it returns a {type(expected).__name__}")
        if any(all(value is not old for old in before) for value in _kept(conv)):
            raise ValueError(f"{cannot}: it keeps tensors on the module, which would be of colours")
        try:
            found = colours.nodes(run(conv, colours, level, nodes, edges, index, others), level + 1)
        except (RuntimeError, IndexError, ValueError, TypeError) as error:
            raise ValueError(f"{cannot}: given sources and targets apart, it fails: {error}") from error
    scale = float(expected.abs().nan_to_num().max()) if expected.numel() else 1.0
    if expected.shape != found.shape or not torch.allclose(found, expected, 0, 1e-6 * scale, equal_nan=True):
        raise ValueError(
            f"{cannot}: its result at a node depends on more than the node, its neighbours and their edges "
            "to it, such as degrees of neighbours, two steps, or chance"
        )


def _kept(conv: MessagePassing) -> list[Tensor]:
    """The tensors that are attributes of a layer and its parts, but no parameters or buffers."""
    return [value for part in conv.modules() for value in vars(part).values() if isinstance(value, Tensor)]


def _doubled(value: Any) -> Any:
    """Tensors in double precision, integers as they are."""
    if isinstance(value, (tuple, list)):
        return tuple(map(_doubled, value))
    return value.double() if isinstance(value, Tensor) and value.is_floating_point() else value


class _Exactly(TorchFunctionMode):
    """While it is active, dropout does nothing, and what asks for single precision gets double."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func is functional.dropout:
            return args[0] if args else kwargs["input"]
        if func is Tensor.float:
            func = Tensor.double
        args = [torch.float64 if value is torch.float32 else value for value in args]
        if kwargs.get("dtype") is torch.float32:
            kwargs = {**kwargs, "dtype": torch.float64}
        return func(*args, **kwargs)


def called(conv: MessagePassing, nodes: Values, others: Values) -> Tensor:
    """What a layer gives; one that writes to the states it is given is refused, as these are copies here."""
    before = [_writes(state) for state in states_of(nodes)]
    out = conv(**nodes, **others)
    if before != [_writes(state) for state in states_of(nodes)]:
        raise CannotGoByColours(f"{type(conv).__name__} writes to the states that it is given")
    return out


def _writes(state: Tensor) -> int:
    """How often a tensor was written to."""
    return 0 if state.is_inference() else state._version


def states_of(nodes: Values) -> list[Tensor]:
    """The tensors of a layer's arguments, of pairs both; the second of a pair may be missing."""
    pairs = (value if isinstance(value, (tuple, list)) else (value,) for value in nodes.values())
    return [part for pair in pairs for part in pair if part is not None]
