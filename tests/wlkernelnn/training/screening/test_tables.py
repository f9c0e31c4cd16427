from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from itertools import islice, product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rdkit import Chem

from tests.inputs.molecules import MOLECULES, ROWS, regression_set, small_network
from wlkernelnn.datasets import molecules_from
from wlkernelnn.models import GraphKernelNetwork
from wlkernelnn.training import load_ensemble, predict_tables, save_checkpoint
from wlkernelnn.training.screening import filling
from wlkernelnn.training.screening import tables as library
from wlkernelnn.training.screening.parts import MANIFEST, Counts, Parts


class Stopped(BaseException):
    """As by SIGKILL."""


GOOD = np.flatnonzero(MOLECULES)


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filling, "ROWS", 5)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    frame = pd.DataFrame({"smiles": [smiles for smiles, _ in ROWS.values()], "name": list(ROWS)})
    frame.to_csv(tmp_path / "rows.csv", index=False)
    return tmp_path / "rows.csv"


def run(inputs: Path | list[Path], model: Path, output: Path, **options: Any) -> Counts:
    given = inputs if isinstance(inputs, list) else [inputs]
    rejects_path = output.with_suffix(".rejects.csv")
    return predict_tables(given, model, output, rejects_path, **{"num_workers": 0, **options})


def test_paths_as_texts(run_folder: Path, table: Path, tmp_path: Path) -> None:
    files = [str(tmp_path / name) for name in ("preds.csv", "rejects.csv")]
    counts = predict_tables(str(table), str(run_folder), *files, num_workers=0)
    assert counts.written == len(pd.read_csv(files[0])) == len(ROWS)
    assert len(pd.read_csv(files[1])) == counts.rejected


