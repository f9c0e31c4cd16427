from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.utils.rnn import pack_sequence, pad_sequence
from torch_geometric.data import Batch, Data
from torch_geometric.nn import SAGEConv
from torch_geometric.transforms import LineGraph, RemoveDuplicatedEdges

from tests.inputs.strings import LENGTHS, normal, ptr_of
from wlkernelnn import RandomWalkKernelConv
from wlkernelnn.datasets import Vocabulary
from wlkernelnn.datasets.graphs.pyg import path_edges
from wlkernelnn.sequence import ToPathGraph, path_graph, subsequence_graph, to_list, to_packed, to_padded

ANY = settings(deadline=None, max_examples=60, derandomize=True)


def drawn(lengths: Sequence[int], width: int | None) -> list[Tensor]:
    """Strings of vectors, or of ids."""
    if width is None:
        return [torch.randint(100, (length,)) for length in lengths]
    return [normal(length, width) for length in lengths]


def assert_equal(came: Sequence[Tensor], expected: Sequence[Tensor]) -> None:
    assert len(came) == len(expected)
    assert all(torch.equal(a, b) for a, b in zip(came, expected, strict=True))


@pytest.mark.parametrize("lengths", [(3, 1), (2, 2), (1,), (1, 3)])
def test_layers_of_pyg_see_first_and_last_tokens(lengths: tuple[int, ...]) -> None:
    graph, layer = path_graph([torch.randn(n, 3) for n in lengths]), SAGEConv(3, 2)
    expected = layer(graph.x, graph.edge_index)
    torch.testing.assert_close(layer(graph.x, path_edges(graph.ptr)), expected)


def test_edges_stay_inside_strings() -> None:
    strings = [torch.randn(n, 3) for n in (3, 0, 1, 2)]
    graph = path_graph(strings)
    assert graph.ptr.tolist() == [0, 3, 3, 4, 6]
    assert graph.batch.tolist() == [0, 0, 0, 2, 3, 3]
    assert graph.edge_index.tolist() == [[0, 1, 4], [1, 2, 5]]
    torch.testing.assert_close(graph.x, torch.cat(strings))


@ANY
@given(st.lists(st.integers(0, 4), min_size=1, max_size=5))
def test_edges_of_any_strings(lengths: list[int]) -> None:
    graph = path_graph(drawn(lengths, 2))
    first = [sum(lengths[:i]) for i in range(len(lengths))]
    expected = [(b + t, b + t + 1) for b, n in zip(first, lengths, strict=True) for t in range(n - 1)]
    assert graph.edge_index.t().tolist() == [list(edge) for edge in expected]
    sorted_edges = path_edges(graph.ptr)
    sorted_edges.validate()
    assert torch.equal(sorted_edges.as_tensor(), graph.edge_index)
    (indptr, _), _ = sorted_edges.get_csc()
    in_degrees = torch.bincount(graph.edge_index[1], minlength=sum(lengths))
    assert torch.equal(indptr.diff(), in_degrees)


def test_token_ids() -> None:
    graph = path_graph([torch.tensor([5, 6]), torch.tensor([7])])
    assert graph.x.tolist() == [5, 6, 7]
    assert graph.edge_index.tolist() == [[0], [1]]


@ANY
@given(lengths=st.lists(st.integers(0, 4), min_size=1, max_size=5), width=st.sampled_from([None, 1, 3]))
def test_there_and_back(lengths: list[int], width: int | None) -> None:
    strings = drawn(lengths, width)
    graph = path_graph(strings)
    assert_equal(to_list(graph.x, graph.ptr), strings)
    padded, ends = to_padded(graph.x, graph.ptr)
    assert torch.equal(padded, pad_sequence(strings, batch_first=True))
    assert ends.tolist() == lengths
    for given_lengths in (ends, lengths):
        again = path_graph(padded, given_lengths)
        assert all(torch.equal(again[key], graph[key]) for key in ("x", "ptr", "batch"))
        assert torch.equal(again.edge_index, graph.edge_index)
    if all(lengths):
        packed = to_packed(graph.x, graph.ptr)
        expected = pack_sequence(strings, enforce_sorted=False)
        assert_equal(packed[:3], expected[:3])
        assert_equal(to_list(path_graph(packed).x, path_graph(packed).ptr), strings)


