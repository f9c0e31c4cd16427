from __future__ import annotations

import gzip
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from wlkernelnn.datasets import (
    LabelledStrings,
    PackedStrings,
    Phrase,
    Vocabulary,
    load_sst,
    load_sst_trees,
    read_trees,
    tree_graph,
)
from wlkernelnn.datasets.text import sst

# "good" is positive, then neutral; "Good" only a phrase of its own where cases differ.
TINY = {
    "train": "(3 (2 A) (4 (3 good) (2 film)))\n\n(2 (1 (2 Good) (0 grief)) (2 .))\n",
    "dev": "(1 (2 a) (0 mess))\n(2 film)\n",
    "test": "(4 (4 great) (2 .))",
}


def write(folder: Path, **texts: str) -> Path:
    (folder / "sst" / "trees").mkdir(parents=True, exist_ok=True)
    for part, text in (TINY | texts).items():
        (folder / "sst" / "trees" / f"{part}.txt").write_bytes(text.encode())
    return folder


def content(data: LabelledStrings, strings: PackedStrings) -> list[tuple[int, str]]:
    """Label and text of each."""
    return [
        (y, " ".join(data.vocabulary.decode(string.x)))
        for y, string in zip(strings.y.tolist(), strings, strict=True)
    ]


@pytest.mark.parametrize(
    ("labels", "sizes"), [("fine", (156_817, 1_101, 2_210)), ("binary", (76_961, 872, 1_821))]
)
def test_published_numbers_of_phrases(data_root: Path, labels: Any, sizes: tuple[int, int, int]) -> None:
    data = load_sst(data_root, labels)
    assert (len(data.train), len(data.valid), len(data.test)) == sizes
    assert data.train.y.unique().tolist() == list(range(len(data.classes)))


def test_published_nodes(data_root: Path) -> None:
    trees = [read_trees(data_root / "sst" / "trees" / f"{part}.txt.gz") for part in ("train", "dev", "test")]
    assert [len(part) for part in trees] == [8_544, 1_101, 2_210]
    assert sum(len(tree.phrases) for tree in trees[0]) == 318_582
    assert len({word for tree in trees[0] for word in tree.tokens}) == 18_280


@pytest.mark.parametrize("labels", ["fine", "binary"])
def test_sentences_are_those_of_another_release(data_root: Path, labels: Any) -> None:
    """The same labels and, but for their order, the same texts, token by token."""
    data = load_sst(data_root, labels, phrases=False)
    for part, name in ((data.train, "train"), (data.valid, "dev"), (data.test, "test")):
        theirs = gzip.decompress((data_root / "sst" / f"stsa.{labels}.{name}.gz").read_bytes()).decode()
        lines = [line.rstrip("\r ") for line in theirs.split("\n") if line]
        assert Counter(f"{y} {text}" for y, text in content(data, part)) == Counter(lines)


def test_phrases_of_a_tiny_set(tmp_path: Path) -> None:
    data = load_sst(write(tmp_path))
    assert content(data, data.train) == [
        (2, "a"),
        (3, "good"),
        (2, "film"),
        (4, "good film"),
        (3, "a good film"),
        (0, "grief"),
        (1, "good grief"),
        (2, "."),
        (2, "good grief ."),
    ]
    assert content(data, data.valid) == [(1, "a mess"), (2, "film")]
    assert content(data, data.test) == [(4, "great .")]
    # Of sentences, in all parts: ".", "a", "good", "film" occur twice.
    assert data.vocabulary.tokens == ("a", "good", "film", ".", "grief", "mess", "great")
    assert data.name == "sst-fine"


@pytest.mark.parametrize(
    ("labels", "classes", "train", "valid"),
    [
        ("binary", ("negative", "positive"), [(1, "a good film")], [(0, "a mess")]),
        (
            "ternary",
            ("negative", "neutral", "positive"),
            [(2, "a good film"), (1, "good grief .")],
            [(0, "a mess"), (1, "film")],
        ),
    ],
)
def test_classes_of_sentences(
    tmp_path: Path, labels: Any, classes: tuple[str, ...], train: list[Any], valid: list[Any]
) -> None:
    data = load_sst(write(tmp_path), labels, phrases=False)
    assert data.classes == classes
    assert content(data, data.train) == train
    assert content(data, data.valid) == valid


def test_a_phrase_has_its_first_label_before_neutral_ones_go(tmp_path: Path) -> None:
    folder = write(tmp_path, train="(3 (2 good) (3 film))\n(4 (4 good) (1 film))")
    data = load_sst(folder, "binary")
    assert content(data, data.train) == [(1, "film"), (1, "good film")]


def test_cases_can_be_kept(tmp_path: Path) -> None:
    data = load_sst(write(tmp_path), lowercase=False)
    assert (2, "Good") in content(data, data.train)
    assert (3, "good") in content(data, data.train)


# A node is its label and either a word or its children.
nodes = st.recursive(
    st.tuples(st.integers(0, 4), st.text("aé\u00a0\\'`", min_size=1, max_size=3)),
    lambda children: st.tuples(st.integers(0, 4), st.lists(children, min_size=1, max_size=3)),
    max_leaves=8,
)


def written(node: Any) -> str:
    label, inside = node
    return f"({label} {inside if isinstance(inside, str) else ' '.join(map(written, inside))})"


def walked(node: Any, tokens: list[str], phrases: list[Phrase]) -> None:
    label, inside = node
    begin = len(tokens)
    if isinstance(inside, str):
        tokens.append(inside)
    else:
        for child in inside:
            walked(child, tokens, phrases)
    phrases.append(Phrase(label, begin, len(tokens)))


