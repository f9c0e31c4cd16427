"""Stretches of a text as CUDA graphs: hundreds of small kernels that one call starts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves, tree_map

from wlkernelnn.sequence import LanguageModel, detached

from .scores import negative_log_likelihood

State = Any  # of the model: tensors in tuples


class Stretch(torch.nn.Module):
    """From inputs ``[B, T]``, targets and a state to the summed loss and the state after them."""

    def __init__(self, model: LanguageModel) -> None:
        super().__init__()
        self.model = model

    def forward(self, inputs: Tensor, targets: Tensor, state: State) -> tuple[Tensor, State]:
        logits, state = self.model(inputs, state=state)
        return negative_log_likelihood(logits, targets), detached(state)


class Replay:
    """Calls of a :class:`Stretch`; on a GPU those of one shape are recorded once and then replayed.

    The first call with a state on a GPU is recorded. Calls of other shapes, or without a state, run as they
    are. A recording reads the weights where they lie: they may change, but not move.

    Args:
        model: The model. Nothing in it may wait for the GPU.
        wanted: Whether anything is recorded.
    """

    def __init__(self, model: LanguageModel, wanted: bool) -> None:
        self._plain, self._wanted = Stretch(model), wanted
        self._shape: torch.Size | None = None
        self._replayed: Callable[..., tuple[Tensor, State]] | None = None

    def __call__(self, inputs: Tensor, targets: Tensor, state: State) -> tuple[Tensor, State]:
        if not self._wanted or state is None or not inputs.is_cuda:
            return self._plain(inputs, targets, state)
        if self._replayed is None:
            # Dropout is to draw as if nothing had been recorded.
            with torch.random.fork_rng([inputs.device]):
                self._replayed = self._recorded(inputs, targets, state)
            self._shape = inputs.shape
        call = self._replayed if inputs.shape == self._shape else self._plain
        nll, state = call(inputs, targets, state)
        return nll, detached(state)  # what a recording returns looks as if it had gradients

    def _recorded(self, *example: Any) -> Callable[..., tuple[Tensor, State]]:
        given = tree_map(torch.clone, example)
        if torch.is_grad_enabled():
            # It replaces the function ``forward`` of what it records.
            recorded: Any = torch.cuda.make_graphed_callables(Stretch(self._plain.model).train(), given)
            return recorded
        beside = torch.cuda.Stream()
        beside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(beside):
            self._plain(*given)  # compiles and allocates what must not be recorded
        torch.cuda.current_stream().wait_stream(beside)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            found = self._plain(*given)

        def replayed(*values: Any) -> tuple[Tensor, State]:
            for own, value in zip(tree_leaves(given), tree_leaves(values), strict=True):
                own.copy_(value)
            graph.replay()
            return tree_map(torch.clone, found)

        return replayed