def test_padding() -> None:
    x, ptr = torch.tensor([1, 2, 3]), torch.tensor([0, 2, 2, 3])
    padded, lengths = to_padded(x, ptr, value=-1)
    assert padded.tolist() == [[1, 2], [-1, -1], [3, -1]]
    mask = padded >= 0
    assert torch.equal(path_graph(padded, mask.sum(1)).x, x)
    assert torch.equal(mask.sum(1), lengths)
    assert path_graph(padded).ptr.tolist() == [0, 2, 4, 6]


def test_gradients_go_there_and_back() -> None:
    padded = normal(2, 3, 2).requires_grad_()
    graph = path_graph(padded, [3, 1])
    again, _ = to_padded(graph.x, graph.ptr)
    again.sum().backward()
    assert padded.grad is not None
    assert padded.grad[..., 0].tolist() == [[1, 1, 1], [1, 0, 0]]


def test_no_strings_have_no_tokens() -> None:
    x, ptr = torch.zeros(0, 3), torch.tensor([0])
    assert to_list(x, ptr) == []
    padded, lengths = to_padded(x, ptr)
    assert (padded.shape, lengths.shape) == ((0, 0, 3), (0,))


def test_transform() -> None:
    """Items with a string each, collated by PyG, are the same graph."""
    strings = [torch.randn(n, 3) for n in (3, 0, 1, 2)]
    batch = Batch.from_data_list([ToPathGraph()(Data(x=string)) for string in strings])
    expected = path_graph(strings)
    assert torch.equal(batch.ptr, expected.ptr)
    edges = batch.edge_index, expected.edge_index
    assert torch.equal(*edges)
    together = ToPathGraph()(Data(x=expected.x, ptr=expected.ptr))
    assert torch.equal(together.edge_index, edges[1])
    together = ToPathGraph()(Data(x=expected.x, batch=expected.batch))
    assert torch.equal(together.edge_index, edges[1])
    assert repr(ToPathGraph()) == "ToPathGraph()"
    with pytest.raises(ValueError, match=r"needs the tokens x, got \['y'\]"):
        ToPathGraph()(Data(y=torch.zeros(1)))


def test_edges_that_were_there_are_replaced_with_all_that_is_theirs() -> None:
    edges = torch.tensor([[0, 0, 1], [1, 2, 2]])
    graph = Data(x=torch.ones(3, 1), edge_index=edges, edge_weight=torch.ones(3), edge_attr=torch.ones(3, 2))
    assert {*ToPathGraph()(graph.clone()).keys()} == {"x", "edge_index"}
    closed = subsequence_graph(graph, 0.5)
    assert {*closed.keys()} == {"x", "edge_index", "edge_weight"}
    assert len(graph.edge_attr) == 3


@pytest.mark.parametrize("transform", [LineGraph(), RemoveDuplicatedEdges()], ids=repr)
def test_transforms_of_pyg(transform: Callable[[Data], Data]) -> None:
    transform(ToPathGraph()(Data(x=torch.randn(4, 2))))


def test_one_edge_in_a_batch() -> None:
    assert Batch.from_data_list([path_graph("ab"), path_graph("c")]).edge_index.tolist() == [[0], [1]]


def test_arrays_that_are_read_backwards() -> None:
    assert path_graph([np.arange(3.0)[::-1]]).x.tolist() == [2, 1, 0]
    assert path_graph(np.arange(4.0).reshape(2, 2)[:, ::-1]).x.tolist() == [1, 0, 3, 2]


def test_random_walk_layer_on_a_string_multiplies_consecutive_tokens() -> None:
    """λ = 0 with products: the state at t sees tokens t − 1 and t only."""
    torch.manual_seed(0)
    strings = [torch.randn(n, 4, dtype=torch.float64) for n in (5, 1, 3)]
    conv = RandomWalkKernelConv(4, 6).double()
    out = conv(*(path_graph(strings)[key] for key in ("x", "edge_index")))
    first, second = (lin.weight for lin in conv.lins)
    expected = []
    for string in strings:
        previous = torch.cat([torch.zeros(1, 4, dtype=torch.float64), string[:-1]])
        expected.append((previous @ first.T) * (string @ second.T))
    torch.testing.assert_close(out, torch.cat(expected))