def test_many_parts_are_like_one(
    run_folder: Path, table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(table, run_folder, tmp_path / "parts.csv") == Counts(
        len(ROWS), len(ROWS) - len(GOOD), len(ROWS)
    )
    monkeypatch.setattr(filling, "ROWS", 1000)
    run(table, run_folder, tmp_path / "whole.csv")
    parts, whole = (pd.read_csv(tmp_path / name) for name in ("parts.csv", "whole.csv"))
    pd.testing.assert_frame_equal(parts, whole, rtol=1e-5)
    rejects = [(tmp_path / f"{name}.rejects.csv").read_text() for name in ("parts", "whole")]
    assert rejects[0] == rejects[1]
    assert not list(tmp_path.glob("*.parts"))


@pytest.mark.parametrize("values", ["morgan", "rdkit"])
def test_features_with_additions(values: str, table: Path, tmp_path: Path) -> None:
    """Of each molecule its own: predictions part by part are those of the molecules all at once."""
    some, name = regression_set()[:20], f"ogb+rw6+{values}"
    features = {"features": name, "cache": False}
    data = molecules_from(some.smiles, some.y.numpy(), target_columns=["Act"], **features)
    about = {"features": name, "target_names": ["Act"], "task": "regression"}
    save_checkpoint(tmp_path / "run" / "model_0", small_network(data), about)
    run(table, tmp_path / "run", tmp_path / "preds.csv")
    came = pd.read_csv(tmp_path / "preds.csv")["Act"]
    assert came.notna().tolist() == MOLECULES
    good = molecules_from([smiles for smiles, is_molecule in ROWS.values() if is_molecule], **features)
    expected, _ = load_ensemble(tmp_path / "run").predict(good)
    np.testing.assert_allclose(came[GOOD], expected[:, 0], rtol=1e-5)
    with pytest.raises(ValueError, match=rf"on features 'ogb\+rw6\+{values}', the data have 'ogb'"):
        load_ensemble(tmp_path / "run").predict(some)


def test_an_sdf_and_a_run_that_standardizes(tmp_path: Path) -> None:
    """Structures, one of them unreadable, in parts; salts are predicted as their acids and bases."""
    some, features = regression_set(), {"features": "ogb+standardize", "cache": False}
    data = molecules_from(some.smiles, some.y.numpy(), target_columns=["Act"], **features)
    about = {"features": "ogb+standardize", "target_names": ["Act"], "task": "regression"}
    save_checkpoint(tmp_path / "run" / "model_0", small_network(data), about)
    parents = ["CCO", "CC(=O)O", "CCN", "CC", "C", "c1ccccc1", "CO"]
    given = ["CCO", "CC(=O)[O-].[Na+]", "CC[NH3+].[Cl-]", *parents[3:]]
    with Chem.SDWriter(str(tmp_path / "in.sdf")) as writer:
        for smiles in given:
            writer.write(Chem.MolFromSmiles(smiles))
    with open(tmp_path / "in.sdf", "a") as file:
        file.write("bad\n\n\nCCO\nM  END\n> <note>\nkept\n\n$$$$\n")
    assert run(tmp_path / "in.sdf", tmp_path / "run", tmp_path / "out.csv") == Counts(8, 1, 8)
    came = pd.read_csv(tmp_path / "out.csv", keep_default_na=False)
    assert came.columns.tolist() == ["smiles", "name", "note", "Act"]
    assert came["smiles"].tolist() == [*map(Chem.CanonSmiles, given), ""]
    assert came.iloc[-1].tolist() == ["", "bad", "kept", ""]
    expected, _ = load_ensemble(tmp_path / "run").predict(molecules_from(parents, **features))
    np.testing.assert_allclose(came["Act"][:-1].astype(float), expected[:, 0], rtol=1e-5)
    assert pd.read_csv(tmp_path / "out.rejects.csv").iloc[0].tolist()[:2] == [8, "bad"]


def test_shards_in_and_out(run_folder: Path, tmp_path: Path) -> None:
    data = regression_set()
    frame = pd.DataFrame({"smiles": data.smiles, "number": range(len(data))})
    (tmp_path / "in").mkdir()
    for shard, begin in enumerate((0, 7, 40, 40)):
        end = (7, 40, 40, 60)[shard]
        frame[begin:end].to_parquet(tmp_path / "in" / f"{shard}.parquet", index=False)
    empty = pa.table({"smiles": pa.nulls(0), "number": pa.array([], pa.int64())})
    pq.write_table(empty, tmp_path / "in" / "2.parquet")  # as pandas 2 writes a shard without rows
    assert run(tmp_path / "in", run_folder, tmp_path / "out", on_invalid="raise") == Counts(60, 0, 60)
    assert len(list((tmp_path / "out").glob("part-*.parquet"))) == 2 + 7 + 4
    came = pq.read_table(tmp_path / "out").to_pandas()
    assert came["number"].tolist() == list(range(60))
    np.testing.assert_allclose(came["Act"], load_ensemble(run_folder).predict(data)[0][:, 0], rtol=1e-5)
    # There is nothing left to do for one who asks again, and nothing to lose for one who does not.
    before = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "out").glob("part-*")}
    assert run(tmp_path / "in", run_folder, tmp_path / "out", on_invalid="raise", resume=True).read == 60
    assert before == {path.name: path.stat().st_mtime_ns for path in (tmp_path / "out").glob("part-*")}
    with pytest.raises(FileExistsError, match="holds 13 finished parts"):
        run(tmp_path / "in", run_folder, tmp_path / "out")


