"""The pages that trainings on texts leave."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pandas as pd

from tests.checks.pages import read
from wlkernelnn.datasets import texts_from
from wlkernelnn.report import write_text_page
from wlkernelnn.training import load_string_run


def test_a_classifier(run: Path) -> None:
    page = read(run / "report.html")
    report = json.loads((run / "metrics.json").read_text())
    for part in ("valid", "test"):
        assert f"{report['scores'][part]['log_loss']:.4g}" in page.text
    for section in ("Data", "Learning curves", "Confusion: test", "Calibration", "Worst predictions"):
        assert section in page.text
    assert "60 = 60 texts + 0 rejected" in page.text
    assert "network 2: accuracy" in page.text
    assert "ROC: weather" in page.text
    assert "words of a text" in page.text
    assert "molecules" not in page.text
    assert f"wlkernelnn text train --data-path {run.parent / 'set.csv'}" in page.text
    # The text whose class had the smallest probability stands first.
    test = pd.read_csv(run / "test_predictions.csv")
    own = [one[f"label_p_{one['label']}"] for _, one in test.iterrows()]
    shown = [text for text in test["text"] if text in page.text]
    assert sorted(shown) == sorted(test["text"])
    assert min(shown, key=page.text.rindex) == test["text"][int(pd.Series(own).argmin())]


def test_texts_and_labels_are_escaped(run: Path, table: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(run, tmp_path / "run"))
    model, report = load_string_run(folder), json.loads((folder / "metrics.json").read_text())
    bad = "<script>x</script> & <b>day</b>"
    path = folder / "test_predictions.csv"
    frame = pd.read_csv(path)
    frame.loc[0, "text"] = bad
    frame.loc[1, "text"] = "long " * 200
    frame.to_csv(path, index=False)
    texts = texts_from(table, label_column="label")
    split_idx = json.loads((folder / "splits.json").read_text())
    page = read(write_text_page(folder, model, report, texts, split_idx, config=bad))
    assert "b" not in {*page.tags[page.tags.index("section") :]}
    assert page.text.count(bad) == 2
    assert "long long  …" in page.text


def test_a_language_model(language: Path) -> None:
    page = read(language / "report.html")
    report = json.loads((language / "metrics.json").read_text())
    assert f"{report['test']:.4g}" in page.text
    assert "network: perplexity" in page.text
    assert "The model writes by itself:" in page.text
    assert f"Choosing among all {report['vocabulary']} tokens alike has perplexity" in page.text
    assert "Confusion" not in page.text
