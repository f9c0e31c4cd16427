from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from rdkit import Chem

from wlkernelnn.datasets import featurize
from wlkernelnn.datasets.chemistry.perception import FIXED


def reasons(thread: int) -> list[str]:
    """Of SMILES whose ring is not closed; the reason shows the SMILES."""
    smiles = ["C" * (1 + i % 30) + f"C{thread + 1}CC" for i in range(300)]
    return [reject.reason for reject in featurize(smiles, num_workers=0)[1]]


def test_threads_have_their_own_reasons() -> None:
    expected = [reasons(thread) for thread in range(4)]
    assert expected[3][0] == "SMILES Parse Error: unclosed ring for input: 'CC4CC'"
    with ThreadPoolExecutor(4) as pool:
        assert [*pool.map(reasons, range(4))] == expected


def test_blocks_within_blocks() -> None:
    before = Chem.GetUseLegacyStereoPerception()
    Chem.SetUseLegacyStereoPerception(False)
    try:
        with FIXED:
            with FIXED:
                pass
            assert Chem.GetUseLegacyStereoPerception()
        assert not Chem.GetUseLegacyStereoPerception()
    finally:
        Chem.SetUseLegacyStereoPerception(before)