X = torch.zeros(3, 2)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: path_graph([]), "at least one string, got none"),
        (lambda: path_graph(torch.zeros(0, 3)), "at least one string, got none"),
        (
            lambda: path_graph([torch.zeros(2, 2), torch.zeros(1, 3)]),
            r"string 1 has tokens of shape \[3\], expected \[2\] like string 0",
        ),
        (
            lambda: path_graph([torch.zeros(2).long(), torch.zeros(1)]),
            "string 1 has torch.float32, expected torch.int64 like string 0",
        ),
        (lambda: path_graph(torch.zeros(2, 2), [1.5, 2.0]), "lengths must be integers, got torch.float32"),
        (
            lambda: path_graph(torch.zeros(3)),
            r"shape \[B, T, …\], got \[3\]: put a single string into a list",
        ),
        (
            lambda: path_graph(torch.zeros(3, 2), [1, 2]),
            r"lengths must be those of 3 padded strings, \[3\], got \[2\]",
        ),
        (lambda: path_graph(torch.zeros(3, 2), [[1, 2, 2]]), r"lengths .* \[3\], got \[1, 3\]"),
        (lambda: path_graph(torch.zeros(3, 2), 2), r"lengths .* \[3\], got \[\]"),
        (lambda: path_graph(torch.zeros(2, 2), [1, 3]), r"string 1 has length 3, expected 0 … 2"),
        (lambda: path_graph(torch.zeros(2, 2), [-1, 1]), r"string 0 has length -1, expected 0 … 2"),
        (lambda: path_graph([X], [3]), "lengths are those of a padded tensor"),
        (lambda: to_list(X, torch.tensor([0, 2])), "ptr ends at 2, x has 3 tokens"),
        (lambda: to_list(X, torch.tensor([1, 3])), r"ptr must begin with 0 and never fall, got \[1, 3\]"),
        (lambda: to_list(X, torch.tensor([0, 5, 3])), r"ptr must begin with 0 and never fall"),
        (lambda: ToPathGraph()(Data(x=X, ptr=torch.tensor([0, 3, 9]))), "ptr ends at 9, x has 3 tokens"),
        (lambda: ToPathGraph()(Data(x=X, ptr=torch.tensor([0, 2]))), "ptr ends at 2, x has 3 tokens"),
        (lambda: to_padded(X, torch.tensor([0, 4])), "ptr ends at 4, x has 3 tokens"),
        (lambda: to_packed(X, ptr_of([1, 0, 2])), "string 1 is empty: a PackedSequence cannot hold it"),
        (lambda: to_packed(X[:0], ptr_of(LENGTHS["no_strings"])), "at least one string, got none"),
    ],
    ids=lambda value: value[:24] if isinstance(value, str) else "",
)
def test_bad_input(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize(
    "strings",
    [
        [[1, 2, 3], [], [4]],
        [np.array([1, 2, 3]), np.array([], dtype=np.int64), np.array([4])],
        [[[1.0, 2.0]], [[3.0, 4.0], [5.0, 6.0]]],
        np.ones((2, 3, 2)),
    ],
    ids=["lists", "arrays", "lists_of_features", "padded_array"],
)
def test_strings_of_every_kind(strings: Any) -> None:
    graph = path_graph(strings)
    expected = path_graph([torch.as_tensor(string) if len(string) else graph.x[:0] for string in strings])
    assert torch.equal(graph.x, expected.x)
    assert graph.ptr.tolist() == expected.ptr.tolist()
    for kind in (list, np.array):
        back = to_list(graph.x, kind(graph.ptr.tolist()))
        assert [string.tolist() for string in back] == [np.asarray(string).tolist() for string in strings]
    with pytest.raises(TypeError, match=r"string 1 must be a tensor, an array or a list of .* got 'ab'"):
        path_graph([[1], "ab"])


def test_texts_and_words() -> None:
    assert path_graph("abc").x.tolist() == [97, 98, 99]
    assert path_graph("abc").ptr.tolist() == [0, 3]
    for texts in (["ab", "", "c"], np.array(["ab", "", "c"])):
        graph = path_graph(texts)
        assert (graph.x.tolist(), graph.x.dtype, graph.ptr.tolist()) == (
            [97, 98, 99],
            torch.long,
            [0, 2, 2, 3],
        )
    vocabulary = Vocabulary(["the", "cat", "a"])
    assert path_graph([["the", "cat"], ["a"]], vocabulary=vocabulary).x.tolist() == [0, 1, 2]
    assert path_graph("cab", vocabulary=Vocabulary("abc")).x.tolist() == [2, 0, 1]


def test_nested_tensors() -> None:
    strings = [torch.randn(n, 2) for n in (2, 1, 3)]
    graph = path_graph(torch.nested.nested_tensor(strings, layout=torch.jagged))
    assert torch.equal(graph.x, torch.cat(strings))
    assert graph.ptr.tolist() == [0, 2, 3, 6]


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: path_graph(3), TypeError, "strings must be a list, .* got int"),
        (lambda: path_graph(None), TypeError, "strings must be a list, .* got NoneType"),
        (lambda: path_graph(b"ab"), TypeError, "strings must be a list, .* got bytes"),
        (lambda: path_graph(path_graph("ab")), TypeError, "strings must be a list, .* got Data"),
        (lambda: path_graph([1, 2]), ValueError, "string 0 is a single number, 1: put a single string into"),
        (lambda: path_graph([[1, 2], [[1], [2, 3]]]), TypeError, "string 1 must be a tensor, .* numbers"),
        (lambda: path_graph([["the", "cat"]]), TypeError, "string 0 must be .* words need a vocabulary"),
        (lambda: path_graph([[1], None]), TypeError, "string 1 must be a tensor, .* got None"),
        (lambda: path_graph([[2**70]]), TypeError, "string 0 must be a tensor"),
        (
            lambda: path_graph([["a"], ["z"]], vocabulary=Vocabulary("ab")),
            ValueError,
            "string 1: token 'z' is not in the vocabulary",
        ),
        (
            lambda: path_graph([torch.tensor([1])], vocabulary=Vocabulary("ab")),
            TypeError,
            "string 0: a vocabulary numbers characters or words, got torch.int64",
        ),
        (
            lambda: path_graph([b"ab"], vocabulary=Vocabulary("ab?", unknown="?")),
            TypeError,
            "string 0: token 0 is 97, expected a str",
        ),
        (
            lambda: path_graph(np.array([["a", "b"]], dtype="S"), vocabulary=Vocabulary("ab?", unknown="?")),
            TypeError,
            "string 0: token 0 is b'a', expected a str",
        ),
        (
            lambda: path_graph([["a", 1]], vocabulary=Vocabulary("ab?", unknown="?")),
            TypeError,
            "string 0: token 1 is 1, expected a str",
        ),
        (lambda: path_graph(["ab"], Vocabulary("ab")), TypeError, "lengths is a Vocabulary: write vocab"),
        (
            lambda: path_graph(np.ma.masked_equal([[1, 2, -9]], -9)),
            ValueError,
            r"a masked array hides the value at \[0, 2\]: leave out",
        ),
        (
            lambda: path_graph([np.ma.masked_equal([1, -9], -9)]),
            TypeError,
            "string 0 must be .* got masked_a",
        ),
        (lambda: path_graph(torch.zeros(2, 2), "ab"), ValueError, "lengths must be 2 integers, got 'ab'"),
        (lambda: path_graph(torch.zeros(2, 2), [[1], [1, 2]]), ValueError, "lengths must be 2 integers, got"),
    ],
)
def test_what_is_not_a_string(call: Callable[[], Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()


def test_a_text_that_is_missing_is_named() -> None:
    with pytest.raises(TypeError, match="string 2 must be a text, as string 0 is, got nan"):
        path_graph(["ab", "cd", float("nan")])


def test_arrays_that_are_read_only() -> None:
    array = np.zeros((2, 3, 4))
    array.flags.writeable = False
    assert path_graph(array).num_nodes == 6
