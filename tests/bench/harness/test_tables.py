"""Tables as people read them."""

from rich.console import Console

from wlkernelnn.bench.harness.tables import items, markdown, printed

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
