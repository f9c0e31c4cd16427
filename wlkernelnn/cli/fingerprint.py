"""Fingerprints for every row of a table of SMILES, in order."""

from __future__ import annotations

from dataclasses import dataclass

from .predict import TableOptions, run


@dataclass
class FingerprintOptions(TableOptions):
    """Of what, by what, into which file.

    Args:
        preds_path: Where fingerprints go, a .csv or .parquet file, or without such an ending a folder of
            Parquet files: the columns of the input, and what the head of the network sees as fp_0, fp_1, ...,
            of several networks as fp_0_0, ..., fp_1_0, .... Of a linear machine: how often the molecule has
            each of up to 1,024 substructures, those that most training molecules have.
        on_invalid: Rows that give no molecule: "nan" keeps them with empty fingerprints, "skip" leaves them
            out, "raise" stops.
    """


def main(argv: list[str] | None = None) -> None:
    run("fingerprint", __doc__, FingerprintOptions, argv)
