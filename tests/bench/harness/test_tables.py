"""Tables as people read them."""

from pathlib import Path

import pytest
from rich.console import Console

from wlkernelnn.bench.harness.tables import check_rows, items, markdown, printed, write_page

ROWS = [("model", "set", "RMSE"), ("WL [gated]", "cep", "0.9"), ("GINE", "esol", "10.25")]


def test_markdown_has_a_rule_below_its_header() -> None:
    assert markdown(ROWS) == (
        "| model | set | RMSE |\n| --- | ---: | ---: |\n| WL [gated] | cep | 0.9 |\n| GINE | esol | 10.25 |\n"
    )


def test_markdown_has_as_many_columns_flush_left_as_asked() -> None:
    assert markdown(ROWS[:1], left=2) == "| model | set | RMSE |\n| --- | --- | ---: |\n"


def test_items_are_a_list() -> None:
    assert items({"seeds": 3, "mode": "full"}) == "* seeds: 3\n* mode: full\n"


def test_terminal_shows_brackets_as_they_are_and_numbers_flush_right() -> None:
    console = Console(width=60)
    with console.capture() as shown:
        console.print(printed(ROWS, "a title"))
    lines = [line.rstrip() for line in shown.get().splitlines()]
    assert lines[0].strip() == "a title"
    (brackets,) = (line for line in lines if "cep" in line)
    (longest,) = (line for line in lines if "esol" in line)
    assert brackets.strip().startswith("WL [gated]")
    assert len(brackets) == len(longest)  # 0.9 ends where 10.25 does


def test_a_quick_table_replaces_no_full_one(tmp_path: Path) -> None:
    stem = tmp_path / "x"
    for mode in ("quick", "quick", "full", "full"):
        write_page(stem, "Title", mode, {"mode": mode})
    with pytest.raises(ValueError, match=r"x\.json: holds a full table, which a quick one would replace"):
        write_page(stem, "Title", "quick", {"mode": "quick"})
    assert stem.with_suffix(".md").read_text() == "# Title\n\nfull"


def test_rows_that_would_be_lost_are_named(tmp_path: Path) -> None:
    stem, known, names = tmp_path / "x", {"mode": "full", "dataset": "cep"}, [(n, "exact") for n in range(5)]
    check_rows(stem, known, "rows", [])
    write_page(stem, "Title", "", known, rows=[{"rows": n, "machine": "exact", "rmse": 1} for n in range(5)])
    check_rows(stem, known, "rows", [*names, (9, "exact")])
    message = (
        r"x\.json: holds rows that this call does not make: 0, exact; 3, exact: name another --output-dir"
    )
    with pytest.raises(ValueError, match=message):
        check_rows(stem, known, "rows", [*names[1:3], names[4]])
    with pytest.raises(ValueError, match="0, exact; 1, exact; 2, exact and 2 more: name another"):
        check_rows(stem, known | {"dataset": "hiv"}, "rows", names)
