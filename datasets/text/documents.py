"""Documents and their classes: AG News, DBpedia, Yahoo Answers and Yelp Full (Zhang et al. 2015)."""

from __future__ import annotations

import html
import itertools
import logging
import os
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from wlkernelnn.datasets.files.download import find_file, require_file
from wlkernelnn.datasets.files.table_chunks import text_rows
from wlkernelnn.utils.checks import check_count

from .packed_strings import LabelledStrings, PackedStrings
from .vocabulary import Vocabulary

logger = logging.getLogger("wlkernelnn")

UNKNOWN = "<unk>"
# Of a set that comes without test documents.
_TEST_FRACTION = 0.1


@dataclass(frozen=True)
class _Sample:
    """A file with some of the training documents.

    Attributes:
        file: Path in a folder of data sets; its columns are a class and one text.
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
        line_break: How the files write one.
        archive: The publisher's archive with both files.
        sample: A part of the training documents, for where the file is not at hand.
    """

    title: str
    texts: tuple[str, ...]
    classes: tuple[str, ...]
    sizes: tuple[int, int]
    max_length: int
    archive: str
    line_break: str = "\\n"
    sample: _Sample | None = None


DOCUMENT_SETS = {
    "ag_news": DocumentSet(
        title="AG News",
        texts=("title", "description"),
        classes=("World", "Sports", "Business", "Sci/Tech"),
        sizes=(120_000, 7_600),
        max_length=128,
        archive="ag_news_csv",
        line_break="\\",
        sample=_Sample("ag_news/train_sample.csv", first_class=1, has_test=True),
    ),
    "dbpedia": DocumentSet(
        title="DBpedia",
        texts=("title", "content"),
        classes=(
            *("Company", "EducationalInstitution", "Artist", "Athlete", "OfficeHolder"),
            *("MeanOfTransportation", "Building", "NaturalPlace", "Village", "Animal"),
            *("Plant", "Album", "Film", "WrittenWork"),
        ),
        sizes=(560_000, 70_000),
        max_length=128,
        archive="dbpedia_csv",
        sample=_Sample("dbpedia/dbpedia_14k.csv", first_class=0, has_test=False),
    ),
    "yahoo_answers": DocumentSet(
        title="Yahoo! Answers",
        texts=("question title", "question content", "best answer"),
        classes=(
            *("Society & Culture", "Science & Mathematics", "Health", "Education & Reference"),
            *("Computers & Internet", "Sports", "Business & Finance", "Entertainment & Music"),
            *("Family & Relationships", "Politics & Government"),
        ),
        sizes=(1_400_000, 60_000),
        max_length=96,
        archive="yahoo_answers_csv",
    ),
    "yelp_full": DocumentSet(
        title="Yelp Review Full",
        texts=("review",),
        classes=("1 star", "2 stars", "3 stars", "4 stars", "5 stars"),
        sizes=(650_000, 50_000),
        max_length=128,
        archive="yelp_review_full_csv",
    ),
}


class DocumentFiles(NamedTuple):
    """Which files a set is read from.

    Attributes:
        train: Documents for training, all or a sample.
        test: Those for testing; ``None`` where a part of the sample has to do.
        is_sample: Whether ``train`` is a sample.
    """

    train: Path
    test: Path | None
    is_sample: bool


class _Documents(NamedTuple):
    """Tokens and classes (from 0) of documents."""

    tokens: list[list[str]]
    y: np.ndarray

    def cut(self, count: int, rng: np.random.Generator) -> tuple[_Documents, _Documents]:
        """So many documents, drawn at random, and the others, both in their order."""
        order = rng.permutation(len(self.y))
        drawn, others = (
            _Documents([self.tokens[i] for i in positions], self.y[positions])
            for positions in (np.sort(order[:count]), np.sort(order[count:]))
        )
        return drawn, others


