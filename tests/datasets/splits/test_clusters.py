from __future__ import annotations

import numpy as np
import pytest
from rdkit import Chem, DataStructs
from rdkit.Chem.rdFingerprintGenerator import GetMorganGenerator
from rdkit.ML.Cluster import Butina

from tests.inputs.molecules import regression_set
from wlkernelnn.datasets import butina_clusters, butina_split, split
from wlkernelnn.datasets.splits import clusters


@pytest.mark.parametrize("similarity", [0.4, 0.65])
def test_clusters_are_those_of_rdkit(similarity: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clusters, "_ROWS", 25)
    smiles = regression_set().smiles
    generator = GetMorganGenerator(radius=2, fpSize=2048)
    prints = [generator.GetFingerprint(Chem.MolFromSmiles(text)) for text in smiles]
    distances = [1 - x for i in range(60) for x in DataStructs.BulkTanimotoSimilarity(prints[i], prints[:i])]
    expected = np.empty(60, dtype=int)
    for number, members in enumerate(
        Butina.ClusterData(distances, 60, 1 - similarity + 1e-9, isDistData=True)
    ):
        expected[list(members)] = number
    assert 1 < expected.max() < 59
    assert np.array_equal(butina_clusters(smiles, similarity), expected)


def test_clusters_stay_together_and_the_largest_are_trained_on() -> None:
    data = regression_set()
    cluster = butina_clusters(data.smiles, 0.65)
    parts = butina_split(data.smiles, (0.6, 0.2, 0.2), 0.65)
    assert sorted(np.concatenate(list(parts.values()))) == [*range(60)]
    groups = [set(cluster[part]) for part in parts.values()]
    assert len(set.union(*groups)) == sum(map(len, groups))
    sizes = np.bincount(cluster)
    assert sizes[sorted(groups[0])].max() == sizes.max()
    assert sizes[sorted(groups[2])].max() < sizes.max()
    by_name = split(data, "butina", (0.7, 0.3, 0.0))
    for part, positions in butina_split(data.smiles, (0.7, 0.3, 0.0)).items():
        assert np.array_equal(by_name[part], positions)


def test_texts_that_are_no_molecules_are_no_neighbours_of_any() -> None:
    assert len(set(butina_clusters(["CCO", "C1CC", "OCC"]).tolist())) == 2
    assert butina_clusters([]).tolist() == []


def test_clusters_that_cannot_be_made(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="similarity: expected a number above 0 and at most 1, got 0"):
        butina_clusters(["CC"], 0)
    with pytest.raises(ValueError, match=r"the train part .* empty: 12 items .* that of CCCCO, holds 12"):
        butina_split(["CCCCO"] * 12)
    monkeypatch.setattr(clusters, "_MOST_PAIRS", 50)
    with pytest.raises(ValueError, match=r"more than 50 pairs of 12 molecules have a similarity of 0.4"):
        butina_clusters(["CCCCO"] * 12)
    monkeypatch.setattr(clusters, "_MOST_MOLECULES", 10)
    with pytest.raises(ValueError, match=r"expected at most 10 molecules, got 12, .* split them by scaffold"):
        butina_clusters(["CCCCO"] * 12)
