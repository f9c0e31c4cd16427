"""Strings of every awkward kind, and comparisons, for the tests of scans and sequence models."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import torch
from hypothesis import strategies as st
from torch import Tensor
from torch_geometric.data import Data

from tests.checks.equations import randomize

LENGTHS: dict[str, list[int]] = {
    "ragged": [3, 0, 1, 4, 3],
    "rising": [1, 2, 4],
    "last_empty": [2, 2, 0],
    "equal": [3, 3, 3],
    "one_string": [4],
    "one_token": [1],
    "all_empty": [0, 0],
    "no_strings": [],
}

some_lengths = st.sampled_from(list(LENGTHS.values())) | st.lists(st.integers(0, 5), max_size=5)


def ptr_of(lengths: Sequence[int]) -> Tensor:
    return torch.tensor([0, *lengths]).cumsum(0)


def normal(*shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(shape, dtype=dtype)


def drawn(make: Callable[[], torch.nn.Module]) -> torch.nn.Module:
    """A model with other weights than at first, in double precision and evaluation mode."""
    model = make()
    randomize(model)
    return model.double().eval()


def shuffled(graph: Data) -> tuple[Data, Tensor]:
    """The same graphs with the nodes of each, and all edges, in another order; where each node went."""
    order = torch.cat([b + torch.randperm(e - b) for b, e in graph.ptr.unfold(0, 2, 1).tolist()])
    back = torch.argsort(order)
    edges = back[torch.as_tensor(graph.edge_index)]
    moved = torch.randperm(edges.size(1))
    other = Data(x=graph.x[order], edge_index=edges[:, moved], ptr=graph.ptr, batch=graph.batch)
    if "edge_weight" in graph:
        other.edge_weight = graph.edge_weight[moved]
    return other, back


def end_to_end(strings: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """x and ptr of strings."""
    return torch.cat(list(strings)), ptr_of([len(string) for string in strings])


def values_and_gradients(
    function: Callable[..., Iterable[Tensor]], inputs: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    """All that a function returns, and the gradients of random sums of it, 0 where nothing depends on."""
    leaves = {name: value.detach().clone().requires_grad_() for name, value in inputs.items()}
    outputs = list(function(**leaves))
    generator = torch.Generator().manual_seed(1)
    total = torch.stack(
        [(out * torch.randn(out.shape, generator=generator, dtype=out.dtype)).sum() for out in outputs]
    ).sum()
    gradients = [torch.zeros_like(leaf) for leaf in leaves.values()]
    if total.requires_grad:
        gradients = list(torch.autograd.grad(total, list(leaves.values()), materialize_grads=True))
    found = {f"output {i}": out.detach() for i, out in enumerate(outputs)}
    return found | {f"gradient of {name}": grad for name, grad in zip(leaves, gradients, strict=True)}


def assert_same_with_gradients(
    fast: Callable[..., Iterable[Tensor]],
    naive: Callable[..., Iterable[Tensor]],
    inputs: Mapping[str, Tensor],
    tolerance: float = 1e-11,
) -> None:
    """``fast(**inputs)`` and ``naive(**inputs)`` agree in all values and in every gradient."""
    came, expected = (values_and_gradients(function, inputs) for function in (fast, naive))
    assert came.keys() == expected.keys()
    for name, value in expected.items():
        torch.testing.assert_close(
            came[name], value, rtol=tolerance, atol=tolerance, msg=lambda text, name=name: f"{name}: {text}"
        )
