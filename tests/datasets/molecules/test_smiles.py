"""The featurizer against OGB's and RDKit's own words, its rejects, and its processes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from rdkit import Chem, rdBase

from wlkernelnn.datasets import Description, PackedGraphs, featurize

# "wlkernelnn.datasets.featurize" as an attribute is the function.
from wlkernelnn.datasets.molecules.features import Features, get_features

# Charges, radicals, isotopes, metals, stereo centres and bonds (also square planar and octahedral), rings,
# aromaticity, conjugation, hypervalence, explicit hydrogens, several components, atom maps.
DIVERSE = [
    *("C", "[Na+].[Cl-]", "[H][H]", "[2H]OC", "[13CH3]C", "[CH3]", "C[O]", "[O][O]", "[NH4+].[OH-]"),
    *("CC(=O)[O-]", "C[N+](=O)[O-]", "C#N", "[C-]#[O+]", "S(F)(F)(F)(F)(F)F", "FP(F)(F)(F)F", "F/C=C/F"),
    *(r"F/C=C\F", "FC=CF", r"C/C=C/C=C\C", "N[C@@H](C)C(=O)O", "N[C@H](C)C(=O)O", "C[S@](=O)CC"),
    *("[Pt@SP1](F)(Cl)(Br)I", "[Co@OH12](F)(Cl)(Br)(I)(N)O", "C1CC1", "C1CCC2(CC1)CC2", "C1CC2CCC1CC2"),
    *("c1ccccc1", "c1ccc2c(c1)[nH]c1ccccc12", "c1ccsc1-c1ccco1", "O=c1cc[nH]cc1", "[cH-]1cccc1.[Fe+2]"),
    *("[NH3]->[Pt](Cl)(Cl)<-[NH3]", "C12C3C4C1C5C2C3C45", "C=C=C", "OB(O)c1ccccc1", "[Og]", "CC=CC#CC=O"),
    *("[CH3:1][OH:127]", "[13CH3:128]/[CH:999]=C/[NH3+:7]"),
]
# What the fast reading leaves to RDKit's objects.
RARE = ["*C", "C~C", "[*:3]c1ccccc1", "C" * 256, "C1" + "C" * 298 + "C1"]


def ogb_graph(smiles: str) -> dict[str, np.ndarray]:
    return pytest.importorskip("ogb.utils").smiles2graph(smiles)


def equal(one: PackedGraphs, other: PackedGraphs) -> bool:
    """Whether two stores hold the same, to the type of each array."""
    ours, theirs = vars(one.arrays), vars(other.arrays)
    return one.description == other.description and all(
        ours[name].dtype == theirs[name].dtype and ours[name].equal(theirs[name]) for name in ours
    )


def packed(smiles: list[str], graphs: list[dict[str, Any]], features: Features) -> PackedGraphs:
    """Graphs in OGB's format, packed by ``PackedGraphs.pack``."""
    return PackedGraphs.pack(
        np.concatenate([graph["node_feat"] for graph in graphs]),
        np.concatenate([graph["edge_index"] for graph in graphs], axis=1),
        np.cumsum([0, *(len(graph["node_feat"]) for graph in graphs)]),
        np.cumsum([0, *(graph["edge_index"].shape[1] for graph in graphs)]),
        edge_type=features.encode_edge(np.concatenate([graph["edge_feat"] for graph in graphs])),
        smiles=smiles,
        description=Description(
            features=features.name, node_dims=features.node_dims, num_edge_types=features.num_edge_types
        ),
    )


def by_objects(smiles: str, features: Features) -> dict[str, Any]:
    """One graph in OGB's format, asking RDKit's objects for every atom and bond."""
    molecule = Chem.MolFromSmiles(smiles)
    edges, codes = [], []
    for bond in molecule.GetBonds():
        begin, end = bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()
        edges += [(begin, end), (end, begin)]
        codes += 2 * [features.decode_edge(np.array(features.bond_code(bond)))]
    return {
        "node_feat": np.array([features.atom_codes(atom) for atom in molecule.GetAtoms()]),
        "edge_index": np.array(edges, dtype=np.int64).reshape(-1, 2).T,
        "edge_feat": np.array(codes, dtype=np.int64).reshape(-1, len(features.bond)),
    }


def test_every_code_is_ogbs() -> None:
    smiles = DIVERSE + RARE
    with rdBase.BlockLogs():
        expected = packed(smiles, [ogb_graph(text) for text in smiles], get_features("ogb"))
    graphs, rejects = featurize(smiles)
    assert rejects == []
    assert equal(graphs, expected)


@pytest.mark.parametrize("name", ["duvenaud", "lei"])
def test_every_code_is_what_rdkit_says(name: str) -> None:
    features = get_features(name)
    smiles = DIVERSE + RARE
    with rdBase.BlockLogs():
        expected = packed(smiles, [by_objects(text, features) for text in smiles], features)
    graphs, rejects = featurize(smiles, features=name)
    assert rejects == []
    assert equal(graphs, expected)


