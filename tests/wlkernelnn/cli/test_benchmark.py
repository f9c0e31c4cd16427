from __future__ import annotations

import sys
from pathlib import Path

import pytest

import wlkernelnn.bench
from wlkernelnn.cli.benchmark import benchmarks
from wlkernelnn.cli.main import main


@pytest.fixture(autouse=True)
def toys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three modules more in ``wlkernelnn.bench``, of which two are benchmarks."""
    (tmp_path / "toy_table.py").write_text(
        '"""Print a toy table of [E, d].\n\nIn detail."""\n\ndef main(argv):\n    print("toy", argv)\n'
    )
    (tmp_path / "unnamed.py").write_text("def main(argv):\n    raise ValueError('no input')\n")
    (tmp_path / "helper.py").write_text('"""No benchmark."""\n\ndef other():\n    pass\n')
    monkeypatch.setattr(wlkernelnn.bench, "__path__", [str(tmp_path)])
    yield
    for name in ("toy_table", "unnamed"):
        sys.modules.pop(f"wlkernelnn.bench.{name}", None)


def test_found_without_being_imported() -> None:
    assert benchmarks() == {"toy-table": "Print a toy table of [E, d].", "unnamed": ""}
    assert "wlkernelnn.bench.toy_table" not in sys.modules


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
        "wlkernelnn benchmark: error: unknown benchmark 'toy'; known are toy-table, unnamed\n"
    )
    assert main(["benchmark", "unnamed"]) == 1
    assert capsys.readouterr().err == "wlkernelnn benchmark: error: no input\n"


def test_those_of_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    found = benchmarks()
    assert "speed" in found
    assert all(found.values())
