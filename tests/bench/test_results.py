"""Committed results: every file is read, and renders to the table that was committed beside it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from wlkernelnn.bench.harness.races import Ratio, ratios
from wlkernelnn.bench.harness.runs import Table
from wlkernelnn.bench.harness.tables import Rows, markdown
from wlkernelnn.bench.kernels import gaussian_processes, graph_kernel_table, ring_nodes, theorems
from wlkernelnn.bench.language import awd_lm, awd_stability, documents, ptb, sst, sst_trees
from wlkernelnn.bench.language.rrnn import ablation as rrnn_ablation
from wlkernelnn.bench.language.rrnn import rrnn
from wlkernelnn.bench.molecules import (
    ablation,
    chembl,
    joint,
    moleculeace,
    moleculenet,
    ogb,
    organic_ri,
    table,
    zinc,
)
from wlkernelnn.bench.molecules.cep import table as cep
from wlkernelnn.bench.molecules.intervals import intervals
from wlkernelnn.bench.signals import lfp
from wlkernelnn.bench.speed import molecules as speed
from wlkernelnn.bench.speed import time_to_accuracy
from wlkernelnn.bench.speed.tables import read_tables
from wlkernelnn.utils.files import read_json

RESULTS = Path("bench/results")
Record = dict[str, Any]


def of_ratios(found: Record) -> list[Rows]:
    return [ratios([Ratio(**row) for row in found["rows"]])]


def of_theorems(found: Record) -> list[Rows]:
    return [theorems.shown([theorems.Check(**check) for check in found["checks"]])]


def of_graph_kernels(found: Record) -> list[Rows]:
    return list(graph_kernel_table.tables(found).values())


def of_gaussian_processes(found: Record) -> list[Rows]:
    return [gaussian_processes.shown([gaussian_processes.Scale(**row) for row in found["rows"]])]


def of_molecules(tasks: dict[str, table.MoleculeTask], seeds: int, key: str = "") -> Table:
    return table.table_of("", tasks[key or next(iter(tasks))], "", seeds)


#: What makes the tables of a file: its name's longest beginning counts.
RENDERED: dict[str, Table | Callable[[Record], list[Rows]]] = {
    "ablation_esol": of_molecules(ablation.TASKS, 3, "esol"),
    "awd_lm": awd_lm.TABLE,
    "awd_stability": awd_stability.TABLE,
    "sst_trees": sst_trees.TABLE,
    "cep": cep.table_of("paper"),
    "cep_ours": cep.table_of("ours"),
    "chembl": chembl.table_of(""),
    "colour_speed": of_ratios,
    "documents": documents.TABLE,
    "gp_speed": of_gaussian_processes,
    "graph_kernels": of_graph_kernels,
    "intervals": intervals.TABLE,
    "joint": joint.TABLE,
    "kernel_speed": of_ratios,
    "lfp": lfp.TABLE,
    "linear_speed": of_ratios,
    "moleculeace": moleculeace.TABLE,
    **{f"moleculenet_{key}": of_molecules(moleculenet.TASKS, 5, key) for key in moleculenet.TASKS},
    **{f"ogb_{name.removeprefix('ogbg-')}": ogb.table_of(name) for name in ogb.RECIPES},
    **{f"ogb_{name.removeprefix('ogbg-')}_tuned": ogb.tuned_table(name) for name in ogb.RECIPES},
    "organic_ri": of_molecules(organic_ri.TASKS, 3),
    "predict_speed": of_ratios,
    "ptb": ptb.TABLE,
    "ring_nodes": ring_nodes.TABLE,
    "rkm_speed": of_ratios,
    "rrnn": rrnn.TABLE,
    "rrnn_ablation": rrnn_ablation.TABLE,
    "rrnn_speed": of_ratios,
    "sst": sst.TABLE,
    "store_speed": of_ratios,
    "string_speed": of_ratios,
    "text_speed": of_ratios,
    "theorems": of_theorems,
    "time_to_accuracy": lambda found: [time_to_accuracy.shown(found)],
    "zinc": of_molecules(zinc.TASKS, 4),
}


def rendered(path: Path) -> list[Rows]:
    if path.stem in ("speed", "speed_gpu"):
        return [speed.PARTS[one.part].cells(one) for one in read_tables(path)]
    found = read_json(path)
    table = RENDERED[max((name for name in RENDERED if path.stem.startswith(name)), key=len)]
    return [table.rows(found["runs"])] if isinstance(table, Table) else table(found)


def cells(page: str) -> str:
    """The lines of all tables of a page; how columns are aligned does not count."""
    lines = (line for line in page.splitlines(keepends=True) if line.startswith("|"))
    return "".join(lines).replace("---:", "---")


def test_results_render_to_their_tables() -> None:
    paths = sorted(RESULTS.glob("*.json"))
    assert len(paths) > 40
    for path in paths:
        made = cells("".join(map(markdown, rendered(path))))
        assert made
        assert cells(path.with_suffix(".md").read_text(encoding="utf-8"))[: len(made)] == made, path
