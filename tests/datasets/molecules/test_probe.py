from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from rdkit import Chem

from wlkernelnn.datasets.molecules.probe import check_probed, probed


@pytest.mark.parametrize("features", ["ogb", "lei+rings+ring_nodes+rw2+morgan", "duvenaud+descriptors"])
def test_the_same_rdkit_is_fine(features: str) -> None:
    probed.cache_clear()
    first = json.loads(json.dumps(probed(features)))
    probed.cache_clear()
    assert probed(features) == first
    check_probed(Path("run"), features, first | {"version": "0"})  # another version, and the same features


@pytest.mark.parametrize(
    "other",
    [
        {"codes": "0"},
        {"values": [1.0]},
        {"values": [value * 1.1 for value in probed("ogb+descriptors")["values"]]},
    ],
    ids=["codes", "other values", "differing values"],
)
def test_another_rdkit(other: dict[str, Any]) -> None:
    trained = probed("ogb+descriptors") | other
    check_probed(Path("run"), "ogb+descriptors", trained)  # the same version is not asked
    with pytest.raises(
        ValueError, match=r"^run: .* trained with RDKit 2020\.1, and RDKit .* gives other features"
    ):
        check_probed(Path("run"), "ogb+descriptors", trained | {"version": "2020.1"})


def test_changes_of_perception_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    before = probed("ogb")
    parse = Chem.MolFromSmiles
    monkeypatch.setattr(Chem, "MolFromSmiles", lambda text, *more: parse(text.replace("@@", "@"), *more))
    probed.cache_clear()
    assert probed("ogb") != before
    probed.cache_clear()
