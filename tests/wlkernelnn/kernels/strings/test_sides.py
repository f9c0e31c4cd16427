"""Every form of a sequence becomes the same flat arrays, and what cannot be compared is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch
from torch.nn.utils.rnn import pack_sequence
from torch_geometric.data import Batch, Data

from tests.inputs.strings import normal
from wlkernelnn.kernels import DeepStringKernel, StringKernel
from wlkernelnn.kernels.base import objects
from wlkernelnn.kernels.strings.sides import string_sides
from wlkernelnn.sequence import path_graph

WORDS = ["abca", "", "cb"]
TOKENS = [[7, "b", (1, 2), 7], (), ["c", "b"]]
IDS = [[5, 3, -1, 5], [], [-1, 3]]


def matches(X: Any, Y: Any) -> np.ndarray:
    """Similarity of all tokens of both sides."""
    a, b = string_sides(X, Y)
    assert b is not None
    if a.tokens.ndim == 2:
        return a.tokens @ b.tokens.T
    return (a.tokens[:, None] == b.tokens).astype(float)


def test_characters_of_both_sides_share_codes() -> None:
    a, b = string_sides(WORDS, ["xc", "a"])
    assert b is not None
    assert a.ptr.tolist() == [0, 4, 4, 6]
    assert b.ptr.tolist() == [0, 2, 3]
    assert a.tokens.tolist() == [0, 1, 2, 0, 2, 1]
    assert b.tokens.tolist() == [3, 2, 0]
    assert a.num_codes == b.num_codes == 4


@pytest.mark.parametrize(
    "form",
    [
        list,
        tuple,
        objects,
        pd.Series,
        lambda ids: [np.array(item, dtype=np.int32) for item in ids],
        lambda ids: [torch.tensor(item, dtype=torch.long) for item in ids],
        lambda ids: [np.array([[i, 9] for i in item], dtype=int).reshape(-1, 2) for item in ids],
        lambda ids: path_graph([torch.tensor(item, dtype=torch.long) for item in ids]),
        lambda ids: [path_graph([torch.tensor(item, dtype=torch.long)]) for item in ids],
        lambda ids: Batch.from_data_list([Data(x=torch.tensor(item, dtype=torch.long)) for item in ids]),
    ],
    ids=["list", "tuple", "objects", "series", "numpy", "torch", "rows", "batch", "graphs", "pyg_batch"],
)
def test_forms_of_ids(form: Any) -> None:
    side, other = string_sides(form(IDS), None)
    assert other is None
    assert side.ptr.tolist() == [0, 4, 4, 6]
    assert side.tokens.tolist() == [0, 1, 2, 0, 2, 1]


def test_tokens_are_compared_by_equality() -> None:
    expected = [[1, 0], [0, 0], [0, 1], [1, 0], [0, 0], [0, 0]]
    np.testing.assert_array_equal(matches(TOKENS, [[7, (1, 2)]]), expected)
    # The number 1 is not the character "1", whichever arrays they come in.
    assert matches([np.array([1, 2])], [np.array(["1", "2"])]).sum() == 0
    # Integers beyond int64 are tokens like others.
    assert matches([[2**70, 1]], [[2**70]]).tolist() == [[1], [0]]
    large = np.array([2**63 + 5, 3], dtype=np.uint64)
    assert matches([large], [[2**63 + 5], np.array([3]), np.array([2**63 + 5 - 2**64])]).tolist() == [
        [1, 0, 0],
        [0, 1, 0],
    ]
    missing = [None, pd.NA, pd.NaT]
    assert matches([missing], [missing]).tolist() == np.eye(3).tolist()
    # A text that cannot be encoded is still a text.
    assert matches(["\ud800a"], ["\ud800"]).tolist() == [[1], [0]]


def test_vectors() -> None:
    x = [torch.randn(3, 2), torch.randn(0, 2), torch.randn(1, 2)]
    expected = torch.cat(x).double() @ torch.cat(x).double().T
    np.testing.assert_allclose(matches(x, path_graph(x)), expected)
    np.testing.assert_allclose(
        matches([item.numpy() for item in x], [path_graph([item]) for item in x]), expected
    )
    assert string_sides(x, None)[0].num_codes == 0
    short = [torch.tensor([[0.5, 2.0]], dtype=torch.bfloat16, requires_grad=True)]
    assert string_sides(short, None)[0].tokens.tolist() == [[0.5, 2.0]]


@pytest.mark.parametrize("width", [None, 2])
def test_packed_sequences(width: int | None) -> None:
    strings = [torch.arange(n) if width is None else torch.randn(n, width) for n in (2, 4, 1)]
    packed = pack_sequence(strings, enforce_sorted=False)
    np.testing.assert_array_equal(matches(packed, packed), matches(strings, strings))
    assert string_sides(packed, None)[0].ptr.tolist() == [0, 2, 6, 7]


def test_empty_sequences_go_with_everything() -> None:
    for others in (WORDS, TOKENS, [np.ones((2, 3))], [np.ones((2, 3), dtype=int)]):
        side, _ = string_sides([*others, [], "", np.zeros(0), np.zeros((0, 7))], None)
        assert side.lengths[-4:].tolist() == [0] * 4
        _, y = string_sides(others, [""])
        assert y is not None
        assert y.ptr.tolist() == [0, 0]
    assert string_sides([], None)[0].ptr.tolist() == [0]


def test_batches_without_strings() -> None:
    """Of no path, of an empty one, of several with and without tokens."""
    x = torch.arange(3)
    for ptr, lengths in (([0], []), ([0, 0], [0]), ([0, 0, 2, 2, 3], [0, 2, 0, 1])):
        batch = Data(x=x[: ptr[-1]], ptr=torch.tensor(ptr))
        assert string_sides(batch, None)[0].lengths.tolist() == lengths
        assert StringKernel(1)(batch).shape == (len(lengths), len(lengths))


@pytest.mark.parametrize("from_end", [False, True])
def test_parts_hold_steps(from_end: bool) -> None:
    side, _ = string_sides(["zz", "ab", "", "cdef", "gh"], None, from_end)
    part = side.part(1, 5)
    letters = np.array(list("abcdefghz"))[np.unique(side.tokens, return_inverse=True)[1]]
    names = dict(zip(side.tokens.tolist(), "zzabcdefgh", strict=True))
    assert letters.size == 10
    text = "".join(names[token] for token in part.tokens.tolist())
    assert text == ("fbheagdc" if from_end else "cagdbhef")
    assert part.rank.tolist() == [1, 3, 0, 2]
    assert part.lengths.tolist() == [4, 2, 2, 0]
    assert part.counts.tolist() == [3, 3, 1, 1]
    assert part.string.tolist() == [0, 1, 2, 0, 1, 2, 0, 0]
    np.testing.assert_array_equal(side.tokens[part.place], part.tokens)
    assert part.tokens[part.at(1)].tolist() == part.tokens[3:6].tolist()
    assert len(part) == 4


@pytest.mark.parametrize(
    ("X", "Y", "error", "message"),
    [
        ("cat", None, TypeError, "X: expected a list of sequences, got one str"),
        (["cat"], "cat", TypeError, "Y: expected a list of sequences, got one str"),
        (3, None, TypeError, "X: expected a list of sequences, got one int"),
        ({"cat": 1}, None, TypeError, "X: expected a list of sequences, got one dict"),
        (["cat"], {"cat"}, TypeError, "Y: expected a list of sequences, got one set"),
        (
            pd.DataFrame({"cat": ["a"], "dog": ["b"]}),
            None,
            TypeError,
            "X: expected a list of .* got one DataFrame",
        ),
        ([1, 2], None, TypeError, r"X\[0\]: expected a str, .* got int"),
        ([["a"], {"a"}], None, TypeError, r"X\[1\]: expected a str, .* got set"),
        ([[{}]], None, TypeError, r"X\[0\]: tokens must be hashable: .*dict"),
        ([[0.5, 1.5]], None, TypeError, r"X\[0\] is a list of float: vectors must come as one array"),
        ([np.array([0.5])], None, ValueError, r"X\[0\]: expected ids .* got float64 \[1\]"),
        ([[[1, 2]]], None, TypeError, r"X\[0\] is a list of list"),
        ([[torch.tensor(1)]], None, TypeError, r"X\[0\] is a list of Tensor"),
        ([np.ones((1, 2, 3))], None, ValueError, r"X\[0\]: expected ids .* got float64 \[1, 2, 3\]"),
        ([np.array([[np.nan, 1]])], None, ValueError, r"X\[0\]: its vectors hold values that are not finite"),
        (
            [np.full((1, 2), 2**63, np.uint64)],
            None,
            ValueError,
            r"X\[0\]: expected rows of integers below 2\^63, got 9223372036854775808",
        ),
        (["cat", ["c"]], None, ValueError, r"X\[1\] is a list of tokens, X\[0\] is a str"),
        (["", "cat"], [[1]], ValueError, r"Y\[0\] is a list of tokens, X\[1\] is a str"),
        (
            [np.ones((1, 2))],
            [np.ones((1, 3))],
            ValueError,
            r"Y\[0\] is vectors of 3 floats, X\[0\] is .* 2 fl",
        ),
        ([np.ones((1, 2))], [np.ones((1, 2), int)], ValueError, r"Y\[0\] is rows of 2 integers"),
        ([Data(edge_index=torch.zeros(2, 0))], None, ValueError, r"X\[0\]: a path graph needs the tokens x"),
        (
            [Data(x=torch.ones(2, 1), edge_index=torch.tensor([[0, 1], [1, 0]]))],
            None,
            ValueError,
            r"X\[0\]: a string kernel reads strings, each a path of directed edges: .* 0 → 1 → 0 .* a cycle",
        ),
        (
            [[1], np.ma.masked_equal([1, -9], -9)],
            None,
            ValueError,
            r"X\[1\]: a masked array hides the value at \[1\]",
        ),
        ([path_graph([torch.ones(2, 1)] * 2)], None, ValueError, r"X\[0\]: expected one path .* batch of 2"),
    ],
)
def test_errors_name_the_item(X: Any, Y: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        string_sides(X, Y)


@pytest.mark.parametrize(
    ("ptr", "message"),
    [
        ([0, 2, 3], "a string kernel: ptr ends at 3, x has 5 tokens"),
        ([2, 3, 5], r"ptr must begin with 0 and never fall, got \[2, 3, 5\]"),
        ([0, 3, 2, 5], r"ptr must begin with 0 and never fall, got \[0, 3, 2, 5\]"),
        ([], "ptr must be a vector of integers"),
        ([0.0, 5.0], "ptr must be a vector of integers"),
    ],
    ids=str,
)
def test_where_paths_begin(ptr: list[Any], message: str) -> None:
    batch = Data(x=torch.arange(5), ptr=torch.tensor(ptr))
    with pytest.raises(ValueError, match=f"X: {message}"):
        string_sides(batch, None)
    with pytest.raises(ValueError, match=rf"X\[0\]: {message}"):
        string_sides([batch], None)


def test_paths_are_those_of_sequence_models() -> None:
    """The order is that of the edges, and ``ptr`` or ``batch`` or components tell the strings."""
    x = torch.tensor([[7.0], [8.0], [9.0]])
    forward, mixed = torch.tensor([[0], [1]]), torch.tensor([[2, 0], [0, 1]])
    for graph, strings in (
        (Data(x=x, edge_index=mixed), [[9, 7, 8]]),
        (Data(x=x, edge_index=mixed, edge_weight=torch.ones(2)), [[9, 7, 8]]),
        (Data(x=x, edge_index=forward.numpy(), batch=torch.tensor([0, 0, 1])), [[7, 8], [9]]),
        (Data(x=x, edge_index=forward.flip(0)), [[8, 7], [9]]),
        (Data(x=x, batch=torch.tensor([0, 0, 1])), [[7, 8], [9]]),
        (Data(x=x), [[7, 8, 9]]),
    ):
        side, _ = string_sides(graph, None)
        found = np.split(side.tokens[:, 0], side.ptr[1:-1])
        assert [string.tolist() for string in found] == strings


def test_weights_of_edges_are_refused() -> None:
    path = path_graph([normal(4, 2)])
    path.edge_weight = torch.tensor([1, 0.5, 3])
    for kernel in (StringKernel(), DeepStringKernel()):
        with pytest.raises(ValueError, match=r"Y\[1\]: edge_weight\[1\] is 0.5, expected 1: string kernels"):
            kernel([normal(3, 2)], [normal(3, 2), path])


def test_a_column_of_texts_is_a_list_of_texts() -> None:
    texts = ["ab", "abb", "b"]
    kernel = StringKernel(2)
    expected = kernel(texts)
    for column in (
        np.array(texts, dtype=object)[:, None],
        np.array(texts)[:, None],
        pd.DataFrame({"text": texts}),
        pa.array(texts),
        pa.table({"text": texts}),
    ):
        np.testing.assert_array_equal(kernel(column), expected)
