"""What all sequence models share: strings end to end or padded, and states in and out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence
from torch_geometric.data import Data
from torch_geometric.nn.inits import reset

from wlkernelnn.ops.string import Steps
from wlkernelnn.ops.string.steps import Pointers
from wlkernelnn.sequence.graphs.reading import graph_steps, opened
from wlkernelnn.utils.configured import Configured

State = Tensor | tuple["State", ...]


class StringModel(Configured, torch.nn.Module, ABC):
    """Base of models that read strings from left to right.

    A subclass sets ``in_channels`` and ``out_channels``, and writes :meth:`run`, for tokens in step order
    (see :class:`~wlkernelnn.ops.string.Steps`). States are tensors ``[…, B, d]`` or tuples of states.

    Shapes:
        - input: x ``[N, in_channels]``, all strings end to end, with ``ptr [B+1]``, as in a batch of path
          graphs; or a PyG ``Data`` or ``Batch`` of path graphs with such ``x``, whose nodes may stand in any
          order; or x ``[B, T, in_channels]`` without ``ptr``, strings of equal length; or a
          ``PackedSequence`` of such tokens; and, if they go on, the ``state`` at the last tokens before
        - output: the same with the width of the result (of graphs the rows of their nodes), and the states
          at the last tokens

    Every graph of a batch is one string, in the order of its edges; without ``ptr`` and ``batch`` every
    component is a string, in the order of their first nodes. A model with ``branches`` reads trees and other
    directed acyclic graphs as well: what strings carry from token to token goes along edges, and a node sees
    the sum over its predecessors, times ``edge_weight`` if there is one
    (:class:`~wlkernelnn.ops.string.Levels`).

    An empty string has no output, and keeps its state (0 if there was none). Strings never see each other:
    NaN in one of them stays there, from its token on. (Only batch norm takes all of them together.)
    """

    in_channels: int
    out_channels: int
    #: Whether directed acyclic graphs are read that are not paths.
    branches: bool = False

    def forward(
        self,
        x: Tensor | Data | PackedSequence,
        ptr: Pointers | Steps | None = None,
        state: State | None = None,
    ) -> tuple[Any, State]:
        """Read strings.

        A hook on a layer inside another model sees tokens and states in step order, and the steps as ``ptr``.

        Raises:
            TypeError: ``x`` is not a tensor, a graph or a ``PackedSequence``.
            ValueError: ``x``, ``ptr`` or ``state`` is not of the shapes above, they do not match, or x or
                ``state`` is not of the parameters' type (under autocast x may be of autocast's); or a graph
                is not a path (names its node).
        """
        if isinstance(x, PackedSequence):
            if ptr is not None:
                name = type(self).__name__
                raise ValueError(f"{name} takes no ptr beside a PackedSequence: that knows where strings end")
            rows, steps = self._checked(x.data), Steps.packed(x)
            out, after = self._in_step_order(rows, steps, self._sorted(state, steps, rows.dtype))
            return PackedSequence(out, *x[1:]), _each(steps.unsort, after)
        if isinstance(ptr, Steps):
            return self._in_step_order(x, ptr, state)
        graph, x, begins = opened(type(self).__name__, x, ptr)
        steps = self._steps_of(x, begins, graph)
        x = self._checked(x)
        rows = steps.enter(x.reshape(steps.num_tokens, x.size(-1)))
        out, after = self._in_step_order(rows, steps, self._sorted(state, steps, x.dtype))
        return steps.leave(out).view(*x.shape[:-1], out.size(-1)), _each(steps.unsort, after)

    def _steps_of(self, x: Tensor, ptr: Pointers | None, graph: Data | None) -> Steps:
        name = type(self).__name__
        if not isinstance(x, Tensor):
            got = type(x).__name__
            raise TypeError(
                f"{name} needs x as a tensor or packed, got {got}; path_graph makes x and ptr of lists"
            )
        if ptr is None:
            if x.dim() != 3:
                raise ValueError(
                    f"{name} needs x of shape [B, T, in_channels], or [N, in_channels] with ptr, "
                    f"got {list(x.shape)} without ptr"
                )
            return Steps.padded(x.size(0), x.size(1), x.device)
        if x.dim() != 2:
            raise ValueError(f"{name} needs x of shape [N, in_channels] with ptr, got {list(x.shape)}")
        return Steps.of(x, ptr, name) if graph is None else graph_steps(name, graph, self.branches)

    def _checked(self, x: Tensor) -> Tensor:
        """Tokens ``[…, in_channels]`` of the parameters' type."""
        name, shape = type(self).__name__, list(x.shape)
        # A compiler that makes the width a symbol sets no guard for "not in".
        if self.in_channels != -1 and self.in_channels != x.size(-1):
            raise ValueError(f"{name} reads tokens of {self.in_channels} values, got x of shape {shape}")
        own = next((parameter.dtype for parameter in self.parameters()), x.dtype)
        kind = x.device.type
        autocast = torch.amp.is_autocast_available(kind) and torch.is_autocast_enabled(kind)
        if autocast and x.dtype == torch.get_autocast_dtype(kind):
            return x.to(own)  # a product's: states add up over many steps
        if x.dtype != own:
            raise ValueError(f"{name} computes in {own}, got x of {x.dtype}")
        return x

    def _sorted(self, state: State | None, steps: Steps, own: torch.dtype) -> State | None:
        """States of strings in step order."""
        name = type(self).__name__

        def sort(part: Tensor) -> Tensor:
            if part.dtype != own:
                raise ValueError(f"{name} computes in {own}, got a state of {part.dtype}")
            # Sorting takes rows by number: it would not miss rows that are too many.
            if part.dim() < 2 or part.size(-2) != steps.num_strings:
                raise ValueError(
                    f"{name} needs states of {steps.num_strings} strings, […, B, d], got {list(part.shape)}"
                )
            return steps.sort(part)

        return None if state is None else _each(sort, state)

    def _in_step_order(self, x: Tensor, steps: Steps, state: State | None) -> tuple[Tensor, State]:
        """:meth:`run`, after which a lazy model knows its width."""
        out = self.run(x, steps, state)
        if self.in_channels == -1:
            self.in_channels = x.size(-1)
        return out

    def __prepare_scriptable__(self) -> Any:
        raise TypeError(
            f"torch.jit.script cannot read {type(self).__name__}: use torch.export or torch.jit.trace"
        )

    def reset_parameters(self) -> None:
        """Draw all parameters again."""
        for child in self.children():
            reset(child)

    @abstractmethod
    def run(self, x: Tensor, steps: Steps, state: State | None) -> tuple[Tensor, State]:
        """Read tokens ``[N, in_channels]``, with tokens and states in step order."""


