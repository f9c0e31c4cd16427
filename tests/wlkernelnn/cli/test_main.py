from __future__ import annotations

import io
import logging
import multiprocessing
import os
import signal
import subprocess
import sys
import warnings
from pathlib import Path

import pandas as pd
import pytest

from wlkernelnn import __version__
from wlkernelnn.cli import benchmark
from wlkernelnn.cli.main import VERBS, main
from wlkernelnn.datasets import load_molecules
from wlkernelnn.utils.guard import NO_GUARD

COMMAND = Path(sys.executable).parent / "wlkernelnn"


@pytest.mark.parametrize("argv", [[], ["-h"], ["--help"]], ids=["nothing", "-h", "--help"])
def test_usage_names_every_verb(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(argv) == 0
    out = capsys.readouterr().out
    for verb, text in VERBS.items():
        assert verb in out
        assert text in out


@pytest.mark.parametrize("argv", [["--help"], ["benchmark"], ["train", "--help"], ["explain", "--help"]])
def test_help_does_not_wait_for_torch(argv: list[str]) -> None:
    script = (
        "import atexit, sys; from wlkernelnn.cli.main import main; from os import _exit; "
        f"atexit.register(lambda: _exit('torch' in sys.modules)); main({argv})"
    )
    subprocess.run([sys.executable, "-c", script], check=True, capture_output=True)


def test_python_without_docstrings_has_options_without_help() -> None:
    command = [sys.executable, "-OO", "-m", "wlkernelnn", "train", "--help"]
    assert "--epochs EPOCHS" in subprocess.run(command, check=True, capture_output=True, text=True).stdout


@pytest.mark.parametrize("argv", [["--help"], ["train", "--help"], ["--version"]], ids="-".join)
@pytest.mark.parametrize("unbuffered", ["", "1"], ids=["buffered", "unbuffered"])
def test_readers_may_go_before_all_is_shown(argv: list[str], unbuffered: str) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "wlkernelnn", *argv]
    environment = os.environ | {"PYTHONUNBUFFERED": unbuffered}
    with os.fdopen(writing) as out:
        done = subprocess.run(command, stdout=out, stderr=subprocess.PIPE, env=environment, text=True)
    assert done.stderr == ""


def test_sigterm_is_an_interruption(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(argv: list[str]) -> None:
        signal.raise_signal(signal.SIGTERM)

    before = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr(benchmark, "main", killed)
    assert main(["benchmark", "x"]) == 130
    assert capsys.readouterr() == ("", "wlkernelnn benchmark: interrupted by SIGTERM\n")
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_help_prints_in_every_locale(encoding: str, monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.TextIOWrapper(io.BytesIO(), encoding)
    monkeypatch.setattr(sys, "stdout", out)
    with pytest.raises(SystemExit) as left:
        main(["train", "--help"])
    assert left.value.code == 0
    out.seek(0)
    assert "seed + 1, ?" in out.read()


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.strip() == __version__


def test_the_cache_is_shown_and_cleared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("WLKERNELNN_CACHE", str(tmp_path))
    load_molecules(["CCO"])
    assert main(["cache"]) == 0
    assert f"{tmp_path / 'packed'}: 1 data sets, 0.00 GB of at most 10.7 GB" in capsys.readouterr().out
    assert main(["cache", "clear"]) == 0
    assert f"1 data sets removed from {tmp_path / 'packed'}" in capsys.readouterr().out
    assert list((tmp_path / "packed").iterdir()) == []
    monkeypatch.setenv("WLKERNELNN_CACHE", "")
    assert main(["cache", "clear"]) == 0
    assert "there is no cache" in capsys.readouterr().out


def test_unknown_verb(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trian"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err == f"wlkernelnn: error: unknown verb 'trian'; verbs are {', '.join(VERBS)}\n"


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        status = main([verb, "--help"])
    except SystemExit as left:  # as argparse does
        status = left.code
    assert status == 0
    assert VERBS[verb] in capsys.readouterr().out or verb == "benchmark"


@pytest.mark.parametrize(
    ("error", "status", "shown"),
    [
        (ValueError("row 7 is bad"), 1, "error: row 7 is bad"),
        (FileNotFoundError("x.csv: no such file"), 1, "error: x.csv: no such file"),
        (
            PermissionError(13, "Permission denied", "x.csv"),
            1,
            "error: [Errno 13] Permission denied: 'x.csv'",
        ),
        (ImportError("this needs X: pip install x"), 1, "error: this needs X: pip install x"),
        (KeyboardInterrupt(), 130, "interrupted"),
    ],
    ids=["value", "missing", "system", "not installed", "interrupt"],
)
def test_errors_are_one_line_and_a_status(
    error: BaseException,
    status: int,
    shown: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(argv: list[str]) -> None:
        raise error

    monkeypatch.setattr(benchmark, "main", fail)
    assert main(["benchmark", "x"]) == status
    assert capsys.readouterr() == ("", f"wlkernelnn benchmark: {shown}\n")


def test_errors_of_the_package_itself_are_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(benchmark, "main", lambda argv: [][1])
    with pytest.raises(IndexError):
        main(["benchmark", "x"])


def test_messages_go_to_stderr_during_a_verb_only(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    logger = logging.getLogger("wlkernelnn")
    handlers = list(logger.handlers)
    monkeypatch.setattr(benchmark, "main", lambda argv: logger.info("12 rows [a/b] in"))
    for _ in range(2):
        main(["benchmark", "x"])
        assert capsys.readouterr() == ("", "12 rows [a/b] in\n")
    assert logger.handlers == handlers


@pytest.mark.slow
def test_the_installed_command(run_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = tmp_path / "new.csv"
    table.write_text("smiles\nCCO\nC1CC\n")
    arguments = ["predict", "--test-path", "new.csv", "--model-path", run_folder, "--preds-path", "out/p.csv"]
    done = subprocess.run([COMMAND, *arguments], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "2 rows in = 1 predicted + 1 rejected" in done.stdout
    assert pd.read_csv(tmp_path / "out" / "p.csv")["Act"].notna().tolist() == [True, False]

    arguments[2] = "absent.csv"
    assert main([*map(str, arguments)]) == 1
    assert capsys.readouterr().err.splitlines() == ["wlkernelnn predict: error: absent.csv: no such file"]


def test_warnings_are_one_line(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def show(argv: list[str]) -> None:
        print(warnings.formatwarning("going on without the cache", UserWarning, "store.py", 7), end="")

    monkeypatch.setattr(benchmark, "main", show)
    main(["benchmark", "x"])
    assert capsys.readouterr().out == "warning: going on without the cache\n"
    assert "store.py:7" in warnings.formatwarning("as before", UserWarning, "store.py", 7)


def test_a_process_that_imports_the_script_ends_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its errors would be told in place of the missing main guard."""
    monkeypatch.setattr(multiprocessing.current_process(), "_inheriting", True, raising=False)
    with pytest.raises(SystemExit) as ended:
        main(["train", "--data-path", "nowhere.csv", "--target-columns", "y", "--output-dir", "run"])
    assert ended.value.code == NO_GUARD