def document_files(name: str, root: str | os.PathLike[str] | None = None) -> DocumentFiles:
    """The files that :func:`load_documents` would read.

    Args:
        name, root: As there.

    Raises:
        FileNotFoundError: They are nowhere: says which to put where.
        ValueError: There is no such set.
    """
    if name not in DOCUMENT_SETS:
        raise ValueError(f"name must be one of {', '.join(map(repr, DOCUMENT_SETS))}, got {name!r}")
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
    in ``root`` (default ``$WLKERNELNN_DATA``), then in the user's cache. They are comma-separated, without a
    header: the class, counted from 1, and one or more texts, which become one document. No checksum of the
    publisher's archives is known, so they are not downloaded.

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
    files = document_files(name, root)
    if max_length is not None:
        check_count("max_length", max_length)
    check_count("min_count", min_count)
    check_count("num_valid", num_valid)
    rng = np.random.default_rng(seed)
    documents, test, note = _read_all(name, files, max_length, rng)
    if num_valid >= len(documents.y):
        raise ValueError(f"num_valid must leave some of {len(documents.y):,} documents, got {num_valid:,}")
    valid, train = documents.cut(num_valid, rng)
    words = itertools.chain.from_iterable(train.tokens)
    vocabulary = Vocabulary.build(words, unknown=UNKNOWN, min_count=min_count)
    packed_train, packed_valid, packed_test = (
        PackedStrings.encode(part.tokens, part.y, vocabulary) for part in (train, valid, test)
    )
    classes = DOCUMENT_SETS[name].classes
    return LabelledStrings(packed_train, packed_valid, packed_test, vocabulary, classes, name, note)


def _read_all(
    name: str, files: DocumentFiles, max_length: int | None, rng: np.random.Generator
) -> tuple[_Documents, _Documents, str]:
    """Documents to train and to test with, and what is to be known of them."""
    documents, sample = DOCUMENT_SETS[name], DOCUMENT_SETS[name].sample
    if sample is not None and files.is_sample:
        train = _read(files.train, documents, ("text",), sample.first_class, max_length)
        note = f"a sample of {len(train.y):,} of {documents.sizes[0]:,} training documents"
    else:
        train = _read(files.train, documents, documents.texts, 1, max_length)
        note = _unlike_published(f"{name}/train.csv", len(train.y), documents.sizes[0])
    if files.test is None:
        test, train = train.cut(round(_TEST_FRACTION * len(train.y)), rng)
        return train, test, f"{note}, {len(test.y):,} of them for testing"
    test = _read(files.test, documents, documents.texts, 1, max_length)
    of_test = _unlike_published(f"{name}/test.csv", len(test.y), documents.sizes[1])
    return train, test, "; ".join(filter(None, (note, of_test)))


def _unlike_published(file: str, came: int, published: int) -> str:
    """Tell, and return, what there is to know of a file of another size; nothing otherwise."""
    if came == published:
        return ""
    note = f"{file} has {came:,} documents, the published one {published:,}"
    logger.warning(f"{note}; results may not compare with published ones")
    return note


def _read(
    path: Path, documents: DocumentSet, texts: Sequence[str], first_class: int, max_length: int | None
) -> _Documents:
    """The documents of a file; ``texts`` are its columns behind the class."""
    classes = {str(first_class + i): i for i in range(len(documents.classes))}
    tokens, y = [], []
    for line, (label, *parts) in text_rows(path, ("class", *texts)):
        if label.strip() not in classes:
            last = first_class + len(classes) - 1
            raise ValueError(
                f"{path}: line {line}: expected a class from {first_class} to {last}, got {label!r}"
            )
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
_TOKEN = re.compile(rf"[^\W_]+?(?=n't\b)|{_ENDING}|[^\W_]+|[^\w\s]")


def document_tokens(text: str, max_length: int | None = None) -> list[str]:
    r"""The tokens of a document of these sets.

    Lower-cased, back-slashes blanks, character references resolved (also those that lost their ``&``, such as
    ``#39;``), HTML tags left out. Tokens are then runs of letters and digits, the endings n't, 's, 'm, 'd,
    're, 've and 'll, as in GloVe, and every other sign by itself; underscores are blanks.

    Args:
        text: The document.
        max_length: Stop after so many tokens; default never.
    """
    text = html.unescape(_REFERENCE.sub(r"&\1", text.lower().replace("\\", " ")))
    found = _TOKEN.finditer(_TAG.sub(" ", text))
    # Of a set with millions of tokens, equal ones are kept once.
    return [sys.intern(token[0]) for token in itertools.islice(found, max_length)]
