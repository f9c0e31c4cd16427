from __future__ import annotations

import pytest
from rdkit import Chem, rdBase

from tests.datasets.molecules.test_smiles import DIVERSE, RARE, equal
from wlkernelnn.datasets import featurize
from wlkernelnn.datasets.molecules import rdkit_reader


def test_the_fast_reading_knows_this_rdkit() -> None:
    """Fails with an RDKit of another binary format: codes are right then, too, but take longer."""
    smiles = DIVERSE + RARE
    binaries = [Chem.MolFromSmiles(text).ToBinary(rdkit_reader.NO_CONFORMERS) for text in smiles]
    _, rare = rdkit_reader.read_binaries(binaries)
    assert [text for text, is_rare in zip(smiles, rare, strict=True) if is_rare] == RARE, rdBase.rdkitVersion


@pytest.mark.parametrize("features", ["ogb", "duvenaud", "lei"])
def test_both_readings_agree(features: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fast, _ = featurize(DIVERSE, features=features)
    monkeypatch.setattr(rdkit_reader, "_HEADERS", ())
    slow, _ = featurize(DIVERSE, features=features)
    assert equal(fast, slow)
