"""Texts of any table, with their classes."""

from __future__ import annotations

import logging
import math
import os
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import pyarrow as pa

from wlkernelnn.datasets.files.rejects import Reject, is_missing, listed, write_rejects
from wlkernelnn.datasets.files.table import column_called, place, read_table
from wlkernelnn.datasets.files.table_chunks import check_text_column, kind_of, read_schema
from wlkernelnn.datasets.files.targets import MISSING
from wlkernelnn.datasets.splits.parts import SplitIndex, column_split
from wlkernelnn.utils.checks import check_one_of

from .documents import document_tokens

logger = logging.getLogger("wlkernelnn")

Level = Literal["words", "characters"]
LEVELS = ("words", "characters")
# A column's name of more words is a text.
MOST_WORDS = 8
# Half of a surrogate pair: UTF-8 has no bytes for it, so no file can hold it.
SURROGATE = re.compile("[\ud800-\udfff]")
# A whole number with the decimals of a column that has gaps.
WHOLE = re.compile(r"-?\d+\.0")


def _some(names: list[str]) -> str:
    """Names for a message that many rows may have."""
    more = f" and {len(names) - 20:,} more" if len(names) > 20 else ""
    return ", ".join(names[:20]) + more


@dataclass(frozen=True, eq=False)
class Texts:
    """The texts of a table that can be used, in its order.

    Attributes:
        texts: What stands in the table.
        tokens: Their tokens.
        labels: The name of the class of each; none where no column of labels was asked for.
        row: Input row of each, counted from 0, int64 ``[n]``.
        rejects: The rows that were left out.
        split_idx: Positions of each part, where a column says them.
        name: Name of the set.
        where: What messages call the table.
    """

    texts: list[str]
    tokens: list[list[str]]
    labels: list[str]
    row: np.ndarray
    rejects: list[Reject]
    split_idx: SplitIndex | None = None
    name: str = ""
    where: str = ""

    def __len__(self) -> int:
        return len(self.texts)


def tokens_of(text: str, level: str = "words", max_length: int | None = None) -> list[str]:
    """The tokens of a text: words and signs as :func:`document_tokens` finds them, or characters.

    Args:
        text: The text.
        level: ``"words"`` or ``"characters"``.
        max_length: Stop after so many tokens; default never.
    """
    return list(text[:max_length]) if level == "characters" else document_tokens(text, max_length)


class Tokenised(NamedTuple):
    """Cells as tokens.

    Attributes:
        position: Positions of the cells that are texts, ascending.
        texts, tokens: Of these.
        rejects: The other cells, with their rows.
    """

    position: np.ndarray
    texts: list[str]
    tokens: list[list[str]]
    rejects: list[Reject]


def tokenised(
    cells: Iterable[object], level: str, max_length: int | None = None, first: int = 0
) -> Tokenised:
    """The tokens of cells. One that is empty, has no word or sign, or half a surrogate pair is rejected.

    Args:
        cells: Of consecutive rows.
        level, max_length: As of :func:`tokens_of`.
        first: The number of the first row.
    """
    position, texts, tokens, rejects = [], [], [], []
    for i, cell in enumerate(cells):
        text = "" if is_missing(cell) else str(cell)
        found = tokens_of(text, level, max_length) if text.strip() else []
        if found and not SURROGATE.search(text):
            position.append(i)
            texts.append(text)
            tokens.append(found)
        else:
            reason = "half a surrogate pair in it" if found else "no word or sign in it"
            rejects.append(Reject(first + i, cell, reason if text.strip() else "no text"))
    return Tokenised(np.array(position, dtype=np.int64), texts, tokens, rejects)


