"""Predict for every row of a table of texts, in order."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from wlkernelnn.cli.data import one_column
from wlkernelnn.cli.options import PositiveInt, VerbParser, add_options, pick
from wlkernelnn.cli.predict import rejects_beside, tell


@dataclass
class TextPredictOptions:
    """What is read, by what, and where it goes.

    Args:
        test_path: CSV, TSV or Parquet files with the same columns, or folders of such files. They are read
            piece by piece and may be of any length.
        model_path: A run folder of "wlkernelnn text train", or one network's folder in it.
        preds_path: Where predictions go, a .csv or .parquet file, or without such an ending a folder of
            Parquet files: the columns of the input, then the class, called as the column of labels was, or
            <target>_pred where the input has such a column, and its probability as <target>_probability; of
            a language model the perplexity of each text.
        text_columns: The column of texts; by default the one called text.
        on_invalid: Rows without a text: "nan" keeps them with empty predictions, "skip" leaves them out,
            "raise" stops.
        rejects_path: CSV file for the rows without a text; by default beside preds_path.
        probabilities: Of a classifier: also the probability of every class, as <target>_p_<class>.
        max_tokens: Of a language model: also what it writes behind each text, so many tokens, as
            continuation.
        temperature: Of what is written: below 1 what is probable becomes more so, 0 takes the most probable.
        top_k: Write only tokens that are among so many most probable ones; by default all.
        seed: Seed of what is written.
        resume: Go on with a run that was interrupted.
    """

    test_path: list[Path]
    model_path: Path
    preds_path: Path
    text_columns: list[str] | None = None
    on_invalid: Literal["raise", "skip", "nan"] = "nan"
    rejects_path: Path | None = None
    probabilities: bool = False
    max_tokens: int = 0
    temperature: float = 1.0
    top_k: PositiveInt | None = None
    seed: int = 0
    resume: bool = False


def main(argv: list[str] | None = None) -> None:
    parser = VerbParser("text predict", __doc__)
    add_options(parser, "Options", TextPredictOptions)
    options = TextPredictOptions(**pick(parser.parse_args(argv), TextPredictOptions))
    rejects_path = rejects_beside(options.preds_path, options.rejects_path, options.test_path)
    # Help does not wait for torch.
    from wlkernelnn.training import TextColumns, predict_texts

    own = ("probabilities", "max_tokens", "temperature", "top_k", "seed")
    counts = predict_texts(
        options.test_path,
        options.model_path,
        options.preds_path,
        rejects_path,
        text_column=one_column(options.text_columns, "--text-columns"),
        on_invalid=options.on_invalid,
        columns=TextColumns(**{name: getattr(options, name) for name in own}),
        resume=options.resume,
        progress=True,
    )
    none = "has a text: is it in another column (--text-columns)?"
    tell(counts, "predicted", none, options.preds_path, rejects_path)