def test_rows_are_counted_through_all_inputs(run_folder: Path, table: Path, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("smiles,name\nCC,first\n")
    run([tmp_path / "a.csv", table], run_folder, tmp_path / "preds.csv", on_invalid="skip")
    rejects = pd.read_csv(tmp_path / "preds.rejects.csv")
    assert rejects["row"].tolist() == [i + 2 for i, fine in enumerate(MOLECULES) if not fine]
    assert pd.read_csv(tmp_path / "preds.csv")["name"].tolist() == ["first", *np.array(list(ROWS))[GOOD]]
    with pytest.raises(
        ValueError, match=r"rows\.csv: 4 of 5 rows give no molecule.*\n  data row 1 \(line 2\)"
    ):
        run([tmp_path / "a.csv", table], run_folder, tmp_path / "other.csv", on_invalid="raise")
    assert not (tmp_path / "other.csv").exists()


def test_inputs_differ(run_folder: Path, table: Path, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("smiles\nCC\n")
    with pytest.raises(ValueError, match=r"rows\.csv: columns 'smiles' \(string\), 'name' .* in .*a\.csv"):
        run([tmp_path / "a.csv", table], run_folder, tmp_path / "preds.csv")


def test_differing_inputs_are_found_before_anything_is_predicted(run_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("smiles\n" + "CC\n" * 20)
    pd.DataFrame({"smiles": ["CC"], "y": [1.0]}).to_parquet(tmp_path / "b.parquet")
    with pytest.raises(ValueError, match=r"b\.parquet: columns 'smiles' .*, 'y' \(double\), but 'smiles'"):
        run([tmp_path / "a.csv", tmp_path / "b.parquet"], run_folder, tmp_path / "preds")
    assert not (tmp_path / "preds").exists()


def test_text_is_text_whatever_counts_its_length(run_folder: Path, tmp_path: Path) -> None:
    inputs = []
    for name, kind in (("a", pa.string()), ("b", pa.large_string())):
        inputs.append(tmp_path / f"{name}.parquet")
        pq.write_table(pa.table({"smiles": pa.array(["CC", "CO"], kind)}), inputs[-1])
    run(inputs, run_folder, tmp_path / "preds.parquet")
    preds = pq.read_table(tmp_path / "preds.parquet")
    assert preds.schema.field("smiles").type == pa.string()
    assert preds["smiles"].to_pylist() == ["CC", "CO"] * 2


@pytest.mark.parametrize("kind", [pa.binary(), pa.int64(), pa.dictionary(pa.int32(), pa.binary())], ids=str)
def test_smiles_that_are_no_text(kind: pa.DataType, run_folder: Path, tmp_path: Path) -> None:
    smiles = pa.array([1, 2]) if kind == pa.int64() else pa.array([b"CC", b"CO"]).cast(kind)
    pq.write_table(pa.table({"smiles": smiles}), tmp_path / "a.parquet")
    with pytest.raises(ValueError, match=r"a\.parquet: column 'smiles' holds (binary|int64), expected text"):
        run(tmp_path / "a.parquet", run_folder, tmp_path / "preds.csv")


def test_after_a_refused_row_the_mended_table_is_predicted(run_folder: Path, tmp_path: Path) -> None:
    table, text = tmp_path / "t.csv", "smiles\n" + "CCO\n" * 12
    for output in (tmp_path / "preds.csv", tmp_path / "preds"):
        table.write_text(text + "no molecule\n")
        with pytest.raises(ValueError, match="1 of 13 rows give no molecule"):
            run(table, run_folder, output, on_invalid="raise")
        assert not output.exists()
        table.write_text(text)
        assert run(table, run_folder, output, on_invalid="raise") == Counts(12, 0, 12)


def test_an_input_of_one_part_needs_no_folder(run_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("smiles\nCCO\nno molecule\n")
    output, parts = tmp_path / "preds.csv", tmp_path / "preds.csv.parts"
    assert run(tmp_path / "t.csv", run_folder, output) == Counts(2, 1, 2)
    rejects = tmp_path / "preds.rejects.csv"
    alone = output.read_bytes(), rejects.read_bytes()
    assert not parts.exists()
    parts.mkdir()  # of a run that was killed before its first part
    assert run(tmp_path / "t.csv", run_folder, output) == Counts(2, 1, 2)
    assert (output.read_bytes(), rejects.read_bytes()) == alone


@pytest.mark.parametrize("tidied", [False, True])
def test_rejects_of_a_run_that_was_killed_when_all_was_done(
    run_folder: Path, table: Path, tmp_path: Path, tidied: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They go where the second call wants them, if their parts are there, or else must lie there."""
    output, others, clear = tmp_path / "out.csv", tmp_path / "others.csv", Parts.clear

    def killed(parts: Parts) -> None:
        for path in parts.folder.glob("_rejects*") if tidied else ():
            path.unlink()
        raise Stopped

    monkeypatch.setattr(Parts, "clear", killed)
    with pytest.raises(Stopped):
        run(table, run_folder, output)
    monkeypatch.setattr(Parts, "clear", clear)
    rejects = output.with_suffix(".rejects.csv").read_bytes()
    if tidied:
        with pytest.raises(FileNotFoundError, match=r"others\.csv: the rejected rows are no longer all in"):
            predict_tables(table, run_folder, output, others, num_workers=0, resume=True)
        run(table, run_folder, output, resume=True)
        assert output.with_suffix(".rejects.csv").read_bytes() == rejects
    else:
        predict_tables(table, run_folder, output, others, num_workers=0, resume=True)
        assert others.read_bytes() == rejects
    assert not (tmp_path / "out.csv.parts").exists()


def test_another_input_is_not_resumed(run_folder: Path, table: Path, tmp_path: Path) -> None:
    run(table, run_folder, tmp_path / "out")
    table.write_text(table.read_text().replace("CCO", "CCN"))
    with pytest.raises(ValueError, match="the run to resume had input"):
        run(table, run_folder, tmp_path / "out", resume=True)
    run_one = run_folder / "model_0"
    table.write_text(table.read_text().replace("CCN", "CCO"))
    with pytest.raises(ValueError, match="the run to resume had networks"):
        run(table, run_one, tmp_path / "out", resume=True)


SCRIPT = """
import sys, time
from pathlib import Path
from wlkernelnn.training.screening import filling, parts
from wlkernelnn.training.screening import tables as library
filling.ROWS = 5
add = parts.Parts.add
def slow(*arguments):
    add(*arguments)
    time.sleep(0.1)
parts.Parts.add = slow
if __name__ == "__main__":
    table, model, output = map(Path, sys.argv[1:4])
    rejects_path = output.with_suffix(".rejects.csv")
    library.predict_tables([table], model, output, rejects_path, num_workers=int(sys.argv[4]))
"""


def long_table(folder: Path, times: int) -> tuple[Path, int]:
    smiles = [*regression_set().smiles, *(smiles for smiles, _ in ROWS.values())] * times
    pd.DataFrame({"smiles": smiles, "number": range(len(smiles))}).to_csv(folder / "t.csv", index=False)
    return folder / "t.csv", len(smiles)


def check_resumed(table: Path, rows: int, model: Path, output: Path) -> None:
    """Resume; the result must be that of a run without interruption, but for rounding."""
    whole = output.with_stem("whole")
    assert not output.exists()
    counts = run(table, model, output, resume=True)
    run(table, model, whole)
    assert counts.read == counts.written == rows
    read = pd.read_csv if output.suffix == ".csv" else pd.read_parquet
    pd.testing.assert_frame_equal(read(output), read(whole), rtol=1e-5)
    rejects = [path.with_suffix(".rejects.csv").read_bytes() for path in (output, whole)]
    assert rejects[0] == rejects[1]


def test_resume_after_an_error(run_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table, rows = long_table(tmp_path, 1)
    output = tmp_path / "preds.parquet"
    whole = library.predict_tasks

    def fail(*arguments: Any) -> Any:
        yield from islice(whole(*arguments), 6)
        raise OSError("no space left")

    with monkeypatch.context() as patch:
        patch.setattr(library, "predict_tasks", fail)
        with pytest.raises(OSError, match="no space left"):
            run(table, run_folder, output)
    parts = sorted(tmp_path.glob("preds.parquet.parts/part-*"))
    assert len(parts) == 6
    parts[3].write_bytes(parts[2].read_bytes())  # damaged since
    check_resumed(table, rows, run_folder, output)


@pytest.mark.slow
def test_resume_after_a_kill(run_folder: Path, tmp_path: Path) -> None:
    table, rows = long_table(tmp_path, 4)
    output = tmp_path / "preds.csv"
    manifest = tmp_path / "preds.csv.parts" / MANIFEST
    (tmp_path / "script.py").write_text(SCRIPT)
    command = [sys.executable, tmp_path / "script.py", table, run_folder, output, "1"]
    with subprocess.Popen(command, env=os.environ | {"OMP_NUM_THREADS": "1"}) as process:
        deadline = time.monotonic() + 300
        while not manifest.is_file() or len(json.loads(manifest.read_text())["parts"]) < 3:
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
    assert 3 <= len(list(manifest.parent.glob("part-*.csv"))) < rows // 5
    check_resumed(table, rows, run_folder, output)


def test_errors_of_measurements_are_not_replaced(tmp_path: Path) -> None:
    data = regression_set()
    about = {"features": data.description.features, "target_names": ["Act"], "task": "regression"}
    for i in range(2):
        save_checkpoint(tmp_path / "run" / f"model_{i}", small_network(data, seed=i), about)
    frame = pd.DataFrame({"smiles": ["CCO"], "Act_std": ["keep me"]})
    frame.to_csv(tmp_path / "measured.csv", index=False)
    with pytest.raises(ValueError, match=r"measured\.csv: has a column 'Act_std', and so has the output"):
        run(tmp_path / "measured.csv", tmp_path / "run", tmp_path / "out.csv")
    assert not (tmp_path / "out.csv").exists()


def test_other_columns(run_folder: Path, table: Path, tmp_path: Path) -> None:
    run(table, run_folder, tmp_path / "out.csv", columns="fingerprint")
    came = pd.read_csv(tmp_path / "out.csv")
    assert came.columns.tolist() == ["smiles", "name", *(f"fp_{i}_{j}" for i in range(2) for j in range(8))]
    good = molecules_from([smiles for smiles, is_molecule in ROWS.values() if is_molecule], cache=False)
    expected = load_ensemble(run_folder).embed(good)
    np.testing.assert_allclose(came.iloc[GOOD, 2:].to_numpy(), expected, rtol=1e-3, atol=1e-5)
    assert came.iloc[:, 2].notna().tolist() == MOLECULES
    with pytest.raises(ValueError, match=r"out\.csv: has a column 'fp_0_0', and so has the output"):
        run(tmp_path / "out.csv", run_folder, tmp_path / "again.csv", columns="fingerprint")
    with pytest.raises(ValueError, match="columns must be one of prediction, fingerprint, got 'states'"):
        run(table, run_folder, tmp_path / "again.csv", columns="states")


def test_parts_of_other_columns_are_not_resumed(
    run_folder: Path, table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(filling.Parts, "join", lambda parts, path: [][0])
        with pytest.raises(IndexError):
            run(table, run_folder, tmp_path / "out.csv")
    with pytest.raises(ValueError, match=r"the run to resume had options .*'prediction'.* 'fingerprint'"):
        run(table, run_folder, tmp_path / "out.csv", columns="fingerprint", resume=True)


MEMORY = """
import sys
from pathlib import Path
from resource import RUSAGE_CHILDREN, RUSAGE_SELF, getrusage
from wlkernelnn.training import predict_tables
folder, workers = Path(sys.argv[1]), int(sys.argv[2])
predict_tables([folder / "t.csv"], folder / "run", folder / "out", folder / "r.csv", num_workers=workers)
print(getrusage(RUSAGE_SELF).ru_maxrss, getrusage(RUSAGE_CHILDREN).ru_maxrss)
"""


@pytest.mark.slow
@pytest.mark.parametrize("workers", [0, 2])
def test_memory_for_200_000_different_molecules(workers: int, tmp_path: Path) -> None:
    """Parts are read, predicted and written one after the other, and each cache of colours has a capacity."""
    data, pieces = regression_set(), ("C", "N", "O", "S", "C(C)", "C(=O)", "C(F)", "C(Cl)", "C(O)", "C(N)")
    pieces = (*pieces, "c1ccc(cc1)", "C1CCN(CC1)")
    smiles = ["".join(five) for five in islice(product(pieces, repeat=5), 200_000)]
    pd.DataFrame({"smiles": smiles}).to_csv(tmp_path / "t.csv", index=False)
    about = {"features": data.description.features, "target_names": ["Act"], "task": "regression"}
    save_checkpoint(tmp_path / "run", GraphKernelNetwork.from_data(data), about)
    command = [sys.executable, "-c", MEMORY, tmp_path, str(workers)]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert pq.read_table(tmp_path / "out").num_rows == len(smiles)
    print(workers, "workers:", said)
    here, largest = map(int, said.split())  # kB; the libraries alone take a third of that
    assert here < (1_000_000 if workers else 1_800_000)
    assert largest < 1_800_000
