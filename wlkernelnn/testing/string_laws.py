"""Laws of every sequence model: layouts agree, strings do not meet, and reading can be interrupted."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from wlkernelnn.sequence import path_graph, to_list
from wlkernelnn.sequence.layers.string_model import State

from .calling import inferring, largest_error, require, require_strings

# model(x, ptr, state) or model(x, None, state): output and state
Model = Callable[..., tuple[Tensor, State]]


def read(model: Model, strings: Sequence[Tensor], state: State | None = None) -> tuple[list[Tensor], State]:
    """What a model says of strings, ``[T_i, …]`` each, and the state behind them."""
    graph = path_graph(strings)
    with inferring(model):
        out, after = model(graph.x, graph.ptr, state)
    return to_list(out, graph.ptr), after


def parts(state: State) -> list[Tensor]:
    """All tensors of a state."""
    return [state] if isinstance(state, Tensor) else [part for each in state for part in parts(each)]


def _error(came: tuple[list[Tensor], State], expected: tuple[list[Tensor], State]) -> float:
    """The largest error of all outputs and states, beside the largest value."""
    pairs = list(zip([*came[0], *parts(came[1])], [*expected[0], *parts(expected[1])], strict=True))
    scale = max((float(wanted.abs().max()) for _, wanted in pairs if wanted.numel()), default=0.0)
    return max(largest_error(value, wanted, scale) for value, wanted in pairs)


def _state_of(state: State, string: int) -> State:
    """The state of one string."""
    if isinstance(state, Tensor):
        return state[..., string : string + 1, :]
    return tuple(_state_of(part, string) for part in state)


def assert_layouts_agree(model: Model, x: Tensor, rtol: float = 1e-9) -> float:
    """Padded strings of equal length, and the same strings end to end with ``ptr``, give the same.

    Args:
        model: Called as ``model(x, ptr)`` and ``model(x)``; gives its output and a state ``[…, B, d]``, or a
            tuple of states.
        x: ``[B, T, d]``.
        rtol: Allowed error of outputs and states beside the largest value.
    """
    require_strings(list(x))
    with inferring(model):
        out, state = model(x)
    return require({"strings end to end": _error(read(model, list(x)), (list(out), state))}, rtol)


def assert_strings_independent(model: Model, strings: Sequence[Tensor], rtol: float = 1e-9) -> float:
    """A string gives what it gives alone, whatever stands beside it: other strings, or NaN.

    Args:
        model: See :func:`assert_layouts_agree`.
        strings: ``[T_i, d]`` each.
        rtol: Allowed error beside the largest value.
    """
    require_strings(strings)
    worst, together = 0.0, read(model, strings)
    for i, string in enumerate(strings):
        alone = read(model, [string])
        beside_nan = read(
            model, [other if k == i else torch.full_like(other, torch.nan) for k, other in enumerate(strings)]
        )
        for (outs, state), what in ((together, "the others"), (beside_nan, "NaN")):
            error = _error(([outs[i]], _state_of(state, i)), alone)
            worst = max(worst, require({f"string {i} beside {what}": error}, rtol))
    return worst


def assert_resumes(
    model: Model, strings: Sequence[Tensor], cuts: Sequence[int] | None = None, rtol: float = 1e-9
) -> float:
    """Reading the beginnings, and then the rest from the state they left, is reading the whole.

    So nothing looks ahead, and a string of which nothing is left to read keeps its state.

    Args:
        model: See :func:`assert_layouts_agree`; it takes the state as a third argument.
        strings: ``[T_i, d]`` each.
        cuts: After how many tokens each string is interrupted; default: at every place in turn.
        rtol: Allowed error beside the largest value.
    """
    require_strings(strings)
    whole, errors = read(model, strings), {}
    longest = max(map(len, strings))
    for places in [cuts] if cuts is not None else [[t] * len(strings) for t in range(longest + 1)]:
        first, state = read(model, [string[:t] for string, t in zip(strings, places, strict=True)])
        rest, last = read(model, [string[t:] for string, t in zip(strings, places, strict=True)], state)
        joined = [torch.cat(both) for both in zip(first, rest, strict=True)]
        errors[f"interrupted at {list(places)}"] = _error((joined, last), whole)
    return require(errors, rtol)
