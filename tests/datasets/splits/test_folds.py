from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.inputs.molecules import classification_set, regression_set
from wlkernelnn.datasets import butina_clusters, cv_folds, molecules_from, scaffolds, split_groups


def test_folds_of_every_repeat_have_equal_sizes_and_differ() -> None:
    data = regression_set()
    folds = cv_folds(data, 7, 3, seed=5)
    assert folds.shape == (3, 60)
    for fold in folds:
        assert sorted(np.bincount(fold).tolist()) == [8, 8, 8, 9, 9, 9, 9]
    assert len({tuple(fold) for fold in folds.tolist()}) == 3
    assert np.array_equal(folds[1], cv_folds(data, 7, 1, seed=6)[0])


@pytest.mark.parametrize("kind", ["random", "scaffold", "flat_scaffold", "butina"])
def test_groups_stay_in_one_fold(kind: Any) -> None:
    smiles = regression_set().smiles
    data = molecules_from([*smiles, *smiles[:20]], np.arange(80.0), cache=False)
    labels = {
        "random": [*range(60), *range(20)],
        "butina": butina_clusters(data.smiles).tolist(),
    }.get(kind) or scaffolds(data.smiles, kind == "scaffold")
    folds = cv_folds(data, 3, 2, kind)
    for fold in folds:
        pairs = set(zip(labels, fold.tolist(), strict=True))
        assert len(pairs) == len(set(labels))
        assert set(fold.tolist()) == {0, 1, 2}
    assert len(np.unique(split_groups(data, kind))) == len(set(labels))


def test_the_rarest_class_is_dealt_out_evenly() -> None:
    data = classification_set()
    y = data.measured.numpy()
    least = [min((column == 0).sum(), (column == 1).sum()) for column in y.T]
    target = y[:, int(np.argmin(least))]
    rare = target == (0 if (target == 0).sum() < (target == 1).sum() else 1)
    for fold in cv_folds(data, 4, 3):
        counts = np.bincount(fold[rare], minlength=4)
        assert counts.max() - counts.min() <= 1
        assert np.ptp(np.bincount(fold)) <= 2


def test_folds_that_cannot_be_made(caplog: pytest.LogCaptureFixture) -> None:
    rings = molecules_from(["C1CC1C", "C1CC1CC", "C1CCC1", "CC1CCC1", "CCC"], np.arange(5.0), cache=False)
    with pytest.raises(ValueError, match="4 folds: the scaffold split has only 3 groups of molecules"):
        cv_folds(rings, 4, kind="scaffold")
    with pytest.raises(ValueError, match="k"):
        cv_folds(rings, 1)
    with pytest.raises(ValueError, match="split must be one of random, scaffold"):
        cv_folds(rings, 2, kind="time")  # type: ignore[arg-type]
    assert "largest group" not in caplog.text
    acyclic = molecules_from([*["CC"] * 9, "C1CC1", "C1CCC1"], np.arange(11.0), cache=False)
    cv_folds(acyclic, 3, kind="scaffold")
    assert "the largest group holds 9 of 11 molecules" in caplog.text
