from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pytest

from wlkernelnn.cli.before import check_idle
from wlkernelnn.cli.options import (
    PositiveInt,
    VerbParser,
    add_options,
    check_outputs,
    command_line,
    config_text,
    pick,
)
from wlkernelnn.training.options import FitOptions


@dataclass
class Options:
    """Every kind of option.

    Args:
        path: Where ``it`` is; 100% needed.
        names: Some words,
            on two lines.
        sizes: Three numbers.
        kind: This or that.
        decay: A number or a word.
        maybe: A whole number, by default none.
        flag: Yes or no.
        rate: How fast.
        rounds: How often.
    """

    path: Path
    names: list[str] | None = None
    sizes: tuple[float, float, float] = (0.8, 0.1, 0.1)
    kind: Literal["this", "that"] | None = None
    decay: float | str = "gated"
    maybe: int | None = None
    flag: bool = True
    rate: float = 1e-3
    rounds: PositiveInt = 5


@pytest.fixture
def parser() -> VerbParser:
    parser = VerbParser("test", "Try options.")
    add_options(parser, "Options", Options)
    return parser


def parse(parser: VerbParser, line: str) -> Options:
    return Options(**pick(parser.parse_args(line.split()), Options))


def test_defaults_are_those_of_the_dataclass(parser: VerbParser) -> None:
    options = parse(parser, "--path x")
    assert options == Options(Path("x"), sizes=[0.8, 0.1, 0.1])
    assert isinstance(options.path, Path)


def test_values(parser: VerbParser) -> None:
    line = "--path x --names a b --sizes 0.5 0.3 0.2 --kind that --decay 0.25 --maybe 3 --no-flag --rate 1"
    options = parse(parser, line)
    assert options == Options(Path("x"), ["a", "b"], [0.5, 0.3, 0.2], "that", 0.25, 3, False, 1.0)
    assert parse(parser, "--path x --decay learned --flag").decay == "learned"
    for names in ("--names a b", "--names a --names b", "--names=[a,b]"):
        assert parse(parser, f"--path x {names}").names == ["a", "b"]


def test_what_is_parsed_counts_and_not_the_words(parser: VerbParser) -> None:
    said = ["--rate 3", "--rate=3", "--rate 2 --rate=3", "--rate=2 --rate 3.0"]
    assert {parse(parser, f"--path x {words}").rate for words in said} == {3.0}
    for words in ("--kind=that", "--kind this --kind=that"):
        parsed = parser.parse_args(f"--path x --maybe=3 {words}".split())
        check_idle(parser, parsed, "kind", {parsed.kind}, {"maybe": ["that"]})
        with pytest.raises(ValueError, match="--maybe is an option of --kind this, but the kind is that"):
            check_idle(parser, parsed, "kind", {parsed.kind}, {"maybe": ["this"]})


def test_only_some_parameters() -> None:
    parser = VerbParser("test", None)
    add_options(parser, "Options", Options, ("path", "flag"))
    parsed = parser.parse_args(["--path", "x"])
    assert pick(parsed, Options, ("path", "flag")) == {"path": Path("x"), "flag": True}


