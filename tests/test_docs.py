"""What README and the pages of docs/ show works: code, commands, printed output, figures, sizes."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
from functools import cache
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd
import pytest
import torch_geometric.datasets
from torch.nn.functional import one_hot
from torch_geometric.datasets import FakeDataset

from tests.inputs.documents import PAGES, ROOT, blocks, commands, small_values, write_data
from wlkernelnn.bench import BENCHMARKS
from wlkernelnn.bench.harness.report import picture_metadata, seconds_per_epoch
from wlkernelnn.cli.main import VERBS, main
from wlkernelnn.cli.text import VERBS as TEXT_VERBS
from wlkernelnn.training import LoopOptions, hpopt
from wlkernelnn.utils.files import read_json

TEXTS = [*PAGES, ROOT / "CHANGELOG.md"]
README = ROOT / "README.md"
#: What of a set or of a training is enough to see that the code works.
SHORTENED = {
    "[*kept][:600]": "[*kept][:25]",
    "--cv 5": "--cv 2",
    "(20, 20, 100)": "(8, 8, 20)",
    "epochs=5": "epochs=2",
    "--ensemble-size 3": "--ensemble-size 2",
}
#: Verbs that a second word follows, and those words.
TWO_WORDS = {"benchmark": BENCHMARKS, "text": TEXT_VERBS}


def name(page: Path) -> str:
    return page.stem


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with small files, trainings of one epoch, searches of two trials, and no download."""
    write_data(tmp_path)
    for predicted in ("library.csv", "later.csv"):
        pd.read_csv(tmp_path / predicted).head(12).to_csv(tmp_path / predicted, index=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WLKERNELNN_DATA", str(tmp_path / "data"))
    monkeypatch.setattr(torch_geometric.datasets, "TUDataset", lambda root, name: _fake(name))
    checked = LoopOptions.__post_init__

    def shortened(options: LoopOptions) -> None:
        options.epochs = min(options.epochs, 1)
        checked(options)

    monkeypatch.setattr(LoopOptions, "__post_init__", shortened)
    search = hpopt.search
    monkeypatch.setattr(
        hpopt, "search", lambda *given, **options: search(*given, **options | {"trials": 2, "workers": 1})
    )


def _fake(name: str) -> FakeDataset:
    """Random graphs with the columns of a TU set, one-hot."""
    assert name == "MUTAG"
    dataset = FakeDataset(
        num_graphs=40, avg_num_nodes=12, num_channels=7, edge_dim=4, num_classes=2, task="graph"
    )
    for column in ("x", "edge_attr"):
        values = dataset._data[column]
        dataset._data[column] = one_hot(values.argmax(1), values.size(1)).float()
    return dataset


@pytest.mark.parametrize("page", PAGES, ids=name)
@pytest.mark.usefixtures("small")
def test_code_runs_in_order(page: Path) -> None:
    """Python in one namespace, verbs for real; a block of text is what the code before it prints."""
    namespace = small_values()
    printed = ""
    for number, (language, text) in enumerate(blocks(page), 1):
        if language in ("python", "bash"):
            for whole, part in SHORTENED.items():
                text = text.replace(whole, part)
        if language == "python":
            with contextlib.redirect_stdout(io.StringIO()) as stdout:
                exec(compile(text, f"{page.name}, block {number}", "exec"), namespace)
            printed = stdout.getvalue()
        elif language == "text":
            assert printed == text, f"{page.name}, block {number}"
        elif language == "bash":
            for command in commands(text):
                if not command.startswith("benchmark"):
                    assert main(shlex.split(command)) == 0, command
    plt.close("all")


@cache
def options_of(*verb: str) -> set[str]:
    """The options that a verb's help shows."""
    with contextlib.redirect_stdout(io.StringIO()) as stdout, contextlib.suppress(SystemExit):
        main([*verb, "--help"])
    return set(re.findall(r"--[a-z][a-z-]*", stdout.getvalue()))


@pytest.mark.parametrize("page", TEXTS, ids=name)
def test_commands_exist(page: Path) -> None:
    """Verbs, benchmarks and options of every command, in blocks and between backticks."""
    for command in commands(page.read_text("utf-8")):
        words = shlex.split(re.sub(r"[….]{1,3}", " ", command))
        if not words or words[0] in ("VERB", "--help"):
            continue
        for verb in words[0].split("|"):
            assert verb in VERBS, command
        of_two = words[0] in TWO_WORDS and len(words) > 1 and words[1] not in ("NAME", "VERB")
        named = words[:2] if of_two else words[:1]
        assert len(named) == 1 or {*named[1].split("|")} <= {*TWO_WORDS[named[0]]}, command
        given = {word.partition("=")[0] for word in words if word.startswith("--")}
        if given and len(named) == (2 if words[0] in TWO_WORDS else 1):
            assert given <= options_of(*named), command


def rows() -> list[tuple[str, Path, list[str]]]:
    """README's rows of results: the text, the file that it names, and the figures beside it."""
    table = re.findall(
        r"^\| \[(.+?)\]\((bench/results/\S+?)\) \| (.+) \|$", README.read_text("utf-8"), re.MULTILINE
    )
    number = r"\d+(?:,\d{3})*(?:\.\d+)?(?: ± \d+\.\d+)?"
    return [(what, ROOT / file, re.findall(rf"(?<![\w×]){number}", cells)) for what, file, cells in table]


def test_readme_rows_are_in_their_files() -> None:
    assert 1 <= len(rows()) <= 8
    for what, file, figures in rows():
        text = file.read_text("utf-8")
        assert not [figure for figure in figures if figure != "1" and figure not in text], what


PAIR = re.compile(r"(\d+\.\d+) ± (\d+\.\d+)")


def test_means_that_were_measured_are_in_result_files() -> None:
    """Every "mean ± deviation" of docs/measured.md is one of a table, rounded at most."""
    texts = [file.read_text("utf-8") for file in (ROOT / "bench" / "results").glob("*.md")]
    known = {pair for text in texts for pair in PAIR.findall(text)}
    for pair in PAIR.findall((ROOT / "docs" / "measured.md").read_text("utf-8")):
        # Half of the last digit that is shown, and a little, because the table is rounded too.
        slack = [0.51 * 10.0 ** -len(word.partition(".")[2]) for word in pair]
        near = [
            all(abs(float(a) - float(b)) <= most for a, b, most in zip(pair, other, slack, strict=True))
            for other in known
        ]
        assert any(near), " ± ".join(pair)


@pytest.mark.parametrize("path", sorted((ROOT / "docs" / "tutorials").glob("*.ipynb")), ids=name)
def test_tutorials_are_committed_without_outputs(path: Path) -> None:
    """They are made while the pages are built."""
    code = [cell for cell in read_json(path)["cells"] if cell["cell_type"] == "code"]
    assert len(code) >= 5
    assert not [cell for cell in code if cell["outputs"] or cell["execution_count"]]
    for command in commands(
        "".join("".join(cell["source"]) for cell in code).replace("-m wlkernelnn ", "`wlkernelnn ")
    ):
        words = shlex.split(command)
        assert {word for word in words if word.startswith("--")} <= options_of(words[0]), command


def test_readme_is_short() -> None:
    assert len(README.read_text("utf-8").splitlines()) <= 120


def test_links_of_readme_are_files() -> None:
    for page in (README, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"):
        links = re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text("utf-8"))
        assert not [link for link in links if not (ROOT / link).exists()], page


def test_picture_is_of_the_committed_speeds() -> None:
    times = seconds_per_epoch(read_json(ROOT / "bench" / "results" / "speed.json"))
    drawn = (ROOT / "docs" / "time_to_train.svg").read_text("utf-8")
    assert picture_metadata(times)["Description"] in drawn, "run: wlkernelnn benchmark report"
