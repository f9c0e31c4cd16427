"""Documents and their classes: AG News, DBpedia, Yahoo Answers and Yelp Full (Zhang et al. 2015)."""

from __future__ import annotations

import html
import itertools
import os
import re
import sys
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from wlkernelnn.datasets.files.download import find_file, require_file, warn_unlike_published
from wlkernelnn.datasets.files.table_chunks import text_rows
from wlkernelnn.utils.checks import check_count, check_one_of
from wlkernelnn.utils.files import read_json

from .packed_strings import LabelledStrings
from .vocabulary import UNKNOWN, Vocabulary

# Of a set that comes without test documents.
_TEST_FRACTION = 0.1


class _Sample(NamedTuple):
    """A file with some of the training documents; its columns are a class and one text.

    Attributes:
        file: Path in a folder of data sets.
        first_class: Number of the first class in it.
        has_test: Whether the official test file lies beside it; else a part of the sample is for testing.
    """

    file: str
    first_class: int
    has_test: bool


@dataclass(frozen=True)
class DocumentSet:
    """A published set of documents, as ``train.csv`` and ``test.csv`` of a folder of its name.

    Attributes:
        title: Its name for people.
        texts: The columns behind the class.
        classes: Names of the classes 1, 2, ….
        sizes: How many documents train and test have.
        max_length: Tokens of a document that the release of Liang et al. 2019 reads.
        archive: The publisher's archive with both files.
        line_break: How the files write one.
        sample: A part of the training documents, for where the file is not at hand.
    """

    title: str
    texts: Sequence[str]
    classes: tuple[str, ...]
    sizes: tuple[int, int]
    max_length: int
    archive: str
    line_break: str = "\\n"
    sample: _Sample | None = None


def _from_json(spec: dict[str, Any]) -> DocumentSet:
    values: dict[str, Any] = {key: tuple(v) if isinstance(v, list) else v for key, v in spec.items()}
    if "sample" in spec:
        values["sample"] = _Sample(**spec["sample"])
    return DocumentSet(**values)


#: The data sets that :func:`load_documents` knows, by name.
DOCUMENT_SETS = {
    name: _from_json(spec) for name, spec in read_json(Path(__file__).with_name("documents.json")).items()
}


class DocumentFiles(NamedTuple):
    """Which files a set is read from; ``test`` is ``None`` where a part of the sample has to do."""

    train: Path
    test: Path | None
    is_sample: bool


class _Documents(NamedTuple):
    """Tokens and classes (from 0) of documents."""

    tokens: list[list[str]]
    y: np.ndarray

    def cut(self, count: int, rng: np.random.Generator) -> Iterator[_Documents]:
        """So many documents, drawn at random, and the others, both in their order."""
        for part in np.split(rng.permutation(len(self.y)), [count]):
            part.sort()
            yield _Documents([self.tokens[i] for i in part], self.y[part])


def document_files(name: str, root: str | os.PathLike[str] | None = None) -> DocumentFiles:
    """The files that :func:`load_documents` would read; errors are those of that function."""
    check_one_of("name", name, DOCUMENT_SETS)
    documents = DOCUMENT_SETS[name]
    source = f"the archive {documents.archive} of Zhang et al. 2015"
    sample = documents.sample
    official, test = f"{name}/train.csv", f"{name}/test.csv"
    if sample is None or find_file(official, root) or not (train := find_file(sample.file, root)):
        return DocumentFiles(require_file(official, root, source), require_file(test, root, source), False)
    return DocumentFiles(train, require_file(test, root, source) if sample.has_test else None, True)


