from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

import wlkernelnn.bench
from wlkernelnn.bench import BENCHMARKS
from wlkernelnn.cli.benchmark import first_line
from wlkernelnn.cli.main import main


@pytest.fixture(autouse=True)
def toys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three benchmarks of one room, in place of the package's own."""
    room = tmp_path / "toys"
    room.mkdir()
    (room / "toy_table.py").write_text(
        '"""Print a toy table of [E, d].\n\nIn detail."""\n\ndef main(argv):\n    print("toy", argv)\n'
    )
    (room / "unnamed.py").write_text("def main(argv):\n    raise ValueError('no input')\n")
    (room / "leaders.py").write_text("from ogb.graphproppred import Evaluator\n")
    monkeypatch.setattr(wlkernelnn.bench, "__path__", [str(tmp_path)])
    known = {"toy-table": "toys.toy_table", "unnamed": "toys.unnamed", "leaders": "toys.leaders"}
    monkeypatch.setattr("wlkernelnn.cli.benchmark.BENCHMARKS", known)
    monkeypatch.setattr("wlkernelnn.cli.benchmark.ROOT", tmp_path)
    yield
    for name in ("toys", *known.values()):
        sys.modules.pop(f"wlkernelnn.bench.{name}", None)


def test_help_does_not_import_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["benchmark", "--help"]) == 0
    assert "wlkernelnn.bench.toys.toy_table" not in sys.modules


@pytest.mark.parametrize("argv", [[], ["-h"], ["--help"]], ids=["nothing", "-h", "--help"])
def test_help_lists_them(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["benchmark", *argv]) == 0
    out = capsys.readouterr().out
    assert "wlkernelnn benchmark NAME [options]" in out
    assert "toy-table" in out
    assert "Print a toy table of [E, d]." in out


def test_runs_with_its_options(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["benchmark", "toy-table", "--quick"]) == 0
    assert capsys.readouterr().out == "toy ['--quick']\n"


def test_errors(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["benchmark", "toy"]) == 1
    assert capsys.readouterr().err == (
        "wlkernelnn benchmark: error: unknown benchmark 'toy'; known are toy-table, unnamed, leaders\n"
    )
    assert main(["benchmark", "unnamed"]) == 1
    assert capsys.readouterr().err == "wlkernelnn benchmark: error: no input\n"


def test_those_of_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    assert all(first_line(module) for module in BENCHMARKS.values())
    root = Path(wlkernelnn.bench.__file__).parent
    with_main = {
        ".".join(source.relative_to(root).with_suffix("").parts)
        for source in root.rglob("*.py")
        if re.search(r"^(def main\(|main = )", source.read_text("utf-8"), re.MULTILINE)
    }
    assert with_main == set(BENCHMARKS.values())


def test_says_which_extra_is_not_there(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ogb", None)
    for name in [name for name in sys.modules if name.startswith("ogb.")]:
        monkeypatch.delitem(sys.modules, name)
    assert main(["benchmark", "leaders"]) == 1
    expected = "benchmark leaders needs ogb: pip install 'wlkernelnn[ogb]'"
    assert capsys.readouterr().err == f"wlkernelnn benchmark: error: {expected}\n"