def texts_from(
    path: str | os.PathLike[str],
    *,
    text_column: str | None = None,
    label_column: str | None = None,
    split_column: str | None = None,
    level: Level = "words",
    max_length: int | None = None,
    classes: Collection[str] | None = None,
    on_invalid: Literal["raise", "skip"] = "raise",
    rejects_path: str | os.PathLike[str] | None = None,
) -> Texts:
    """Read texts and the names of their classes from a table.

    A row is left out if it has no text, no label or, where ``classes`` are given, another label;
    ``on_invalid`` says what then happens. Rows in = texts + rejects, always; the counts are logged.

    Args:
        path: A CSV, TSV or Parquet file (:func:`~wlkernelnn.datasets.read_table`).
        text_column: Default: the column called "text" (in any case if only one is), or the only column.
        label_column: Column of the names of classes; default none. Whole numbers are names too.
        split_column: Column of the labels train, valid (or val) and test, which become ``split_idx``.
        level, max_length: Tokens of the texts, see :func:`tokens_of`.
        classes: The labels that are known, which ``labels`` then calls as they are called here; default all.
        on_invalid: ``"raise"`` an error for rows that cannot be used, or ``"skip"`` them.
        rejects_path: CSV file for these rows, see :func:`~wlkernelnn.datasets.write_rejects`.

    Raises:
        FileNotFoundError: The file does not exist.
        ValueError: The file cannot be read, a column is missing, texts are anything but text or labels
            anything but text, whole numbers and booleans, or a row (``on_invalid="raise"``) or every row
            cannot be used.
    """
    check_one_of("level", level, LEVELS)
    check_one_of("on_invalid", on_invalid, ("raise", "skip"))
    where = os.fspath(path)
    schema = read_schema(path)
    text_column = text_column_of(schema.names, text_column, where)
    columns = [text_column, *(column for column in (label_column, split_column) if column is not None)]
    if len({*columns}) < len(columns):
        raise ValueError(
            f"{where}: texts, labels and split need columns of their own, got {', '.join(columns)}"
        )
    check_text_column(schema, text_column, where)
    frame = read_table(path, columns)
    if label_column is not None:
        _check_labels(kind_of(schema, label_column), where, label_column)
    found = tokenised(frame[text_column].tolist(), level, max_length)
    position, rejects, labels = found.position.tolist(), found.rejects, list[str]()
    if label_column is not None:
        labels = [_label(cell) for cell in frame[label_column].tolist()]
        _check_names(labels, where, label_column, partial(place, frame))
        names = labels if classes is None else classes
        # Of Python's classes, unlike those of files, some are called 1.0.
        known = {_label(name): name for name in names} | {name: name for name in names}
        kept, shown = [], _some(sorted(classes or ()))
        for i, row in enumerate(position):
            if labels[row] and labels[row] in known:
                kept.append(i)
                continue
            reason = "no label"
            if labels[row]:
                reason = f"label {labels[row]!r} is none of the classes {shown}"
            rejects.append(Reject(row, found.texts[i], reason))
        position, rejects = [position[i] for i in kept], sorted(rejects, key=lambda reject: reject.row)
        found = found._replace(texts=[found.texts[i] for i in kept], tokens=[found.tokens[i] for i in kept])
        labels = [known[labels[row]] for row in position]
        if classes is None:
            _tell_of_classes(labels, where, label_column)
    row = np.array(position, dtype=np.int64)
    split_idx = None
    if split_column is not None:
        try:
            split_idx = column_split(frame[split_column].iloc[position].tolist(), position)
        except ValueError as error:
            raise ValueError(f"{where}: column {split_column!r}: {error}") from error
    logger.info(f"{where}: {len(frame):,} rows in = {len(position):,} texts + {len(rejects):,} rejected")
    if rejects_path is not None:
        write_rejects(rejects_path, rejects, column="text")
    if rejects and (on_invalid == "raise" or not position):
        advice = " (on_invalid='skip' leaves them out)" if position else ""
        head = f"{where}: {len(rejects):,} of {len(frame):,} rows cannot be used{advice}"
        raise ValueError(listed(head, rejects, partial(place, frame)))
    return Texts(found.texts, found.tokens, labels, row, rejects, split_idx, Path(path).name, where)


def text_column_of(available: Sequence[object], name: str | None, where: str) -> str:
    """The column of texts: the one given, else the one called text, in any case, else the only one.

    Raises:
        ValueError: The column is missing or there twice, or the first line names no columns.
    """
    longest = max(map(str, available), key=len, default="")
    if name is None and len(longest.split()) > MOST_WORDS:
        raise ValueError(
            f"{where}: the first line must name the columns, such as text,label, got {longest!r:.60}"
        )
    found = column_called(available, name, "text", where)
    sign = next((sign for sign in ";|\t" if sign in found), None)
    if name is None and sign is not None:
        raise ValueError(
            f"{where}: the only column is called {found!r}: is {sign!r} its separator? Expected ','"
        )
    return found


def _label(cell: object) -> str:
    """The name of a class: text without blanks around it, or a whole number; nothing if it is missing.

    Whole numbers in a column with gaps are written as 1.0 by many tools: these are 1 as well.
    """
    if isinstance(cell, float) and cell.is_integer():
        cell = int(cell)
    name = "" if is_missing(cell) else str(cell).strip()
    return name.removesuffix(".0") if WHOLE.fullmatch(name) else name


def _check_labels(kind: pa.DataType, where: str, column: str) -> None:
    """Refuse what would only be called as Python shows it."""
    if pa.types.is_nested(kind) or pa.types.is_decimal(kind) or "binary" in str(kind):
        raise ValueError(f"{where}: column {column!r} holds {kind}, expected names of classes, as text")


def _tell_of_classes(labels: Sequence[str], where: str, column: str) -> None:
    """Warn of a class that is called as other tools write a missing value, and of very many classes."""
    names = sorted(set(labels))
    if len(names) > 20 and 2 * len(names) > len(labels):
        some = ", ".join(map(repr, names[:3]))
        logger.warning(
            f"{where}: column {column!r} has {len(names):,} classes ({some}, …) in {len(labels):,} rows: it "
            "may be another column than was meant, or numbers, which are not predicted"
        )
    for name in names:
        if name.lower() in MISSING:
            logger.warning(
                f"{where}: column {column!r}: {name!r} is a class of its own, in {labels.count(name):,} rows"
                ". Leave cells without a label empty"
            )


def _check_names(labels: Sequence[str], where: str, column: str, place: partial[str]) -> None:
    """Refuse measured values."""
    for row, label in enumerate(labels):
        try:
            value = float(label)
        except ValueError:
            continue
        if math.isfinite(value) and not value.is_integer():
            raise ValueError(
                f"{where}: {place(row)}, column {column!r}: expected the name of a class, got {label}; texts "
                "are sorted into classes, numbers are not predicted"
            )
