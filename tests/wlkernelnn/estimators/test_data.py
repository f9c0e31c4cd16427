from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from rdkit import Chem

from wlkernelnn.datasets import load_molecules
from wlkernelnn.estimators.data import molecules_of, numbered, target_frame, train_and_valid

SMILES = ["C" * n + end for n in range(1, 21) for end in "ON"]
FORMS: dict[str, Any] = {
    "list": SMILES,
    "array": np.array(SMILES),
    "column": np.array(SMILES)[:, None],
    "Series": pd.Series(SMILES, index=range(5, 45)),
    "frame": pd.DataFrame({"smiles": SMILES}),
    "Arrow": pa.table({"smiles": SMILES}),
    "Arrow column": pa.chunked_array([SMILES]),
    "molecules": [*map(Chem.MolFromSmiles, SMILES)],
}


@pytest.mark.parametrize("form", FORMS)
def test_molecules_of_every_form(form: str) -> None:
    data = molecules_of(FORMS[form], "duvenaud")
    assert data.smiles == SMILES
    assert data.description.features == "duvenaud"


def test_a_validation_part_has_its_share_of_both_classes() -> None:
    amine = np.arange(40) % 2
    data = load_molecules(SMILES, y=amine, task="classification", cache=False)
    parts = train_and_valid(data, 0.2, seed=1)
    assert amine[parts["valid"]].sum() == 4
    assert len(parts["valid"]) == 8
    assert np.array_equal(np.union1d(*parts.values()), np.arange(40))
    for part in parts.values():
        assert (np.diff(part) > 0).all()
    assert not np.array_equal(train_and_valid(data, 0.2, seed=2)["valid"], parts["valid"])
    (every,) = train_and_valid(data, 0, seed=1).values()
    assert np.array_equal(every, np.arange(40))


@pytest.mark.parametrize(
    ("labels", "classes"),
    [(["b", "a", "b"], ["a", "b"]), ([7, 3, 7], [3, 7]), ([True, False, True], [False, True])],
)
def test_classes_are_sorted(labels: list[Any], classes: list[Any]) -> None:
    known, number = numbered(labels)
    assert known.tolist() == classes
    assert number.tolist() == [1, 0, 1]


def test_targets_are_called_as_pandas_calls_them() -> None:
    ones = np.ones(40)
    assert list(target_frame(ones, SMILES)) == ["y"]
    assert list(target_frame(pd.Series(ones, name="logS"), SMILES)) == ["logS"]
    assert list(target_frame(np.ones((40, 2)), SMILES)) == ["y1", "y2"]
    assert list(target_frame(pd.DataFrame({"a": ones, 2: ones}), SMILES)) == ["a", "2"]
    assert list(target_frame(pa.table({"a": ones}), pa.chunked_array([SMILES]))) == ["a"]
    with pytest.raises(ValueError, match=r"y must be \[40\] or \[40, T\], got shape \[3\]"):
        target_frame([1, 2, 3], SMILES)


def test_replicates_are_in_one_part() -> None:
    smiles = [*SMILES, *SMILES[:10], *SMILES[:10]]
    labels = np.arange(60) % 40 % 2
    data = molecules_of(smiles, "ogb").with_targets(labels.astype(float), task="classification")
    parts = train_and_valid(data, 0.25, seed=0)
    train, valid = ({smiles[i] for i in parts[name]} for name in ("train", "valid"))
    assert sorted(np.concatenate([*parts.values()])) == [*range(60)]
    assert not train & valid
    assert (len(train), len(valid)) == (30, 10)
    assert [int(labels[:40][[SMILES.index(name) for name in valid]].sum())] == [5]
