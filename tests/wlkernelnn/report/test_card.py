from __future__ import annotations

import json
from pathlib import Path

import yaml


def test_the_card_of_a_run(run_folder: Path) -> None:
    card = (run_folder / "README.md").read_text("utf-8")
    report = json.loads((run_folder / "metrics.json").read_text())
    head, _, text = card.removeprefix("---\n").partition("---\n")
    about = yaml.safe_load(head)
    assert about["library_name"] == "wlkernelnn"
    (entry,) = about["model-index"]
    (result,) = entry["results"]
    assert entry["name"] == run_folder.name
    assert result["metrics"] == [{"type": "rmse", "name": "rmse, test", "value": report["test"]}]

    assert text.lstrip().startswith("# Act\n")
    assert "60 molecules, split random: 48 train, 6 valid, 6 test." in text
    assert f"2 × GraphKernelNetwork, {report['parameters']:,} parameters" in text
    (row,) = [line for line in text.splitlines() if line.startswith("| test |")]
    assert f"| {report['scores']['test']['mean']['mae']:.4g} |" in row
    assert f"--output-dir {run_folder} --model wl" in text
    assert "torch " in text
    # Two networks without a recalibration have neither deviations of measurements nor neighbours.
    assert "unlike those of the training part.\n" in text
    assert "{" not in text
