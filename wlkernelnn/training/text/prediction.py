"""Predictions for tables of texts of any length."""

from __future__ import annotations

import logging
import os
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import torch

from wlkernelnn.datasets import Reject
from wlkernelnn.datasets.text.texts import Tokenised, text_column_of, tokenised
from wlkernelnn.machines import TextMachine
from wlkernelnn.machines.texts import text_digest
from wlkernelnn.sequence.models.language_model import check_drawing
from wlkernelnn.training.checkpoint import digest
from wlkernelnn.training.classes import probability_columns
from wlkernelnn.training.options import RANGES
from wlkernelnn.training.screening.filling import Filling, Piece, fill_tables
from wlkernelnn.training.screening.parts import Counts
from wlkernelnn.utils.checks import check_count
from wlkernelnn.utils.text import json_digest, shortened

from .model import StringEnsemble, load_string_run, probabilities_of

logger = logging.getLogger("wlkernelnn")


@dataclass(frozen=True)
class TextColumns:
    """Which columns a text gets.

    Attributes:
        probabilities: Of a classifier: the probability of every class, ``<target>_p_<class>``.
        max_tokens: Of a language model: what it writes behind the text, so many tokens, as ``continuation``.
        temperature, top_k: How these are drawn, see :meth:`LanguageModel.generate`.
        seed: Seed of what is drawn.

    Raises:
        ValueError: A value is out of its range, or says how to draw where nothing is drawn.
    """

    probabilities: bool = False
    max_tokens: int = 0
    temperature: float = 1.0
    top_k: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        fine, expected = RANGES["seed"]
        if not fine(self.seed):
            raise ValueError(f"seed must be {expected}, got {self.seed!r}")
        check_count("max_tokens", self.max_tokens, least=0)
        check_drawing(self.temperature, self.top_k)
        if not self.max_tokens and (self.temperature, self.top_k, self.seed) != (1.0, None, 0):
            raise ValueError("temperature, top_k and seed say how tokens are drawn: max_tokens says how many")

    def names(self, model: StringEnsemble | TextMachine) -> list[str]:
        """Names of the columns.

        Raises:
            ValueError: The model has no such columns.
        """
        if model.about["task"] == "language":
            if self.probabilities:
                raise ValueError("probabilities: a classifier has these, this is a language model")
            return ["perplexity", *(["continuation"] if self.max_tokens else [])]
        if self.max_tokens:
            raise ValueError("max_tokens: a language model writes on, this is a classifier")
        (target,) = model.about["target_names"]
        more = probability_columns(target, model.about["classes"]) if self.probabilities else []
        return [target, f"{target}_probability", *more]

    def values(
        self,
        model: StringEnsemble | TextMachine,
        texts: Sequence[str],
        tokens: Sequence[Sequence[str]],
        rows: Sequence[int] | np.ndarray,
    ) -> list[np.ndarray]:
        """The values of :meth:`names` for texts in these rows, whose numbers are added to the seed."""
        if isinstance(model, StringEnsemble) and model.about["task"] == "language":
            columns = [model.perplexity(texts).astype(np.float32)]
            if self.max_tokens:
                drawing = (self.max_tokens, self.temperature, self.top_k)
                written = [
                    model.generate(text, *drawing, seed=self.seed + int(row))
                    for text, row in zip(texts, rows, strict=True)
                ]
                columns.append(np.array(written, dtype=object))
            return columns
        probability = probabilities_of(model, tokens)
        best = np.array(model.about["classes"], dtype=object)[probability.argmax(1)]
        highest = probability.max(1) if len(probability) else np.zeros(0, np.float32)
        return [best, highest, *(probability.T if self.probabilities else ())]


class _Filled(NamedTuple):
    position: np.ndarray
    columns: list[np.ndarray]
    rejects: list[Reject]


