"""Committed results: every file is read, and renders to the table that was committed beside it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from wlkernelnn.bench.harness import ratios
from wlkernelnn.bench.harness.tables import Rows, markdown
from wlkernelnn.bench.kernels import graph_kernels
from wlkernelnn.bench.language import awd_lm, documents, ptb, sst
from wlkernelnn.bench.language.rrnn import rrnn
from wlkernelnn.bench.molecules import chembl, ogb, table
from wlkernelnn.bench.molecules.cep import models as cep_models
from wlkernelnn.bench.molecules.cep import table as cep_table
from wlkernelnn.bench.signals import lfp
from wlkernelnn.bench.speed import molecules as speed
from wlkernelnn.bench.speed.tables import read_tables
from wlkernelnn.utils.files import read_json

RESULTS = Path("bench/results")
Record = dict[str, Any]


def of_runs(rows: Callable[[Sequence[Record]], Rows], found: Record) -> list[tuple[Rows, int]]:
    return [(rows(found["runs"]), 1)]


def of_ratios(found: Record) -> list[tuple[Rows, int]]:
    rows = [ratios.cells(ratios.Row(**row)) for row in found["rows"]]
    return [([ratios.COLUMNS, *rows], 2)]


def of_theorems(found: Record) -> list[tuple[Rows, int]]:
    rows = [
        (check["theorem"], f"`{check['line']}`", f"{check['number']:.2g}", check["allowed"])
        for check in found["checks"]
    ]
    return [([("theorem", "checked by", "number", "allowed"), *rows], 2)]


def of_graph_kernels(found: Record) -> list[tuple[Rows, int]]:
    return [
        (graph_kernels.classification_rows(found["classification"]), 1),
        (graph_kernels.regression_rows(found["regression"]), 1),
    ]


RENDERED: dict[str, Callable[[Record], list[tuple[Rows, int]]]] = {
    "ablation": partial(of_runs, partial(table.rows, seeds=3)),
    "awd_lm": partial(of_runs, awd_lm.rows),
    "cep_ours": partial(of_runs, partial(cep_table.rows, models=cep_models.OWN)),
    "cep": partial(of_runs, partial(cep_table.rows, models=cep_models.MODELS)),
    "chembl": partial(of_runs, chembl.rows),
    "documents": partial(of_runs, documents.rows),
    "graph_kernels": of_graph_kernels,
    "kernel_speed": of_ratios,
    "lfp": partial(of_runs, lfp.rows),
    "moleculenet": partial(of_runs, partial(table.rows, seeds=5)),
    "ogb_molfreesolv_tuned": partial(of_runs, ogb.tuned_rows),
    "ogb_molhiv_tuned": partial(of_runs, ogb.tuned_rows),
    "ogb": partial(of_runs, ogb.rows),
    "organic_ri": partial(of_runs, partial(table.rows, seeds=3)),
    "predict_speed": of_ratios,
    "ptb": partial(of_runs, ptb.rows),
    "rkm_speed": of_ratios,
    "rrnn_speed": of_ratios,
    "rrnn": partial(of_runs, rrnn.rows),
    "sst": partial(of_runs, sst.rows),
    "string_speed": of_ratios,
    "theorems": of_theorems,
    "zinc": partial(of_runs, partial(table.rows, seeds=4)),
}


def cells(page: str) -> str:
    """The lines of all tables of a page; how columns are aligned does not count."""
    lines = (line for line in page.splitlines(keepends=True) if line.startswith("|"))
    return "".join(lines).replace("---:", "---")


@pytest.mark.parametrize("path", sorted(RESULTS.glob("*.json")), ids=lambda path: path.stem)
def test_results_render_to_their_tables(path: Path) -> None:
    if path.stem == "speed":
        made = "".join(markdown(speed.PARTS[one.part].cells(one)) for one in read_tables(path))
    else:
        name = next(name for name in RENDERED if path.stem.startswith(name))
        made = "".join(markdown(rows, left) for rows, left in RENDERED[name](read_json(path)))
    assert made
    assert cells(path.with_suffix(".md").read_text(encoding="utf-8")).startswith(cells(made))
