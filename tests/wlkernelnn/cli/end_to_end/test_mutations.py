"""Tables and configs with single bits or bytes changed: they are read, or an error names the file."""

from __future__ import annotations

import warnings
from pathlib import Path

import pandas as pd
import pytest

from tests.inputs.molecules import regression_set, write_table
from tests.wlkernelnn.training.test_damage import COUNTS, check_mutations
from wlkernelnn.cli.options import VerbParser, add_options
from wlkernelnn.cli.predict import PredictOptions
from wlkernelnn.datasets import PackedGraphs, molecules_from

CONFIG = """
test_path: [a.csv, b.csv]
model_path: runs/one  # networks
preds_path: out.csv
on_invalid: skip
batch_size: 1024
interval: 0.9
resume: true
"""


@pytest.mark.parametrize("count", COUNTS[1:])
def test_mutated_tables(tmp_path: Path, count: int) -> None:
    """Every row is a molecule or a reject; quotes around cells, as in tables of spreadsheets."""
    table = write_table(tmp_path / "t.csv", regression_set(12))
    pd.read_csv(table).to_csv(table, index=False, quoting=1)
    columns = {"smiles_column": pd.read_csv(table).columns[0], "target_columns": ["Act"]}

    def load() -> PackedGraphs:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return molecules_from(table, on_invalid="skip", cache=False, **columns)

    def check(data: PackedGraphs) -> None:
        rows = [*data.row.tolist(), *(reject.row for reject in data.rejects)]
        assert sorted(rows) == list(range(len(rows)))
        assert not data.y.isinf().any()

    assert check_mutations(table, count, load, check) > 0.1 * count


@pytest.mark.parametrize("count", COUNTS)
def test_mutated_yaml(tmp_path: Path, count: int, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(CONFIG)
    parser = VerbParser("predict")
    add_options(parser, "Options", PredictOptions)

    def load() -> dict[str, object]:
        try:
            return parser.read_config(path)
        except SystemExit as error:
            raise ValueError(capsys.readouterr().err) from error

    def check(options: dict[str, object]) -> None:
        assert options.keys() <= parser.kinds.keys()

    assert check_mutations(path, count, load, check) > 0.2 * count