def predict_texts(
    inputs: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    model_path: str | os.PathLike[str],
    output: str | os.PathLike[str],
    rejects_path: str | os.PathLike[str],
    *,
    text_column: str | None = None,
    on_invalid: Literal["raise", "skip", "nan"] = "nan",
    columns: TextColumns | None = None,
    resume: bool = False,
    progress: bool = False,
) -> Counts:
    """Predict every row of one or several tables of texts, in order, in bounded memory.

    Files, parts and resuming are those of :func:`~wlkernelnn.training.predict_tables`.

    Args:
        inputs: A CSV, TSV or Parquet file, a folder of such, or several of these with the same columns.
        model_path: A run folder, see :func:`load_string_run`.
        output: A ``.csv`` or ``.parquet`` file, or, without a suffix, a folder of Parquet files.
        rejects_path: CSV file for the rows without a text.
        text_column: The column of texts; by default the one called text.
        on_invalid: Rows without a text: ``"nan"`` keeps them with empty predictions, ``"skip"`` leaves them
            out, ``"raise"`` stops at the first part that has any.
        columns: What a text gets.
        resume: Keep the parts that an earlier run of the same input, model and options finished.
        progress: Show on stderr how far it is.

    Returns:
        How many rows were read, rejected and written.

    Raises:
        FileNotFoundError, FileExistsError, ValueError: As of :func:`~wlkernelnn.training.predict_tables`.
    """
    columns, model = columns or TextColumns(), load_string_run(model_path)
    about = model.about
    if about["level"] == "vectors":
        raise ValueError(f"{model_path}: a model of signals, which are no texts; use it in Python")
    names = columns.names(model)

    def fill(pieces: Iterator[Piece]) -> Generator[_Filled, None, None]:
        count = unknown = 0
        for piece in pieces:
            level = "characters" if about["task"] == "language" else about["level"]
            (texts,) = piece.cells.values()
            found = tokenised(texts, level, about.get("max_length"), piece.first)
            if isinstance(model, StringEnsemble) and about["task"] == "language":
                found = _read(model, found, piece.first)
            values = columns.values(model, found.texts, found.tokens, piece.first + found.position)
            yield _Filled(found.position, values, found.rejects)
            count += sum(map(len, found.tokens))
            unknown += model.num_unknown(found.tokens)
        if unknown > count / 2 and about["task"] == "classification":
            share = f"{unknown / count:.0%} of the tokens are unknown to the model"
            logger.warning(f"{share}: are the texts of another language or kind than those of the training?")

    if isinstance(model, StringEnsemble):
        tokens = getattr(model.vocabulary, "tokens", ())
        networks = [*map(digest, model.networks), json_digest({"about": about, "tokens": tokens})]
    else:
        networks = [text_digest(model)]
    filling = Filling(
        names=names,
        measured=about["target_names"] if about["task"] == "classification" else (),
        origin={
            "networks": networks,
            "options": {"text_column": text_column, "on_invalid": on_invalid, "columns": vars(columns)},
            "versions": {"torch": torch.__version__},
        },
        what="text",
        columns_of=lambda known, where: [text_column_of(known, text_column, where)],
        fill=fill,
        reject_column="text",
    )
    return fill_tables(
        inputs, output, rejects_path, filling, on_invalid=on_invalid, resume=resume, progress=progress
    )


def _read(model: StringEnsemble, found: Tokenised, first: int) -> Tokenised:
    """Without the texts that have a token for which a language model has no id: these are rejected."""
    kept, rejects = [], found.rejects.copy()
    for i, text in enumerate(found.texts):
        if (token := model.unreadable(text)) is None:
            kept.append(i)
        else:
            reason = f"token {shortened(token)} is unknown to the model, which has none to stand for it"
            rejects.append(Reject(first + int(found.position[i]), text, reason))
    return Tokenised(
        found.position[kept],
        [found.texts[i] for i in kept],
        [found.tokens[i] for i in kept],
        sorted(rejects, key=lambda reject: reject.row),
    )
