from __future__ import annotations

from pathlib import Path

import pytest

from wlkernelnn.bench.harness.options import TableOptions, parsed
from wlkernelnn.bench.harness.races import RaceOptions
from wlkernelnn.bench.speed import rrnn as rrnn_speed


def test_a_quick_table_replaces_no_full_one() -> None:
    assert TableOptions().output_dir == Path("bench/results")
    assert TableOptions(quick=True).output_dir == Path("runs/quick")
    assert TableOptions(Path("bench/results").resolve(), quick=True).output_dir == Path("runs/quick")
    assert TableOptions(Path("elsewhere"), quick=True).output_dir == Path("elsewhere")


def test_options_of_a_command() -> None:
    found = parsed("some-speed", None, RaceOptions, ["--rounds", "7", "--quick"])
    assert found == RaceOptions(rounds=7, quick=True)
    assert found.output_dir == Path("runs/quick")
    assert parsed("some-speed", None, RaceOptions, []) == RaceOptions(Path("bench/results"), False, 2, 5)
    words = ["--threads", "1", "--output-dir", "x"]
    found = parsed("rrnn-speed", None, rrnn_speed.RRNNSpeedOptions, words)
    assert (found.threads, found.rounds, found.output_dir) == (1, 2, Path("x"))


def test_there_is_something_to_time(capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("rounds", "threads"):
        with pytest.raises(SystemExit):
            parsed("some-speed", None, RaceOptions, [f"--{name}", "0"])
        (line,) = capsys.readouterr().err.splitlines()
        assert name in line
        assert "expected an integer of at least 1, got 0" in line