def test_config_file(parser: VerbParser, tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("path: x\nsizes: [0.6, 0.2, 0.2]\nkind: null\nflag: false\nmaybe: 3\n")
    options = parse(parser, f"--config {config} --maybe 4")
    assert options == Options(Path("x"), sizes=[0.6, 0.2, 0.2], flag=False, maybe=4)


def test_what_is_dumped_is_read_again(parser: VerbParser, tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    line = (
        "--path x --decay 0.5 --kind this --names a 1e5 1.5E-3 1_0e+2 12 0x10 1:30 .inf yes null ü 2026-11-22"
    )
    config.write_text(config_text(parser.parse_args(line.split())))
    assert parse(parser, f"--config {config}") == parse(parser, line)


@pytest.mark.parametrize("names", [["-log(IC50)"], ["a b", "--path", "-1"], ["a", "b"]])
def test_the_command_gives_the_same_options(parser: VerbParser, names: list[str]) -> None:
    parsed = parser.parse_args(["--path=-x", "--maybe=-3", *(f"--names={name}" for name in names)])
    assert parsed.names == names
    _, _, *words = shlex.split(command_line(parser, parsed))
    assert parser.parse_args(words) == parsed


def test_help_is_for_people(parser: VerbParser, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        parser.parse_args(["--help"])
    assert left.value.code == 0
    out = " ".join(capsys.readouterr().out.split())
    for part in (
        "Try options.",
        "--path PATH Where it is; 100% needed. (required)",
        "--names NAMES [NAMES ...] Some words, on two lines.",
        "--sizes SIZES SIZES SIZES Three numbers. (default: [0.8, 0.1, 0.1])",
        "--kind {this,that} This or that.",
        "--decay DECAY A number or a word. (default: gated)",
        "--maybe MAYBE A whole number, by default none. --flag, --no-flag",
        "Yes or no. (default: True)",
        "--config CONFIG",
    ):
        assert part in out
    for notation in ("type:", "null", "class", "Optional", "Union", "``"):
        assert notation not in out


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("", "error: required, but not given: --path;"),
        ("--path x --epohcs 3", "unrecognized arguments: --epohcs 3"),
        ("--path x --mayb 3", "unrecognized arguments: --mayb 3"),
        ("--path x --maybe many", "error: --maybe: expected an integer, got many;"),
        ("--path x --kind other", "error: --kind: expected one of this, that, got other;"),
        ("--path x --rate fast", "error: --rate: expected a number, got fast;"),
        ("--path x --sizes 1 2 x", "error: --sizes, value 3: expected a number, got x;"),
        ("--path x --rounds 0", "error: --rounds: expected an integer of at least 1, got 0;"),
        ("--path x --rounds x", "error: --rounds: expected an integer of at least 1, got x;"),
        ("--path x --maybe=", "error: --maybe: expected an integer, got nothing;"),
        ("--path x --maybe=a&b:&Got&value:&3", "--maybe: expected an integer, got a b: Got value: 3;"),
        ("--path x --config wrong.yaml", "error: wrong.yaml: --maybe: expected an integer, got many;"),
        ("--path x --sizes 1 2", "error: --sizes: expected 3 arguments"),
        ("--path x --config nowhere.yaml", "--config: nowhere.yaml: No such file"),
        ("--path x --config unknown.yaml", "unknown.yaml: 'colour' is not an option"),
        ("--path x --config twice.yaml", "twice.yaml: .*'maybe' is there twice, in line 1 and in line 3"),
        ("--path x --config list.yaml", "list.yaml: expected options, got"),
        ("--path x --config broken.yaml", "broken.yaml: .*line 1, column 8"),
    ],
)
def test_errors_are_one_line(
    parser: VerbParser,
    line: str,
    message: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("unknown.yaml").write_text("maybe: 3\ncolour: red\n")
    Path("twice.yaml").write_text("maybe: 3\nkind: this\nmaybe: 4\n")
    Path("wrong.yaml").write_text("maybe: many\n")
    Path("list.yaml").write_text("- 3\n")
    Path("broken.yaml").write_text("maybe: [3\n")
    with pytest.raises(SystemExit) as left:
        parser.parse_args([word.replace("&", " ") for word in line.split()])
    assert left.value.code == 2
    out, err = capsys.readouterr()
    assert out == ""
    (only,) = err.splitlines()
    assert only.startswith("wlkernelnn test: error: ")
    assert only.endswith("; see wlkernelnn test --help")
    assert re.search(message, only)


def test_options_of_a_base_class_come_with_their_help() -> None:
    @dataclass
    class More(Options):
        """More options.

        Args:
            rate: Another rate.
            extra: One more.
        """

        rate: float = 2.0
        extra: int = 1

    parser = VerbParser("test", None)
    add_options(parser, "Options", More)
    assert pick(parser.parse_args(["--path", "x", "--extra", "3"]), More)["extra"] == 3
    text = " ".join(parser.format_help().split())
    assert "Another rate. (default: 2.0)" in text
    assert "How fast." not in text
    assert "A whole number, by default none." in text


def test_files_may_give_one_of_several_as_it_is(parser: VerbParser, tmp_path: Path) -> None:
    path = tmp_path / "one.yaml"
    path.write_text("path: x\nnames: a b\n")
    assert parse(parser, f"--config {path}").names == ["a b"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("sizes: 0.5", "--sizes: expected a list of 3, got 0.5"),
        ("sizes: [0.5, 0.5]", "--sizes: expected a list of 3, got [0.5, 0.5]"),
        ("names: [a, 2017]", "--names, value 2: expected text, got 2017"),
        ("decay: [1]", "--decay: expected a number or text, got [1]"),
        ("flag: 1", "--flag: expected true or false, got 1"),
        ("path: 3", "--path: expected text, got 3"),
        ("rate: null", "--rate: expected a value, got null"),
        ("path: null", "--path: expected a value, got null"),
    ],
)
def test_files_that_give_something_else(
    content: str, message: str, parser: VerbParser, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "options.yaml"
    path.write_text(f"{'' if 'path' in content else 'path: x'}\n{content}\n")
    with pytest.raises((ValueError, SystemExit)) as left:
        parse(parser, f"--config {path}")
    assert message in str(left.value) + capsys.readouterr().err


def test_files_that_must_not_be_the_same(tmp_path: Path) -> None:
    path, other = tmp_path / "a.csv", tmp_path / "b.csv"
    check_outputs({"--out": None, "--in": None}, [path])
    check_outputs({"--out": other, "--in": tmp_path / "c.csv"}, [path, Path("esol")])
    with pytest.raises(ValueError, match=r"^--out: .*a\.csv is the input, which would be overwritten"):
        check_outputs({"--out": path}, [other, tmp_path / "x" / ".." / "a.csv"])
    with pytest.raises(ValueError, match=r"^--out: .*a\.csv lies in the folder of the input"):
        check_outputs({"--out": path}, [tmp_path])
    with pytest.raises(ValueError, match=r"^--out: .*a\.csv is --in too: one would overwrite the other"):
        check_outputs({"--in": path, "--out": path}, [other])
    with pytest.raises(ValueError, match=r"^--out: .* is a folder, expected the name of a file"):
        check_outputs({"--out": tmp_path}, [other])
    check_outputs({"--out": tmp_path}, [other.parent / "x" / "c.csv"], folders=("--out",))
    with pytest.raises(ValueError, match=r"^--out: .* is the input, which would be overwritten"):
        check_outputs({"--out": tmp_path}, [tmp_path], folders=("--out",))
    for link, target in (("from", "to"), ("to", "from")):
        (tmp_path / link).symlink_to(target)
    check_outputs({"--out": tmp_path / "from"}, [path, tmp_path / "to" / "c.csv"])  # it is replaced


def test_a_word_or_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    parser = VerbParser("train")
    add_options(parser, "Training", FitOptions, ["class_weight"])
    for words, expected in ((["balanced"], "balanced"), (["1", "5"], [1.0, 5.0]), (["0.5"], 0.5)):
        assert parser.parse_args(["--class-weight", *words]).class_weight == expected
    with pytest.raises(SystemExit):
        parser.parse_args(["--class-weight", "even"])
    assert "--class-weight: expected one of balanced or a number, got even" in capsys.readouterr().err