def learn_width(model: StringModel, in_channels: int) -> None:
    """Let a lazy model make its parameters for tokens of this width, before an optimizer asks for them."""
    if model.in_channels == -1:
        like = next(model.parameters())
        with torch.no_grad():
            model(torch.empty(1, 0, in_channels, dtype=like.dtype, device=like.device))


def check_state(name: str, state: State, shape: tuple[int, ...]) -> Tensor:
    """Refuse a state that is not a tensor of this shape."""
    if not isinstance(state, Tensor) or state.shape != shape:
        got = list(state.shape) if isinstance(state, Tensor) else type(state).__name__
        raise ValueError(f"{name} needs a state of shape {list(shape)}, got {got}")
    return state


def check_parts(name: str, state: State | None, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Tensor]:
    """The parts of a state by name, none without a state; refuse one that is not a tuple of such tensors."""
    if state is None:
        return {}
    if not isinstance(state, tuple) or len(state) != len(shapes):
        got = f"{len(state)} parts" if isinstance(state, tuple) else type(state).__name__
        raise ValueError(f"{name} needs a state of {len(shapes)} parts ({', '.join(shapes)}), got {got}")
    return {
        part: check_state(f"{name}: {part}", value, shapes[part])
        for part, value in zip(shapes, state, strict=True)
    }


def check_states(state: State | None, count: int, of: str) -> Sequence[State | None]:
    """The states of several models, ``None`` of each without a state; refuse another number of them."""
    if state is None:
        return [None] * count
    if not isinstance(state, tuple) or len(state) != count:
        got = f"{len(state)} of them" if isinstance(state, tuple) else type(state).__name__
        raise ValueError(f"expected a tuple of the states of {count} {of}, got {got}")
    return state


def detached(state: State) -> State:
    """The same state, with no way back for gradients: where truncated back-propagation stops."""
    return _each(Tensor.detach, state)


def _each(function: Callable[[Tensor], Tensor], state: State) -> State:
    if isinstance(state, Tensor):
        return function(state)
    if not isinstance(state, tuple):
        raise ValueError(f"a state is a tensor or a tuple of states, got {type(state).__name__}")
    return tuple(_each(function, part) for part in state)


def check_model(name: str, model: Any) -> None:
    """Raise a ``TypeError`` that says ``name`` unless ``model`` is a sequence model."""
    if not isinstance(model, StringModel):
        raise TypeError(f"{name} must be a sequence model, got {type(model).__name__}")
