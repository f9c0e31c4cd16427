from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from wlkernelnn.bench.language import awd_stability
from wlkernelnn.bench.language.awd_stability import CHANGES, Change, build, followed, reduced
from wlkernelnn.bench.language.awd_steps import mean_forget, summary
from wlkernelnn.cli.main import main
from wlkernelnn.sequence import RKM
from wlkernelnn.training import AWDOptions

SENTENCES = "the cat sat on the mat\nthe dog sat on the log\na cat saw the dog\n"

pytestmark = pytest.mark.filterwarnings("ignore:.*tokens, the (published|usual).*")


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A treebank of a few sentences, and narrow layers."""
    folder = tmp_path / "data" / "ptb"
    folder.mkdir(parents=True)
    for part, repetitions in (("train", 40), ("valid", 4), ("test", 1)):
        (folder / f"ptb.{part}.txt").write_text(SENTENCES * repetitions)
    for name, value in {"WIDTHS": (6, 8, 6), "NUM_WORDS": 5, "TRAIN_TOKENS": 700}.items():
        monkeypatch.setattr(awd_stability, name, value)
    return tmp_path / "data"


def test_table(data: Path, tmp_path: Path) -> None:
    arguments = f"benchmark awd-stability --quick --root {data} --run-dir {tmp_path} --output-dir {tmp_path}"
    assert main(arguments.split()) == 0
    runs = json.loads((tmp_path / "awd_stability.json").read_text())["runs"]
    assert [run["model"] for run in runs] == list(CHANGES)
    for run in runs:
        assert "diverged" in run or run["valid_perplexity"] > 1
    table = (tmp_path / "awd_stability.md").read_text()
    assert "| RKM-LSTM, LN(c) is carried, learning rate 3 | 3 | trains |" in table
    assert "**Shortened**" in table


def test_rare_words_are_one(data: Path) -> None:
    train, valid = reduced(str(data))
    assert len(train) == 700
    assert sorted(train.unique().tolist()) == [0, 1, 2, 3, 4]
    counts = train.bincount()
    assert bool((counts[:-1].diff() <= 0).all())  # by frequency, but for all the others together
    assert int(valid.max()) <= 4


def run(change: Change, data: Path, **recipe: Any) -> dict[str, Any]:
    torch.manual_seed(0)
    options = AWDOptions(batch_size=4, bptt=10, **change.training | recipe)
    return followed(build(change), change, options, reduced(str(data)), 6)


def test_a_memory_that_grows_is_told(data: Path) -> None:
    """With a huge learning rate the recurrence explodes: the run ends there; that step is left out."""
    found = run(CHANGES["embeddings"], data, lr=1e4, gradient_clip=1e6)
    assert 0 < found["diverged"] < 6
    assert found["history"]["largest"]["state"] < awd_stability.LARGEST_STATE
    assert "valid_perplexity" not in found


def test_what_a_step_is_like(data: Path) -> None:
    found = run(CHANGES["ln-state"], data, lr=0.1)
    history = found["history"]
    for step in (history["first"], history["last"]):
        parts = [value**2 for name, value in step.items() if name.startswith("gradient_")]
        assert step["gradient"] == pytest.approx(sum(parts) ** 0.5)
        assert min(step.values()) > 0
    assert 0 < history["first"]["forget"] < 1
    assert history["last"]["loss"] < history["first"]["loss"] <= history["largest"]["loss"]


def test_steps_in_short() -> None:
    """Not all steps have all numbers; JSON has null for infinite ones."""
    history = summary([{"gradient": 2.0, "forget": 0.5}, {"gradient": 3.0}, {"gradient": 1.0}])
    assert history["first"] == {"gradient": 2.0, "forget": 0.5}
    assert history["last"] == {"gradient": 1.0, "forget": 0.5}
    assert history["largest"] == {"gradient": 3.0, "forget": 0.5}
    cells = dict(awd_stability.TABLE.columns)
    assert cells["gradient, largest"]([{"history": history}]) == "3"
    assert cells["gradient, largest"]([{"history": {"largest": {"gradient": None}}}]) == "inf"


def test_changes_at_first() -> None:
    layers = [part for part in build(CHANGES["zero-biases"]).modules() if isinstance(part, RKM)]
    for layer in layers:
        i, f, o = layer.bias.split(layer.out_channels)
        assert bool((f == 1).all())
        assert not i.any()
        assert not o.any()
    assert build(CHANGES["embeddings"]).embedding.weight.abs().max() > 0.9
    assert build(CHANGES["rkm-lstm"]).embedding.weight.abs().max() <= 0.1


@pytest.mark.parametrize("variant", ["lstm", "rkm_lstm", "rkm_cifg", "linear_gated"])
def test_mean_forget_gate(variant: str) -> None:
    """Token by token, of one string after the other."""
    layer = RKM(3, 4, variant, layer_norm=False)
    x = torch.randn(2, 5, 3)
    h, _ = layer(x)
    gates = []
    for string, out in zip(x, h, strict=True):
        before = torch.zeros(4)
        for token, written in zip(string, out, strict=True):
            logits = dict(
                zip(layer.cell.parts, (layer.lins[0](token) + layer.lin_h(before)).split(4), strict=True)
            )
            biases = dict(zip(layer.cell.biased, layer.bias.split(4), strict=True))
            if layer.cell.forget == "gate":
                gates.append(torch.sigmoid(logits["forget"] + biases["forget"]))
            before = written
    expected = torch.stack(gates).mean().item() if gates else 0.5
    by_step = [rows.transpose(0, 1).reshape(10, -1) for rows in (x, h)]
    assert mean_forget(layer, *by_step, 2) == pytest.approx(expected, rel=1e-5)


def test_runs_of_other_lengths_are_other_rows(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And are known as the processor's, where there is a GPU too."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "NVIDIA H100")
    folders = f"--root {data} --run-dir {tmp_path} --output-dir {tmp_path} --models ln-state-slow"
    for steps in (2, 1):
        awd_stability.main([*folders.split(), "--steps", str(steps)])
    found = json.loads((tmp_path / "awd_stability.json").read_text())
    assert [run["steps"] for run in found["runs"]] == [1, 2]
    assert {run["device"] for run in found["runs"]} == {"processor"}
    table = (tmp_path / "awd_stability.md").read_text()
    for steps in (1, 2):
        assert f"| RKM-LSTM, LN(c) is carried, learning rate 3 | {steps} |" in table
