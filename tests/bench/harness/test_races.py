from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from wlkernelnn.bench.harness import races
from wlkernelnn.bench.harness.races import Known, Race, RaceOptions, Ratio, compared


def test_rows_say_whether_the_goal_is_met() -> None:
    sides = np.array([10.0, 20.0, 30.0]), np.array([10.0, 10.0, 10.0])
    met = compared("what", "against", *sides, 2.0)
    assert (met.ours, met.theirs, met.ratio, met.low, met.high) == (20.0, 10.0, 2.0, 1.0, 3.0)
    assert met.met is True
    assert compared("what", "against", *sides, 2.1).met is False
    assert compared("what", "against", *sides).met is None


def test_the_table_is_printed_and_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    seen: list[Any] = []

    def measure(options: RaceOptions, known: Known) -> Iterator[Ratio]:
        seen.extend([options.rounds, torch.get_num_threads(), torch.initial_seed()])
        yield Ratio("first", "other", 2.5e9, 1234.0, 2.0, 1.0, 3.0, "≥ 1", True)
        known["found"] = 7
        yield Ratio("second", "other", 0.5, 2e6, 0.25, 0.25, 0.25)

    before = torch.get_num_threads()
    main = Race("some-race", "A race.", RaceOptions, "Title", "A legend.", measure).main
    main(["--threads", str(before + 1), "--output-dir", str(tmp_path)])
    assert seen == [5, before + 1, 0]
    assert torch.get_num_threads() == before
    result = json.loads((tmp_path / "some_race.json").read_text(encoding="utf-8"))
    assert [row["what"] for row in result["rows"]] == ["first", "second"]
    assert (result["mode"], result["found"], result["threads"]) == ("full", 7, before + 1)
    text = (tmp_path / "some_race.md").read_text(encoding="utf-8")
    assert text.startswith("# Title (full)\n")
    assert "| first | other | 2.5G | 1.23k | 2 (1–3) | ≥ 1: yes |\n" in text
    assert "| second | other | 0.5 | 2M | 0.25 |  |\n" in text
    assert "A legend.\n" in text
    assert "* found: 7\n" in text
    assert "2.5G" in capsys.readouterr().out


def test_a_quick_run_takes_few_short_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []

    def race(calls: Any, work: Any, **turns: Any) -> np.ndarray:
        seen.append((work, turns))
        return np.ones((2, 1))

    monkeypatch.setattr(races, "race", race)
    for options in (RaceOptions(), RaceOptions(quick=True)):
        assert options.race(0.3)("what", "against", None, None, 7, 1.0).met
    assert seen == [
        ([7, 7], {"rounds": 5, "min_seconds": 0.3}),
        ([7, 7], {"rounds": 2, "min_seconds": 0.02}),
    ]


def test_a_part_of_a_race_does_not_replace_the_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def measure(options: RaceOptions, known: Known) -> Iterator[Ratio]:
        for number in range(options.rounds):
            yield Ratio(f"row {number}", "other", 1.0, 1.0, 1.0, 1.0, 1.0)

    main = Race("some-race", "A race.", RaceOptions, "Title", "A legend.", measure).main
    words = ["--output-dir", str(tmp_path), "--rounds"]
    main([*words, "2"])
    capsys.readouterr()
    message = (
        r"some_race\.json: holds rows that this call does not make: row 1, other: name another --output-dir"
    )
    with pytest.raises(ValueError, match=message):
        main([*words, "1"])
    assert "row 0" in capsys.readouterr().out  # what was measured is not lost
    for rounds in ("2", "3"):
        main([*words, rounds])
        assert len(json.loads((tmp_path / "some_race.json").read_text())["rows"]) == int(rounds)