@settings(deadline=None, max_examples=100)
@given(trees=st.lists(nodes, min_size=1, max_size=3))
def test_trees_come_back(trees: list[Any], tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.getbasetemp() / "trees.txt"
    path.write_text("\r\n".join(map(written, trees)), encoding="utf-8", newline="")
    for tree, node in zip(read_trees(path), trees, strict=True):
        tokens: list[str] = []
        phrases: list[Phrase] = []
        walked(node, tokens, phrases)
        assert tree == (tuple(tokens), tuple(phrases))


@pytest.mark.parametrize(
    ("line", "column", "expected", "came"),
    [
        ("good", 1, r"'\('", "good"),
        (")", 1, r"'\('", r"\)"),
        ("(", 2, "a label from 0 to 4", "the end of the line"),
        ("(good)", 2, "a label from 0 to 4", "good"),
        ("(5 good)", 2, "a label from 0 to 4", "5"),
        ("(2 (22 good))", 5, "a label from 0 to 4", "22"),
        ("((2 good))", 2, "a label from 0 to 4", r"\("),
        ("(2)", 3, "a token or a node", r"\)"),
        ("(2 good film)", 9, r"'\)' after the token", "film"),
        ("(2 good (2 film))", 9, r"'\)' after the token", r"\("),
        ("(2 (2 good) film)", 13, r"'\(' or '\)': a node holds either one token or nodes", "film"),
        ("(2 good", 8, r"'\)' after the token", "the end of the line"),
        ("(2 (2 good)  ", 12, r"'\)'", "the end of the line"),
        ("(2 good) (2 film)", 10, "the end of the line", r"\("),
        ("(2 good))", 9, "the end of the line", r"\)"),
    ],
)
def test_lines_that_are_no_trees(tmp_path: Path, line: str, column: int, expected: str, came: str) -> None:
    path = tmp_path / "trees.txt"
    path.write_text(f"(2 good)\n\n{line}\n")
    message = rf"trees\.txt: line 3, column {column}: expected {expected}.*'{came}'$"
    with pytest.raises(ValueError, match=message):
        read_trees(path)


def test_files_and_options_that_cannot_be_used(tmp_path: Path) -> None:
    path = tmp_path / "trees.txt"
    path.write_text("\n")
    with pytest.raises(ValueError, match=r"trees\.txt: the file has no trees"):
        read_trees(path)
    path.write_bytes("(2 café)".encode("latin-1"))
    with pytest.raises(ValueError, match=r"trees\.txt: line 1: byte 0xe9 at 6 is not utf-8"):
        read_trees(path)
    with pytest.raises(ValueError, match="labels must be one of fine, binary, ternary, got 'coarse'"):
        load_sst(tmp_path, labels="coarse")  # type: ignore[arg-type]
    with pytest.raises(FileNotFoundError, match=r"sst/trees/train\.txt is not in .*Get it from https://nlp"):
        load_sst(tmp_path)


# Trees as graphs


def test_a_tree_as_a_graph(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("(3 (2 A) (4 (3 good) (1 (2 new) (0 film))))\n(2 (1 Oh))\n(4 Yes)\n")
    vocabulary = Vocabulary(["A", "good", "new", "film", "Oh", "Yes", "<node>"])
    first, second, third = (tree_graph(tree, vocabulary) for tree in read_trees(tmp_path / "a.txt"))
    # A, good, new, film, "new film", "good new film", all
    assert first.x.tolist() == [0, 1, 2, 3, -1, -1, -1]
    assert first.edge_index.tolist() == [[2, 3, 1, 4, 0, 5], [4, 4, 5, 5, 6, 6]]
    assert first.node_y.tolist() == [2, 3, 2, 0, 1, 4, 3]
    assert first.y.tolist() == [3]
    assert (second.x.tolist(), second.edge_index.tolist()) == ([4, -1], [[0], [1]])
    assert (third.x.tolist(), third.edge_index.shape, third.y.tolist()) == ([5], (2, 0), [4])
    tree = read_trees(tmp_path / "a.txt")[0]
    assert tree_graph(tree, vocabulary, inner="<node>").x.tolist() == [0, 1, 2, 3, 6, 6, 6]


def test_trees_are_those_of_the_sentences(tmp_path: Path) -> None:
    write(tmp_path)
    trees, strings = load_sst_trees(tmp_path), load_sst(tmp_path, phrases=False)
    for part in ("train", "valid", "test"):
        sentences = getattr(strings, part)
        assert [tree.x[tree.x >= 0].tolist() for tree in trees[part]] == [s.x.tolist() for s in sentences]
        assert [int(tree.y) for tree in trees[part]] == sentences.y.tolist()


@given(st.recursive(st.just("w"), lambda children: st.lists(children, min_size=1, max_size=3), max_leaves=12))
@settings(deadline=None, max_examples=30, derandomize=True)
def test_every_node_but_the_root_has_one_parent(shape: Any) -> None:
    def written(node: Any) -> str:
        return f"(2 {'w' if node == 'w' else ' '.join(map(written, node))})"

    graph = tree_graph(sst._parse(written(shape), "here"), Vocabulary("w"))
    assert sorted(graph.edge_index[0].tolist()) == list(range(graph.num_nodes - 1))
    assert (graph.edge_index[0] < graph.edge_index[1]).all()

    def counts(node: Any) -> list[int]:
        """Children of every node, children before parents."""
        return [0] if node == "w" else [n for child in node for n in counts(child)] + [len(node)]

    assert torch.bincount(graph.edge_index[1], minlength=graph.num_nodes).tolist() == counts(shape)