def load_documents(
    name: str,
    root: str | os.PathLike[str] | None = None,
    *,
    max_length: int | None = None,
    min_count: int = 1,
    num_valid: int = 2_000,
    seed: int = 0,
) -> LabelledStrings:
    """A published set of documents, tokenised by :func:`document_tokens`.

    The files ``NAME/train.csv`` and ``NAME/test.csv`` of Zhang et al. 2015 (each also ``.gz``) are looked for
    as by :func:`~wlkernelnn.datasets.find_file`; no checksum of the publisher's archives is known, so they
    are not downloaded. They are comma-separated, without a header: the class, counted from 1, and one or more
    texts, which become one document.

    Where there is no ``train.csv``, a **sample** of its documents is taken if one is found:
    ``ag_news/train_sample.csv`` (with the whole official ``test.csv``) or ``dbpedia/dbpedia_14k.csv`` (a
    tenth of it, drawn from ``seed``, becomes the test part). ``note`` of the result says so; its figures do
    not compare with published ones.

    Args:
        name: ``"ag_news"``, ``"dbpedia"``, ``"yahoo_answers"`` or ``"yelp_full"``.
        root: Folder with published data sets, or with the two files.
        max_length: Keep only so many tokens of a document; default all. ``DOCUMENT_SETS[name].max_length``
            is what the release of Liang et al. 2019 keeps.
        min_count: Tokens that occur less often in the training part are unknown.
        num_valid: Training documents that become the validation part.
        seed: Seed of the parts.

    Returns:
        The documents; ``<unk>`` stands for tokens that the training part lacks. An empty document is an empty
        string. Classes may be of different sizes: see ``class_counts``.

    Raises:
        FileNotFoundError: The files are nowhere: says which to put where.
        ValueError: An option cannot be, or a file is damaged, not UTF-8 or has a row that is no document:
            names file and line, what was expected and what was there.
    """
    files, documents = document_files(name, root), DOCUMENT_SETS[name]
    if max_length is not None:
        check_count("max_length", max_length)
    check_count("min_count", min_count)
    check_count("num_valid", num_valid)
    rng = np.random.default_rng(seed)
    notes = []
    if documents.sample is not None and files.is_sample:
        train = _read(files.train, documents, ("text",), documents.sample.first_class, max_length)
        notes.append(f"a sample of {len(train.y):,} of {documents.sizes[0]:,} training documents")
    else:
        train = _read(files.train, documents, documents.texts, 1, max_length)
        notes += _unlike_published(f"{name}/train.csv", len(train.y), documents.sizes[0])
    if files.test is None:
        test, train = train.cut(round(_TEST_FRACTION * len(train.y)), rng)
        notes[0] += f", {len(test.y):,} of them for testing"
    else:
        test = _read(files.test, documents, documents.texts, 1, max_length)
        notes += _unlike_published(f"{name}/test.csv", len(test.y), documents.sizes[1])
    if num_valid >= len(train.y):
        raise ValueError(f"num_valid must leave some of {len(train.y):,} documents, got {num_valid:,}")
    valid, train = train.cut(num_valid, rng)
    words = itertools.chain.from_iterable(train.tokens)
    vocabulary = Vocabulary.build(words, unknown=UNKNOWN, min_count=min_count)
    parts = (train, valid, test)
    return LabelledStrings.encode(parts, vocabulary, documents.classes, name, "; ".join(notes))


def _unlike_published(file: str, size: int, published: int) -> list[str]:
    """A note on a file of another size than the published one, which is logged too."""
    if size == published:
        return []
    note = f"{file} has {size:,} documents, the published one {published:,}"
    warn_unlike_published(note)
    return [note]


def _read(
    path: Path, documents: DocumentSet, texts: Sequence[str], first_class: int, max_length: int | None
) -> _Documents:
    """The documents of a file; ``texts`` are its columns behind the class."""
    last = first_class + len(documents.classes) - 1
    classes = {str(number): number - first_class for number in range(first_class, last + 1)}
    tokens, y = [], []
    for line, (label, *parts) in text_rows(path, ("class", *texts)):
        if label.strip() not in classes:
            expected = f"a class from {first_class} to {last}"
            raise ValueError(f"{path}: line {line}: expected {expected}, got {label!r}")
        y.append(classes[label.strip()])
        tokens.append(document_tokens(" ".join(parts).replace(documents.line_break, " "), max_length))
    return _Documents(tokens, np.array(y, dtype=np.int64))


# AG News has lost the ampersands of many character references.
_REFERENCE = re.compile(r"&?(#\d{1,5};|\b(?:amp|lt|gt|quot|nbsp);)")
# A name, and attributes with their values: the symbol <KMRT.O> of a share is no tag, and nothing between the
# signs of "a<b and c>d" is. Quotes in values are often lost.
_ATTRIBUTE = r"""\s+[a-z-]+\s*=\s*(?:"[^"<>]*"|'[^'<>]*'|[^\s<>]+)"""
_TAG = re.compile(rf"</?(?:h[1-6]|[a-z]+)(?>{_ATTRIBUTE})*\s*/?>")
_ENDING = r"n't\b|'(?:s|m|d|re|ve|ll)\b"


@cache
def _token() -> re.Pattern[str]:
    """What a token is; combining marks, which no escape of regular expressions stands for, go on a word."""
    places = (*range(0x300, 0x20000), *range(0xE0100, 0xE01F0))
    marks = "".join(sign for sign in map(chr, places) if unicodedata.category(sign).startswith("M"))
    # Few words are followed by a sign that may be a mark, and most marks are slow to look for.
    word = rf"[^\W_]+(?:(?![\0-\u02ff])(?:[{marks}\u200c\u200d]+[^\W_]+)*[{marks}]*)?"
    return re.compile(rf"[^\W_]+?(?=n't\b)|{_ENDING}|{word}|[^\w\s]")


def document_tokens(text: str, max_length: int | None = None) -> list[str]:
    r"""The tokens of a document of these sets.

    Lower-cased, back-slashes blanks, character references resolved (also those that lost their ``&``, such as
    ``#39;``), HTML tags left out, signs composed (NFC). Tokens are then runs of letters and digits, with
    their combining marks and joiners, the endings n't, 's, 'm, 'd, 're, 've and 'll, as in GloVe, and every
    other sign by itself; underscores are blanks.

    Args:
        text: The document.
        max_length: Stop after so many tokens; default never.
    """
    text = html.unescape(_REFERENCE.sub(r"&\1", text.lower().replace("\\", " ")))
    found = _token().finditer(unicodedata.normalize("NFC", _TAG.sub(" ", text)))
    # Of a set with millions of tokens, equal ones are kept once.
    return [sys.intern(token[0]) for token in itertools.islice(found, max_length)]
