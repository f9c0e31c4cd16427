"""That both sides get the same rows, and that what is watched is noticed; never how fast."""

from __future__ import annotations

import json
import os
import sys
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rdkit import Chem

from tests.inputs.molecules import regression_set
from wlkernelnn.bench.harness.races import Ratio
from wlkernelnn.bench.speed import prediction as predict_speed
from wlkernelnn.datasets import PackedGraphs

if not Path("/proc/self/status").is_file():
    pytest.skip("memory is read from /proc", allow_module_level=True)


@pytest.fixture
def data() -> PackedGraphs:
    return regression_set()[:7]


def test_rows_are_the_molecules_in_other_words(
    data: PackedGraphs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Here and now, not in other processes.
    monkeypatch.setattr(
        predict_speed.joblib, "Parallel", lambda n_jobs: lambda calls: [f(*a) for f, a, _ in calls]
    )
    predict_speed.table_of(data, 50, tmp_path / "50.csv")
    smiles = predict_speed.smiles_of(tmp_path / "50.csv")
    assert len(smiles) == 50
    assert Chem.MolFromSmiles(smiles[0]) is None
    assert len(set(smiles)) > 25
    same = {Chem.CanonSmiles(text) for text in data.smiles}
    assert {Chem.CanonSmiles(text) for text in smiles[1:]} == same
    assert predict_speed.smiles_of(predict_speed.write_rows(data.smiles, tmp_path / "own.csv")) == list(
        data.smiles
    )
    assert predict_speed.smiles_of(tmp_path / "50.csv", 20) == smiles[:20]


def test_both_sides_take_the_same_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "once.csv").write_text("smiles,number\nN,0\n")
    (tmp_path / "short.csv").write_text("smiles,number\nC,0\nCC,1\n")
    (tmp_path / "long.csv").write_text("smiles,number\nC,0\nCC,1\nCCC,2\n")
    seen: list[Any] = []
    monkeypatch.setattr(predict_speed, "parse", lambda rows: seen.append(sorted(rows)))
    monkeypatch.setattr(predict_speed, "parse_in_processes", lambda parts: seen.append(sorted(chain(*parts))))
    monkeypatch.setattr(
        predict_speed,
        "predict_tables",
        lambda inputs, model_path, output, rejects_path, num_workers: seen.append(
            (predict_speed.smiles_of(inputs[0]), num_workers)
        ),
    )
    monkeypatch.setattr(
        predict_speed, "race", lambda calls, work, rounds: [call() for call in calls] and np.array([work]).T
    )
    runs = {10: predict_speed.Run(5.0, 0, 0), 30: predict_speed.Run(9.0, 0, 0)}
    tables = [tmp_path / f"{name}.csv" for name in ("once", "short", "long")]
    new, one, several = predict_speed.speed_rows(*tables, tmp_path, 2, runs, 1)
    assert seen == [(["N"], 0), ["N"], (["C", "CC"], 0), ["C", "CC"], ["C", "CC", "CCC"]]
    assert (new.ours, new.theirs) == (1, 1)
    assert (one.ours, one.theirs) == (2, 2)
    assert (several.ours, several.theirs, several.met) == (5, 3, True)  # 20 rows in 4 seconds


def test_memory_may_not_grow() -> None:
    runs = {
        1: predict_speed.Run(1.0, 100, 300),
        2: predict_speed.Run(1.0, 100, 300),
        9: predict_speed.Run(1.0, 110, 600),
    }
    _, _, main, others = predict_speed.memory_rows(runs)
    assert (main.what, main.against) == ("memory, 9 rows, main process", "2 rows")
    assert (main.met, others.met) == (True, False)
    assert others.ratio == 0.5


SIZE = 60_000_000
HOLD = f"import subprocess, sys, time; block = bytearray({SIZE}); "


