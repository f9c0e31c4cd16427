"""Corpora for language modelling: the Penn Treebank, WikiText, and any plain text."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
from torch import Tensor

from wlkernelnn.datasets.files.download import read_text, require_file, warn_unlike_published
from wlkernelnn.datasets.graphs.arrays import content_hash
from wlkernelnn.datasets.splits.parts import PARTS, Sizes, check_sizes
from wlkernelnn.utils.checks import check_one_of

from .vocabulary import UNKNOWN, Vocabulary, as_ids, check_ids

EOS = "<eos>"
# Words in the names of the three files of a folder.
PART_WORDS = (("train",), ("valid", "val", "dev", "validation"), ("test",))


@dataclass(frozen=True, eq=False)
class Corpus:
    """A text in three parts, each one long string of token ids.

    Attributes:
        train, valid, test: int64 ``[number of tokens]``; given as any integers in a tensor, array or list.
        vocabulary: The tokens.
        name: Name of the corpus.

    Raises:
        ValueError: A part has ids that are not those of tokens.
    """

    train: Tensor
    valid: Tensor
    test: Tensor
    vocabulary: Vocabulary
    name: str = ""

    def __post_init__(self) -> None:
        for part in PARTS:
            name = f"{self.name} {part}".strip()
            object.__setattr__(self, part, as_ids(getattr(self, part), name))
            check_ids(getattr(self, part), len(self.vocabulary), name)

    def digest(self) -> str:
        """SHA-256 of the parts."""
        return content_hash("corpus", *(getattr(self, part) for part in PARTS))


class _Published(NamedTuple):
    """A published corpus: its files, where they come from, and how many tokens they are known to have."""

    files: str
    source: str
    num_tokens: tuple[int, int, int]


_WIKITEXT = "its publisher (the word-level archive; Creative Commons BY-SA)"
# Tokens count the end of every line. Those of WikiText are the usual ones, not measured here.
_CORPORA = {
    "ptb": _Published(
        "ptb/ptb.{}.txt",
        "Mikolov's pre-processed Penn Treebank (simple-examples/data; licensed by the LDC)",
        (929_589, 73_760, 82_430),
    ),
    "wikitext-2": _Published("wikitext-2/wiki.{}.tokens", _WIKITEXT, (2_088_628, 217_646, 245_569)),
    "wikitext-103": _Published("wikitext-103/wiki.{}.tokens", _WIKITEXT, (103_227_021, 217_646, 245_569)),
}


def load_ptb(root: str | os.PathLike[str] | None = None) -> Corpus:
    """The Penn Treebank in Mikolov's preparation, for language modelling by words.

    929,589 / 73,760 / 82,430 tokens with one end-of-line token per line, 10,000 of them distinct. The files
    ``ptb/ptb.train.txt``, ``ptb.valid.txt`` and ``ptb.test.txt`` (each also ``.gz``) are looked for as by
    :func:`~wlkernelnn.datasets.find_file`, and never downloaded: the text is licensed by the LDC.

    Args:
        root: Folder with published data sets, or with the three files.

    Raises:
        FileNotFoundError: The files are nowhere: says which to put where.
        ValueError: A file is damaged or not UTF-8.
    """
    return _load("ptb", root)


def load_wikitext(
    name: Literal["wikitext-2", "wikitext-103"] = "wikitext-2", root: str | os.PathLike[str] | None = None
) -> Corpus:
    """WikiText (Merity et al. 2017), for language modelling by words.

    The files ``wiki.train.tokens``, ``wiki.valid.tokens`` and ``wiki.test.tokens`` (each also ``.gz``) of the
    folder ``name`` are looked for as by :func:`load_ptb`; no checksum of them is known, so they are not
    downloaded. Words stand between blanks, and every line, an empty one too, ends in one end-of-line token.

    Args:
        name: Which of the two.
        root: Folder with published data sets, or with the three files.

    Raises:
        FileNotFoundError: The files are nowhere: says which to put where.
        ValueError: Unknown ``name``, or a file is damaged or not UTF-8.
    """
    check_one_of("name", name, ("wikitext-2", "wikitext-103"))
    return _load(name, root)


def load_text(
    source: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    level: Literal["words", "characters"] = "words",
    sizes: Sizes = (0.8, 0.1, 0.1),
    unknown: str | None = None,
    min_count: int = 1,
    encoding: str = "utf-8",
    name: str = "",
) -> Corpus:
    """Any plain text as a corpus, with the vocabulary of its training part.

    Args:
        source: Three files (train, valid, test); a folder with three such files, where one of the words in a
            name says which it is, as in ``ptb.train.txt`` (valid may be val, dev or validation); or one file
            that is cut into three stretches, train first. Files whose names end in ``.gz`` are decompressed.
        level: Tokens are ``"words"`` (what stands between white space, and one ``<eos>`` at the end of every
            line) or ``"characters"`` (all of them, line ends too).
        sizes: Fractions of the tokens of one file that become train, valid and test.
        unknown: Token that stands for those that the training part lacks or, by ``min_count``, has too
            rarely. ``None`` makes such tokens an error.
        min_count: Tokens that occur less often in the training part are unknown.
        encoding: Encoding of the files.
        name: Name of the corpus; default that of the folder or of the (training) file.

    Raises:
        FileNotFoundError: The file does not exist.
        ValueError: Bytes that are not in ``encoding`` (names file, line and byte), a part without tokens, a
            token that is unknown without an ``unknown``, a folder without such files, or an option that
            cannot be.
    """
    check_one_of("level", level, ("words", "characters"))
    if unknown is not None and not isinstance(unknown, str):
        raise ValueError(f"unknown must be a token, or None, got {unknown!r}")
    if not isinstance(source, (str, os.PathLike, Sequence)):
        raise ValueError(f"source must be one file, or three (train, valid, test), got {source!r}")
    if isinstance(source, (str, os.PathLike)):
        name = name or Path(source).resolve().name
        source = _parts_in(source) if Path(source).is_dir() else [source]
    paths = list(source)
    if len(paths) not in (1, 3):
        raise ValueError(f"expected one file, or three (train, valid, test), got {len(paths)}")
    check_sizes(sizes)
    texts = [read_text(path, encoding) for path in paths]
    tokens: list[_Tokens] = list(texts) if level == "characters" else [Words(text) for text in texts]
    if len(paths) == 1:
        paths = paths * 3
        whole = texts[0] if level == "characters" else list(tokens[0])
        first, second = np.rint(np.cumsum(sizes[:2]) * len(whole)).astype(int)
        tokens = [whole[:first], whole[first:second], whole[second:]]
    return _corpus(tokens, paths, unknown, min_count, name or Path(paths[0]).name)


def _parts_in(folder: str | os.PathLike[str]) -> list[Path]:
    """The three files of a folder."""
    files = sorted(path for path in Path(folder).iterdir() if path.is_file())
    found = []
    for words in PART_WORDS:
        of_part = [path for path in files if {*re.split(r"[^a-z]+", path.name.lower())} & {*words}]
        if len(of_part) != 1:
            shown = ", ".join(path.name for path in of_part) or "none"
            raise ValueError(f"{folder}: expected one file called {' or '.join(words)}, got {shown}")
        found += of_part
    return found


@dataclass
class Words:
    """The words of a text with a token at the end of every line, as often as they are asked for."""

    text: str

    def __iter__(self) -> Iterator[str]:
        for line in io.StringIO(self.text, newline=None):
            yield from line.split()
            yield EOS


# Iterated twice, to count and to encode: the words of a long text are never all in memory at once.
_Tokens = str | list[str] | Words


def _corpus(
    tokens: Sequence[_Tokens],
    paths: Sequence[str | os.PathLike[str]],
    unknown: str | None,
    min_count: int,
    name: str,
) -> Corpus:
    vocabulary = Vocabulary.build(tokens[0], unknown=unknown, min_count=min_count)
    ids = {}
    for part, path, of_part in zip(PARTS, paths, tokens, strict=True):
        try:
            ids[part] = vocabulary.encode(of_part)
        except ValueError as error:
            raise ValueError(f"{os.fspath(path)}: the {part} part: {error}") from error
        if not len(ids[part]):
            raise ValueError(f"{os.fspath(path)}: the {part} part has no tokens")
    return Corpus(**ids, vocabulary=vocabulary, name=name)


def _load(name: str, root: str | os.PathLike[str] | None) -> Corpus:
    known = _CORPORA[name]
    paths = [require_file(known.files.format(part), root, known.source) for part in PARTS]
    corpus = _corpus([Words(read_text(path)) for path in paths], paths, UNKNOWN, 1, name)
    num_tokens = tuple(len(getattr(corpus, part)) for part in PARTS)
    if num_tokens != known.num_tokens:
        found, published = (" / ".join(f"{n:,}" for n in counts) for counts in (num_tokens, known.num_tokens))
        warn_unlike_published(f"{paths[0].parent}: {found} tokens, the published {name} has {published}")
    return corpus