@pytest.mark.parametrize("name", ["HIV.csv.gz", "tox21.csv.gz", "BBBP.csv"])
def test_every_code_is_ogbs_on_published_molecules(data_root: Path, name: str) -> None:
    smiles = pd.read_csv(data_root / "moleculenet" / name)["smiles"].tolist()
    smiles = smiles[:: max(len(smiles) // 1000, 1)]
    graphs, rejects = featurize(smiles)
    kept = [smiles[row] for row in graphs.row.tolist()]
    with rdBase.BlockLogs():
        assert all(Chem.MolFromSmiles(reject.smiles) is None for reject in rejects)
        expected = packed(kept, [ogb_graph(text) for text in kept], get_features("ogb"))
    assert len(kept) + len(rejects) == len(smiles)
    expected.arrays.row.copy_(graphs.row)
    assert equal(graphs, expected)


def test_the_same_atom_in_and_outside_a_ring_differs() -> None:
    graphs, _ = featurize(["CCC", "C1CC1", "CCC"])
    chain, ring, again = (graphs[i].x for i in range(3))
    assert chain[1].tolist() != ring[1].tolist()
    assert chain.equal(again)


REJECTED = [
    (None, r"^missing \(None\)$"),
    (float("nan"), r"^missing \(nan\)$"),
    (pd.NA, r"^missing \(<NA>\)$"),
    (7, r"^not a string but int: 7$"),
    (["C"], r"^not a string but list: \['C'\]$"),
    (b"CC", r"^not a string but bytes: b'CC'$"),
    ("", r"^empty$"),
    (" \t ", r"^blank$"),
    ("CC ethane", r"^text after the SMILES: 'ethane'$"),
    ("CC\tethane", r"^text after the SMILES: 'ethane'$"),
    ("C\nC", r"^line break in the SMILES, before 'C'$"),
    ("CCé", r"^character 'é' at position 3 does not belong"),
    ("C\x00C", r"^character '\\x00' at position 2 does not belong"),
    ("\ud800", r"^character '\\ud800' at position 1 does not belong"),
    ("C1CC", r"unclosed ring"),
    ("C((", r"syntax error while parsing: C\(\(; .* position 3$"),
    ("CC(C)(C)(C)C", r"^Explicit valence for atom # 1 C, 5"),
    ("c1ccc1c", r"^non-ring atom 4 marked aromatic$"),
    ("[#200]", r"Atomic number not found$"),
    ("C" * 4000 + "(", r"syntax error"),
    ("c" + "C" * 4000, r"^valences, rings or aromatic atoms that cannot be$"),
    ("C" * 5001, r"^5,001 characters, more than max_length = 5,000$"),
    ("C" * 10_000_000, r"^10,000,000 characters"),
]


def test_bad_inputs_are_rejected_with_their_reasons(capfd: pytest.CaptureFixture[str]) -> None:
    inputs = ["C", *(value for value, _ in REJECTED), "O"]
    graphs, rejects = featurize(inputs, rows=range(10, 10 + len(inputs)))
    assert graphs.row.tolist() == [10, 11 + len(REJECTED)]
    assert graphs.smiles == ["C", "O"]
    for row, reject, (value, reason) in zip(range(11, 34), rejects, REJECTED, strict=True):
        assert reject.row == row
        assert reject.smiles is value
        assert len(reject.reason) < 500
        assert re.search(reason, reject.reason), reject.reason
    assert len(rejects) == len(REJECTED)
    assert capfd.readouterr() == ("", "")


def test_whatever_rdkit_throws_is_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(smiles: str, params: Chem.SmilesParserParams) -> None:
        raise RuntimeError("Invariant Violation")

    monkeypatch.setattr(Chem, "MolFromSmiles", fail)
    graphs, (reject,) = featurize(["C"])
    assert len(graphs) == 0
    assert reject.reason == "RDKit fails with RuntimeError: Invariant Violation"


def test_nothing_is_lost_and_order_is_kept() -> None:
    values = pd.Series(["CC", None, " CO ", "x", "CC", ""], index=list("fedcba"), dtype=object)
    graphs, rejects = featurize(values)
    assert graphs.smiles == ["CC", "CO", "CC"]
    assert graphs.row.tolist() == [0, 2, 4]
    assert [(reject.row, reject.smiles) for reject in rejects] == [(1, None), (3, "x"), (5, "")]
    assert graphs.rejects == rejects
    assert graphs.num_tasks == 0
    assert graphs.y.shape == (3, 0)
    assert graphs[0].x.equal(graphs[2].x)


@pytest.mark.parametrize("values", [[], ["", None]], ids=["nothing", "nothing-good"])
def test_no_molecules(values: list[object]) -> None:
    graphs, rejects = featurize(values)
    assert (len(graphs), len(rejects)) == (0, len(values))
    assert graphs.arrays.node_table.shape == (0, 9)
    assert graphs.description.num_edge_types == 60


def test_molecules_of_all_sizes() -> None:
    sizes = [1, 2, 255, 256, 500, 5000]
    graphs, rejects = featurize(["C" * size for size in sizes])
    assert rejects == []
    assert graphs.num_nodes_per_graph.tolist() == sizes
    chain = graphs[5].edge_index
    assert chain.shape == (2, 2 * 4999)
    assert chain[:, :3].tolist() == [[1, 0, 2], [0, 1, 1]]
    assert graphs[0].edge_index.shape == (2, 0)


def test_disconnected_molecules_have_no_edges_between_parts() -> None:
    graphs, _ = featurize(["CC.OO.[Na+]"])
    assert graphs[0].edge_index.tolist() == [[1, 0, 3, 2], [0, 1, 2, 3]]


def test_rdkit_keeps_quiet(capfd: pytest.CaptureFixture[str]) -> None:
    graphs, _ = featurize(["[H+]", "C", "[H]"])  # RDKit warns of hydrogens that it doesn't remove
    assert len(graphs) == 3
    assert capfd.readouterr() == ("", "")


def test_elements_outside_the_table_get_its_last_code() -> None:
    graphs, _ = featurize(["*"])
    assert graphs[0].x[0, 0].item() == get_features("ogb").node_dims[0] - 1
    graphs, _ = featurize(["[U]"], features="duvenaud")
    assert graphs[0].x[0, 0].item() == get_features("duvenaud").node_dims[0] - 1


def test_wrong_arguments_are_errors() -> None:
    with pytest.raises(TypeError, match="got one string: 'CCO'"):
        featurize("CCO")
    with pytest.raises(ValueError, match="got 1 for 2 SMILES"):
        featurize(["C", "C"], rows=[1])
    with pytest.raises(ValueError, match="at least 0, got -1"):
        featurize(["C"], num_workers=-1)
    with pytest.raises(ValueError, match="unknown features 'x'"):
        featurize(["C"], features="x")


def test_progress_goes_to_stderr(capfd: pytest.CaptureFixture[str]) -> None:
    featurize(["C"], progress=True)
    out, err = capfd.readouterr()
    assert out == ""
    assert "Featurizing" in err


# Standardisation

SALTS = {
    "CC(=O)[O-].[Na+]": ("CC(=O)O", "fragment uncharge"),
    "O=C(O[Na])c1ccccc1": ("O=C(O)c1ccccc1", "cleanup fragment uncharge"),
    "C[N+](C)(C)C.F[P-](F)(F)(F)(F)F": ("C[N+](C)(C)C", "fragment"),
    "OC(C)=O": ("CC(=O)O", ""),
    "N[C@@H](C)C(=O)O.Cl": ("C[C@H](N)C(=O)O", "fragment"),
    "CN(=O)=O": ("C[N+](=O)[O-]", ""),
}


def test_molecules_are_standardized(tmp_path: Path) -> None:
    smiles = [*SALTS, "C1CC", "[Fe+2].[cH-]1cccc1.[cH-]1cccc1"]
    legacy = Chem.GetUseLegacyStereoPerception()
    try:
        for switch in (False, True):  # RDKit's switch for the whole process changes nothing
            Chem.SetUseLegacyStereoPerception(switch)
            graphs, rejects = featurize(smiles, features="ogb+standardize")
            assert graphs.smiles == [after for after, _ in SALTS.values()]
    finally:
        Chem.SetUseLegacyStereoPerception(legacy)
    assert [reject.row for reject in rejects] == [6, 7]
    assert re.match("SMILES Parse Error: unclosed ring", rejects[0].reason)
    assert rejects[1].reason == "cannot be standardized: gives c1cccc1, which cannot be"
    changed = [(row, text, *SALTS[text]) for row, text in enumerate(SALTS) if SALTS[text][1]]
    assert [(*change[:3], " ".join(change.steps)) for change in graphs.changes] == changed
    plain, _ = featurize([after for after, _ in SALTS.values()])
    assert equal(graphs.with_targets(np.zeros(6), features="ogb"), plain.with_targets(np.zeros(6)))
    # What changed is kept by files, and belongs to the whole set.
    graphs.save(tmp_path / "set.safetensors")
    assert PackedGraphs.load(tmp_path / "set.safetensors").changes == graphs.changes
    assert not graphs[:3].changes
    # In other processes, whichever way a molecule is written.
    again = [Chem.MolToRandomSmilesVect(Chem.MolFromSmiles(text), 1, randomSeed=1)[0] for text in SALTS]
    others, _ = featurize(again * 20, features="ogb+standardize", num_workers=1)
    assert others.smiles == graphs.smiles * 20


def test_molecules_of_rdkit() -> None:
    unfit = Chem.MolFromSmiles("C(C)(C)(C)(C)C", sanitize=False)
    graphs, rejects = featurize([Chem.AddHs(Chem.MolFromSmiles("OC[C@H](F)Cl")), None, unfit, Chem.Mol()])
    assert graphs.smiles == ["OC[C@H](F)Cl"]
    assert [(reject.row, reject.reason[:17]) for reject in rejects] == [
        (1, "missing (None)"),
        (2, "RDKit fails with "),
        (3, "no atoms"),
    ]
