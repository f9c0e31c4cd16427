from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from wlkernelnn.bench.language.rrnn import ablation
from wlkernelnn.bench.language.rrnn.ablation import AblationOptions
from wlkernelnn.bench.language.rrnn.tasks import TASKS
from wlkernelnn.cli.main import main
from wlkernelnn.datasets import StringLoader
from wlkernelnn.sequence.rrnn import GRU, tree_counts
from wlkernelnn.training import DivergedError, TreeOptions, fit_trees

NARROW = {"CHANNELS": 6, "RECIPE": {"epochs": 3, "batch_size": 12, "gradient_clip": 5.0}}


@pytest.fixture
def root(letters: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, value in NARROW.items():
        monkeypatch.setattr(ablation, name, value)
    return letters


def run(root: Path, *more: str) -> list[dict[str, Any]]:
    folder = root.parent
    arguments = f"benchmark rrnn-ablation --root {root} --run-dir {folder / 'runs'} --output-dir {folder}"
    assert main([*arguments.split(), *more]) == 0
    return json.loads((folder / "rrnn_ablation.json").read_text())["runs"]


def test_table(root: Path) -> None:
    runs = run(root, "--models", "gru", "rrnn", "--lr", "0.01", "--epochs", "1")
    assert [record["model"] for record in runs] == ["gru", "rrnn"]
    assert {record["recipe"]["lr"] for record in runs} == {0.01}
    assert {record["recipe"]["warm_start"] for record in runs} == {0, 2}
    assert [0 <= record.get("agree", -1) <= 1 for record in runs] == [False, True]
    table = (root.parent / "rrnn_ablation.md").read_text()
    assert "| GRU | 0k | 0.01 of 1 |" in table
    assert "**Shortened**" in table
    # A rate that is the same in its first digits is another run.
    runs = run(root, "--models", "gru", "--lr", "0.010001", "--epochs", "1")
    assert [record["recipe"]["lr"] for record in runs if record["model"] == "gru"] == [0.01, 0.010001]


def test_rates_are_drawn_for_all_rows_alike(root: Path) -> None:
    runs = run(root, "--models", "gru", "gru-clip", "--epochs", "1", "--rates", "2")
    first, second = ablation.drawn_rates()[:2]
    assert [record["recipe"]["lr"] for record in runs] == 2 * sorted([first, second])


def test_every_row_can_be_trained(root: Path) -> None:
    """By its own recipe, which fits its network."""
    strings = TASKS["wiki-5k"].load(str(root), Path())
    few = strings.train.select(range(2))
    for name, change in ablation.CHANGES.items():
        torch.manual_seed(0)
        network = change.build(strings)
        before = [parameter.clone() for parameter in network.parameters()]
        recipe = TreeOptions(**ablation.RECIPE | change.training | {"epochs": 1, "accelerator": "cpu"})
        if name == "paper":  # batch norm knows nothing yet that would bound validation
            with pytest.raises(DivergedError, match="valid_bpc was a number in no epoch"):
                fit_trees(network, few, few, "bpc", recipe, progress=False)
        else:
            assert fit_trees(network, few, few, "bpc", recipe, progress=False).score > 0, name
        assert not all(map(torch.equal, before, network.parameters())), name


def test_beside_gru(root: Path) -> None:
    strings = TASKS["wiki-5k"].load(str(root), Path())
    network = ablation.CHANGES["rrnn"].build(strings)
    before = ablation.score_strings(network, strings.valid, "bpc")
    found = ablation.beside_gru(network, strings, "bpc")
    network.encoder.cell = GRU
    assert found["valid_as_gru"] == ablation.score_strings(network, strings.valid, "bpc") != before
    # One that grows the GRU's trees agrees with it at every token.
    network.encoder.grow = lambda pool, choice: network.encoder.follow(GRU, pool)
    assert ablation.beside_gru(network, strings, "bpc")["agree"] == 1
    assert len(tree_counts(network.encoder.last_trees)) == 1
    assert ablation.beside_gru(ablation.CHANGES["gru"].build(strings), strings, "bpc") == {}


@pytest.mark.parametrize(("share", "expected"), [(0.0, 1.0), (1.0, 0.0), (0.5, 0.5)])
def test_a_share_of_the_trees_is_drawn(root: Path, share: float, expected: float) -> None:
    strings = TASKS["wiki-5k"].load(str(root), Path())
    network = ablation.CHANGES["mistaken-6"].build(strings).eval()
    network.encoder.mistaken, network.encoder.keep_trees = share, True
    torch.manual_seed(0)
    batch = next(iter(StringLoader(strings.train, 24)))
    with torch.no_grad():
        h, _ = network.encoder(network.embedding(batch.x), batch.ptr, network.first_state(24))
    record = network.encoder.last_trees
    numbers = torch.tensor(GRU.numbers(network.encoder.space))
    assert (record.numbers == numbers).all(1).double().mean() == pytest.approx(expected, abs=0.15)
    # A record's trees make its nodes.
    for token in range(0, len(record), 7):
        (tree,) = record[token]
        assert torch.equal(tree.vector, h[token])


def test_bad_options(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, error in (
        ("--models lstm", "--models: expected any of gru, "),
        ("--rates 6", "--rates: expected from 1 to 5, got 6"),
        ("--lr 0", "--lr: expected above 0 and below 1, got 0"),
    ):
        assert main(f"benchmark rrnn-ablation {arguments}".split()) != 0
        assert error in capsys.readouterr().err


def test_runs_of_other_precisions_are_other_runs(root: Path) -> None:
    strings = TASKS["wiki-5k"].load(str(root), None)
    folders = {
        ablation.trial("gru", 0, 0.01, strings, "content", AblationOptions(matmul_precision=precision)).names
        for precision in ("highest", "medium")
    }
    assert len(folders) == 2


def test_shortened_runs_say_so() -> None:
    epochs = dict(ablation.TABLE.columns)["epochs"]
    assert [epochs([{"epochs": count}]) for count in (1, 3)] == ["1 of 3", "3"]