def test_memory_of_a_command_and_of_what_it_starts() -> None:
    run = predict_speed.watched([sys.executable, "-c", HOLD + "time.sleep(0.5)"])
    assert SIZE < run.main < 3 * SIZE
    assert run.worker < SIZE
    assert run.seconds > 0.5
    inner = f"block = bytearray({2 * SIZE}); import time; time.sleep(0.5)"
    run = predict_speed.watched(
        [sys.executable, "-c", f"import subprocess, sys; subprocess.run([sys.executable, '-c', {inner!r}])"]
    )
    assert run.main < SIZE < 2 * SIZE < run.worker


def test_a_command_that_fails_says_why() -> None:
    with pytest.raises(RuntimeError, match="ended with 3: no reason"):
        predict_speed.watched(
            [sys.executable, "-c", "import sys; print('no reason', file=sys.stderr); sys.exit(3)"]
        )


# Stands in for the command: a run that does not resume writes one part after the other, slowly.
STAND_IN = """
import json, pathlib, sys, time
resume = "--resume" in sys.argv
options = dict(word.removeprefix("--").split("=") for word in sys.argv[1:] if "=" in word)
output = pathlib.Path(options["preds-path"])
manifest = pathlib.Path(f"{output}.parts", "_manifest.json")
manifest.parent.mkdir(exist_ok=True)
for part in [] if resume else range(600):
    manifest.with_suffix(".new").write_text(json.dumps({"parts": [[1, 0, 1]] * part}))
    manifest.with_suffix(".new").replace(manifest)
    time.sleep(0.05)
output.write_text(CONTENT)
output.with_suffix(".rejects.csv").write_text("")
"""


@pytest.mark.parametrize("content", ["a,b", "a,c"], ids=["same", "another"])
def test_kill_and_resume(tmp_path: Path, content: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "stand_in.py").write_text(STAND_IN.replace("CONTENT", repr(content)))
    monkeypatch.setattr(predict_speed, "COMMAND", (sys.executable, os.fspath(tmp_path / "stand_in.py")))
    table = tmp_path / "table.csv"
    predict_speed.output_of(table).write_text("a,b")
    predict_speed.output_of(table).with_suffix(".rejects.csv").write_text("")
    if content == "a,b":
        said = predict_speed.resumed(table, tmp_path, 2)
        kept = json.loads((tmp_path / "table.resumed.csv.parts" / "_manifest.json").read_text())["parts"]
        assert f"after {len(kept)} parts" in said
        assert len(kept) >= 2
    else:
        with pytest.raises(RuntimeError, match="not what a run without a kill writes"):
            predict_speed.resumed(table, tmp_path, 2)


def test_a_command_that_ends_before_the_kill(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="ended before it had 2 parts"):
        predict_speed.watched([sys.executable, "-c", ""], kill_after=2, manifest=tmp_path / "none")


def test_sizes_must_ascend() -> None:
    with pytest.raises(ValueError, match="--rows: expected three numbers, ascending"):
        predict_speed.main(["--rows", "3", "2", "1"])


@pytest.mark.parametrize("quick", [True, False])
def test_tables_go_where_they_belong(
    data: PackedGraphs, quick: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Any] = []

    def rows_of(data: PackedGraphs, folder: Path, *given: Any) -> list[Ratio]:
        seen.append((len(data), *given[:2]))
        return [Ratio("predict", "parse alone", 1.0, 2.0, 0.5, 0.5, 0.5)]

    monkeypatch.setattr(predict_speed, "load_molecules", lambda name: data)
    monkeypatch.setattr(predict_speed, "rows_of", rows_of)
    monkeypatch.setattr(predict_speed, "QUICK_MOLECULES", 3)
    monkeypatch.chdir(tmp_path)
    predict_speed.main(["--rows", "5", "6", "7", "--rounds", "2", *(["--quick"] if quick else [])])
    (written,) = tmp_path.rglob("predict_speed.json")
    result = json.loads(written.read_text(encoding="utf-8"))
    if quick:
        assert written.parent == tmp_path / "runs" / "quick"
        assert (result["mode"], result["rounds"], seen) == ("quick", 1, [(3, (200, 600, 20_000), 1)])
    else:
        assert written.parent == tmp_path / "bench" / "results"
        assert (result["mode"], result["rounds"], seen) == ("full", 2, [(7, [5, 6, 7], 2)])
