from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from wlkernelnn.training import corrected_t_test, cross_validate
from wlkernelnn.training.crossval.summary import summary

FOLDS = np.array([[0, 1, 2] * 10, [0] * 10 + [1] * 10 + [2] * 10])


class Recorded:
    """A training that scores by the parts it gets, and says how often it ran."""

    def __init__(self, shift: float, fails_at: int = -1) -> None:
        self.shift, self.fails_at, self.parts = shift, fails_at, list[dict[str, np.ndarray]]()

    def __call__(self, parts: dict[str, np.ndarray], folder: Path) -> dict[str, Any]:
        assert not [*folder.iterdir()]
        if len(self.parts) == self.fails_at:
            self.fails_at = -1
            raise KeyboardInterrupt
        self.parts.append(parts)
        pd.DataFrame({"row": parts["test"]}).to_csv(folder / "test_predictions.csv", index=False)
        rmse = self.shift + parts["test"].mean() / 30
        scores = {"mae": rmse / 2, "rmse": rmse, "r2": float("nan")}
        return {"metric": "rmse", "seconds": 0.1, "scores": {"test": {"mean": scores}}}


def test_every_fold_is_tested_on_once_and_what_is_kept(tmp_path: Path) -> None:
    gp, wl = Recorded(1.0), Recorded(2.0)
    groups = np.arange(30) // 2
    report = cross_validate({"gp": gp, "wl": wl}, FOLDS, tmp_path, groups=groups, validated=["wl"])
    for r, fold_of in enumerate(FOLDS):
        for fold in range(3):
            parts, own = gp.parts[3 * r + fold], wl.parts[3 * r + fold]
            assert np.array_equal(parts["test"], np.flatnonzero(fold_of == fold))
            assert np.array_equal(parts["train"], np.flatnonzero(fold_of != fold))
            assert np.array_equal(own["test"], parts["test"])
            assert np.array_equal(np.sort([*own["train"], *own["valid"]]), parts["train"])
            assert not {*groups[own["train"]]} & {*groups[own["valid"]]}
            assert len(own["valid"]) == 2
    assert (report["metric"], report["folds"], report["repeats"], report["molecules"]) == ("rmse", 3, 2, 30)
    table = pd.read_csv(tmp_path / "cv.csv")
    assert table.columns.tolist() == [
        "model",
        "repeat",
        "fold",
        "train",
        "test",
        "seconds",
        "rmse",
        "mae",
        "r2",
    ]
    assert len(table) == 12
    assert set(table["train"]) == {20}
    of_gp = table[table["model"] == "gp"]["rmse"]
    assert report["models"]["gp"]["rmse"] == {
        "mean": pytest.approx(of_gp.mean()),
        "std": pytest.approx(of_gp.std()),
        "folds": 6,
    }
    assert report["models"]["gp"]["r2"]["folds"] == 0
    assert json.loads((tmp_path / "cv.json").read_text())["models"]["gp"]["r2"]["mean"] is None
    assert report["differences"][0]["mean"] == pytest.approx(-1)
    kept = pd.read_csv(tmp_path / "folds" / "wl_repeat2_fold3.csv")["row"]
    assert kept.tolist() == [*range(20, 30)]
    assert not (tmp_path / "folds" / "training").exists()


def test_finished_folds_are_kept_when_it_goes_on(tmp_path: Path) -> None:
    train = Recorded(1.0, fails_at=4)
    with pytest.raises(KeyboardInterrupt):
        cross_validate({"gp": train}, FOLDS, tmp_path)
    with pytest.raises(FileExistsError, match="holds a cross-validation already: resume it, or choose"):
        cross_validate({"gp": train}, FOLDS, tmp_path)
    said = "the cross-validation to resume is of other data, models, folds or validation parts"
    others: list[dict[str, Any]] = [
        {"folds": FOLDS[:, ::-1]},
        {"models": {"gp": train, "wl": train}},
        {"seed": 1},
        {"validated": ["gp"]},
        {"groups": np.arange(30)},
        {"about": {"data": "other"}},
        {"about": {"seed": 0}},
    ]
    for other in others:
        given = {"models": {"gp": train}, "folds": FOLDS, **other}
        with pytest.raises(ValueError, match=said):
            cross_validate(directory=tmp_path, resume=True, **given)
    report = cross_validate({"gp": train}, FOLDS, tmp_path, resume=True)
    assert len(train.parts) == 6
    whole = cross_validate({"gp": Recorded(1.0)}, FOLDS, tmp_path / "whole")
    assert report["models"] == {"gp": {**whole["models"]["gp"], "r2": report["models"]["gp"]["r2"]}}


def test_a_training_that_fails_names_its_fold(tmp_path: Path) -> None:
    def fails(parts: dict[str, np.ndarray], folder: Path) -> dict[str, Any]:
        raise ValueError("target y has one class")

    with pytest.raises(ValueError, match="linear, repeat 1, fold 1: target y has one class"):
        cross_validate({"linear": fails}, FOLDS, tmp_path)


def test_corrected_t_test() -> None:
    d = np.array([0.3, -0.1, 0.2, 0.4, 0.1])
    t, p = corrected_t_test(d, 0.25)
    plain = stats.ttest_1samp(d, 0)
    assert t == pytest.approx(plain.statistic / np.sqrt(1 + 5 * 0.25))
    assert p == pytest.approx(2 * stats.t(4).sf(t))
    assert p > plain.pvalue
    assert corrected_t_test(d, 0) == pytest.approx((plain.statistic, plain.pvalue))
    assert np.isnan(corrected_t_test([0.1], 0.25)).all()
    assert np.isnan(corrected_t_test([0.1, 0.1], 0.25)).all()


def test_folds_without_a_score_do_not_count() -> None:
    def record(model: str, fold: int, score: float | None) -> dict[str, Any]:
        scores = {"roc_auc": score}
        return {"model": model, "repeat": 1, "fold": fold, "train": 20, "test": 10, "scores": scores}

    values = [("a", 0.7), ("a", None), ("a", 0.9), ("b", 0.6), ("b", 0.8), ("b", 0.7)]
    found = summary([record(model, i % 3, value) for i, (model, value) in enumerate(values)])
    assert found["models"]["a"]["roc_auc"]["folds"] == 2
    assert found["models"]["a"]["roc_auc"]["mean"] == pytest.approx(0.8)
    (difference,) = found["differences"]
    assert (difference["first"], difference["second"], difference["folds"]) == ("a", "b", 2)
    assert (difference["t"], difference["p"]) == pytest.approx(corrected_t_test([0.1, 0.2], 0.5))
