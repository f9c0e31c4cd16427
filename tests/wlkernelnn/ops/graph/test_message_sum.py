from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from tests.graphs import EDGES, Edges, assert_same_with_gradients
from wlkernelnn.ops.graph import message_sum, message_sum_naive, sort_edges
from wlkernelnn.ops.graph import message_sum as blocked

CHANNELS, NUM_TYPES = 4, 3

# Where the inputs of a message live. "one" has one value per row: it is broadcast over the channels.
KINDS = {"a": "source", "b": "target", "c": "edge", "one": "edge", "t": "table", "p": "parameter"}

MESSAGES: dict[str, Callable[..., Tensor]] = {
    "a": lambda a: a,
    "b a": lambda b, a: b.sigmoid() * a,
    "a c one": lambda a, c, one: a * c.tanh() * one,
    "a t": lambda a, t: (a + t).relu(),
    "a p": lambda a, p: torch.nn.functional.prelu(a, p),
    "a b c one t p": lambda a, b, c, one, t, p: (
        (a + b + t).sigmoid() * torch.nn.functional.prelu(a + c, p) * one
    ),
}


@pytest.fixture(params=["one_block", "many_blocks", "composed"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """In one block, in blocks of 256 edges, or of whole tensors as on a GPU or when compiled."""
    if request.param == "many_blocks":
        monkeypatch.setattr(blocked, "BLOCK", 1)
    elif request.param == "composed":
        monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    return request.param


def inputs_of(edges: Edges, names: list[str], dtype: torch.dtype) -> list[Tensor]:
    num_edges = edges.edge_index.size(1)
    rows = {"a": edges.num_sources, "b": edges.num_targets, "c": num_edges, "one": num_edges, "t": NUM_TYPES}
    shapes = {name: (size, 1 if name == "one" else CHANNELS) for name, size in rows.items()} | {"p": (1,)}
    return [torch.randn(shapes[name], dtype=dtype, requires_grad=True) for name in names]


def assert_fast_is_naive(
    message: Callable[..., Tensor], edges: Edges, names: list[str], inputs: list[Tensor]
) -> None:
    sorted_edges = sort_edges(*edges)
    edge_type = torch.randint(NUM_TYPES, (edges.edge_index.size(1),))

    def group(kind: str, values: tuple[Tensor, ...]) -> dict[str, Tensor]:
        return {name: value for name, value in zip(names, values, strict=True) if KINDS[name] == kind}

    def fast(*values: Tensor) -> Tensor:
        parameters = group("parameter", values)
        return message_sum(
            lambda **rows: message(**rows, **parameters),
            sorted_edges,
            source=group("source", values),
            target=group("target", values),
            edge={name: sorted_edges.arrange(value) for name, value in group("edge", values).items()},
            table=group("table", values),
            edge_type=sorted_edges.arrange(edge_type),
            parameters=tuple(parameters.values()),
        )

    def naive(*values: Tensor) -> Tensor:
        return message_sum_naive(
            lambda **rows: message(**rows, **group("parameter", values)),
            edges.edge_index,
            edges.num_targets,
            source=group("source", values),
            target=group("target", values),
            edge=group("edge", values),
            table=group("table", values),
            edge_type=edge_type,
        )

    assert_same_with_gradients(fast, naive, inputs)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["float64", "float32"])
@pytest.mark.parametrize("names", MESSAGES, ids=lambda names: f"message({names.replace(' ', ',')})")
@pytest.mark.parametrize("edges", EDGES.values(), ids=EDGES)
def test_same_as_naive(edges: Edges, names: str, dtype: torch.dtype, way: str) -> None:
    inputs = inputs_of(edges, names.split(), dtype)
    assert_fast_is_naive(MESSAGES[names], edges, names.split(), inputs)


@pytest.mark.parametrize("trained", KINDS)
def test_gradients_of_one_input_alone(trained: str, way: str) -> None:
    names = ["a", "b", "c", "one", "t", "p"]
    inputs = inputs_of(EDGES["many_edges"], names, torch.float64)
    for name, value in zip(names, inputs, strict=True):
        value.requires_grad_(name == trained)
    assert_fast_is_naive(MESSAGES["a b c one t p"], EDGES["many_edges"], names, inputs)


def test_input_that_the_message_ignores(way: str) -> None:
    edges = EDGES["many_edges"]
    a, b = inputs_of(edges, ["a", "b"], torch.float64)
    out = message_sum(lambda a, b: 2 * a, sort_edges(*edges), source={"a": a}, target={"b": b})
    gradient_a, gradient_b = torch.autograd.grad(out.sum(), [a, b], materialize_grads=True)
    degree = torch.bincount(edges.edge_index[0], minlength=edges.num_sources)
    torch.testing.assert_close(gradient_a, 2.0 * degree.double().unsqueeze(1).expand_as(a))
    assert not gradient_b.any()


@pytest.mark.parametrize(
    ("targets", "num_blocks"),
    [
        pytest.param([7] * 1000, 2, id="one_target_of_many_blocks"),
        pytest.param([0] * 300 + [1] * 10 + [5] * 600 + [9] * 90, 3, id="uneven"),
        pytest.param(list(range(10)) * 100, 4, id="even"),
        pytest.param([9] * 256, 1, id="just_one_block"),
        pytest.param([], 1, id="no_edges"),
    ],
)
def test_blocks_hold_all_edges_of_their_targets(
    targets: list[int], num_blocks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocked, "BLOCK", 1)
    target = torch.tensor(targets, dtype=torch.int64)
    edges = Edges(torch.stack([torch.arange(len(targets)) % 10, target]), 10, 10)
    blocks = blocked._blocks(sort_edges(*edges), None, CHANNELS)
    assert len(blocks) == num_blocks
    assert [block.nodes.start for block in blocks] == [0, *(block.nodes.stop for block in blocks[:-1])]
    assert [block.edges.start for block in blocks] == [0, *(block.edges.stop for block in blocks[:-1])]
    assert (blocks[-1].nodes.stop, blocks[-1].edges.stop) == (10, len(targets))
    for block in blocks:
        assert block.indptr[-1] == block.edges.stop - block.edges.start
    names = ["a", "b", "t"]
    assert_fast_is_naive(lambda a, b, t: a * b + t, edges, names, inputs_of(edges, names, torch.float64))


def test_no_gradient_is_kept_when_none_is_wanted(way: str) -> None:
    a, b = inputs_of(EDGES["random"], ["a", "b"], torch.float64)
    with torch.no_grad():
        out = message_sum(lambda a, b: a * b, sort_edges(*EDGES["random"]), source={"a": a}, target={"b": b})
    assert not out.requires_grad


@pytest.mark.parametrize("trained", ["abtp", "a", "p"])
def test_second_derivatives(trained: str, way: str) -> None:
    edges = EDGES["self_loops"]
    sorted_edges = sort_edges(*edges)
    edge_type = torch.tensor([0, 2, 2, 1])
    names = ["a", "b", "t", "p"]
    inputs = inputs_of(edges, names, torch.float64)
    for name, value in zip(names, inputs, strict=True):
        value.requires_grad_(name in trained)

    def summed(a: Tensor, b: Tensor, t: Tensor, p: Tensor) -> Tensor:
        return message_sum(
            lambda a, b, t: (p * a + t).tanh() * b,
            sorted_edges,
            source={"a": a},
            target={"b": b},
            table={"t": t},
            edge_type=edge_type,
            parameters=(p,),
        )

    assert torch.autograd.gradgradcheck(summed, inputs)


def test_second_derivatives_where_the_cotangent_is_constant(way: str) -> None:
    """Of a plain sum: here a backward pass that is differentiable only once would silently give zeros."""
    edges = EDGES["random"]
    a, b = inputs_of(edges, ["a", "b"], torch.float64)
    out = message_sum(lambda a, b: a * b, sort_edges(*edges), source={"a": a}, target={"b": b})
    (gradient,) = torch.autograd.grad(out.sum(), a, create_graph=True)
    (second,) = torch.autograd.grad(gradient.sum(), b)
    degree = torch.bincount(edges.edge_index[1], minlength=edges.num_targets)
    torch.testing.assert_close(second, degree.double().unsqueeze(1).expand_as(b))


def test_second_derivatives_where_one_tensor_stands_twice(way: str) -> None:
    edges = sort_edges(*EDGES["self_loops"])
    x = torch.randn(3, 2, dtype=torch.float64, requires_grad=True)

    def squared(x: Tensor) -> Tensor:
        return message_sum(lambda a, b: a.square() * b.tanh(), edges, source={"a": x}, target={"b": x})

    assert torch.autograd.gradcheck(squared, x)
    assert torch.autograd.gradgradcheck(squared, x)
    plain = torch.autograd.grad(squared(x).sum(), x)[0]
    torch.testing.assert_close(torch.autograd.grad(squared(x).sum(), x, create_graph=True)[0], plain)


def test_mixed_precision(way: str) -> None:
    """Under autocast projections come in bfloat16, tables and edge weights in float32."""
    names = ["a", "b", "c", "one", "t", "p"]
    edges = EDGES["many_edges"]
    sorted_edges = sort_edges(*edges)
    a, b, c, one, t, p = inputs_of(edges, names, torch.float32)
    edge_type = torch.randint(NUM_TYPES, (2000,))

    def message(**rows: Tensor) -> Tensor:
        return MESSAGES["a b c one t p"](**rows, p=p)

    def run(a: Tensor, b: Tensor) -> Tensor:
        return message_sum(
            message,
            sorted_edges,
            source={"a": a},
            target={"b": b},
            edge={"c": c, "one": one},
            table={"t": t},
            edge_type=edge_type,
            parameters=(p,),
        )

    out, expected = run(a.bfloat16(), b.bfloat16()), run(a, b)
    torch.testing.assert_close(out.float(), expected, rtol=0.05, atol=0.5)
    leaves = [a, b, c, one, t, p]
    came = torch.autograd.grad(out.float().sum(), leaves)
    for gradient, reference in zip(came, torch.autograd.grad(expected.sum(), leaves), strict=True):
        assert gradient.dtype == torch.float32
        assert float((gradient - reference).norm() / reference.norm()) < 0.02


def test_messages_that_draw_are_computed_once(way: str) -> None:
    edges, calls = EDGES["random"], []

    def message(a: Tensor) -> Tensor:
        calls.append(len(a))
        return torch.nn.functional.dropout(a, 0.5)

    (a,) = inputs_of(edges, ["a"], torch.float64)
    out = message_sum(message, sort_edges(*edges), source={"a": a}, pure=False)
    (gradient,) = torch.autograd.grad(out.sum(), a)
    torch.testing.assert_close((gradient * a).sum(), out.sum())  # it is linear in what was drawn
    assert calls == [edges.edge_index.size(1)]
