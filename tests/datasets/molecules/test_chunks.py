"""Additions to the codes of each molecule, and the processes that featurize."""

from __future__ import annotations

import multiprocessing
import subprocess
import sys
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from rdkit import Chem, rdBase

from tests.datasets.molecules.test_smiles import DIVERSE, RARE, equal
from wlkernelnn.datasets import PackedGraphs, PackedLoader, featurize, walk_encodings

# "wlkernelnn.datasets.featurize" as an attribute is the function.
from wlkernelnn.datasets.molecules import smiles as module
from wlkernelnn.datasets.molecules.additions import descriptors, morgan_counts
from wlkernelnn.datasets.molecules.chunks import ByValue, featurize_chunk, featurize_chunks
from wlkernelnn.datasets.molecules.features import Features, get_features


@pytest.mark.parametrize("codes", ["ogb", "lei"])
def test_additions_are_those_of_each_molecule(codes: str) -> None:
    """Next to the codes, which stay as they are, for every atom and molecule, also past bad rows."""
    smiles = [*DIVERSE, "C(", *RARE, None]
    plain, rejects = featurize(smiles, features=codes)
    graphs, rejects_too = featurize(smiles, features=f"{codes}+rw9+morgan")
    assert rejects == rejects_too
    assert len(rejects) == 2
    about = graphs.description
    assert about.node_dims == plain.description.node_dims
    assert (about.features, about.num_node_values, about.num_graph_values) == (f"{codes}+rw9+morgan", 9, 2048)
    for graph, before in zip(graphs, plain, strict=True):
        columns = len(about.node_dims)
        assert graph.x[:, :columns].equal(before.x)
        assert graph.edge_index.equal(before.edge_index)
        assert graph.edge_type.equal(before.edge_type)
        source, target = before.edge_index.numpy()
        walks = walk_encodings(source, target, np.array([len(before.x)]), 9)
        np.testing.assert_array_equal(graph.x[:, columns:].numpy(), walks)
        with rdBase.BlockLogs():
            counts = morgan_counts(Chem.MolFromSmiles(graph.smiles))
        np.testing.assert_array_equal(graph.graph_x.numpy(), counts[None])


def test_rings_are_those_that_rdkit_sees() -> None:
    smiles = [*DIVERSE, *RARE, "C12C3C4C1C5C4C3C25", "C1CCCCCCCCCC1", "C1CC11CCC1", "c1ccc2cc3ccccc3cc2c1"]
    plain, _ = featurize(smiles, features="ogb+rw9")
    graphs, _ = featurize(smiles, features="ogb+rings+rw9")
    for graph, before in zip(graphs, plain, strict=True):
        codes, walks = before.x.split([9, 9], dim=1)
        assert graph.x[:, :9].equal(codes)
        assert graph.x[:, 16:].equal(walks)
        with rdBase.BlockLogs():
            molecule = Chem.MolFromSmiles(graph.smiles)
        for atom, counts in enumerate(graph.x[:, 9:16].tolist()):
            sizes = list(molecule.GetRingInfo().AtomRingSizes(atom))
            large = sum(size > 8 for size in sizes)
            assert counts == [min(count, 3) for count in [*map(sizes.count, range(3, 9)), large]]


def test_additions_are_packed_like_anything_else() -> None:
    """Equal rows of codes and numbers are stored once, as ``PackedGraphs.pack`` does it."""
    graphs, _ = featurize(DIVERSE + RARE, features="ogb+rings+rw5+morgan")
    (batch,) = PackedLoader(graphs, len(graphs))
    expected = PackedGraphs.pack(
        batch.x.numpy(),
        np.concatenate([graph.edge_index.numpy() for graph in graphs], axis=1),
        graphs.arrays.node_ptr.numpy(),
        graphs.arrays.edge_ptr.numpy(),
        edge_type=batch.edge_type.numpy(),
        smiles=graphs.smiles,
        graph_x=batch.graph_x.numpy(),
        description=graphs.description,
    )
    assert equal(graphs, expected)
    assert len(graphs.arrays.node_table) < graphs.num_nodes_per_graph.sum() / 2


def test_descriptors_are_numbers_of_each_molecule() -> None:
    graphs, rejects = featurize([*DIVERSE, "C("], features="ogb+rdkit")
    assert len(rejects) == 1
    assert graphs.arrays.graph_x.dtype == torch.float32
    for graph in graphs:
        expected = descriptors(Chem.MolFromSmiles(graph.smiles))
        np.testing.assert_array_equal(graph.graph_x.numpy(), expected[None])


@pytest.mark.parametrize("values", [[], ["x"]], ids=["nothing", "nothing-good"])
def test_additions_of_no_molecules(values: list[object]) -> None:
    graphs, _ = featurize(values, features="ogb+rw4+morgan")
    assert graphs.arrays.node_table.shape == (0, 13)
    assert graphs.arrays.graph_x.shape == (0, 2048)


def test_processes_change_nothing() -> None:
    features = "ogb+rings+rw16+morgan"
    ends = ["C", "O", "N", "F", "Cl", "S", "[N+](=O)[O-]", "C#N", "C(=O)O", "/C=C/C", "x", "[C@H](F)Cl"]
    smiles: list[object] = [f"{a}c1cc({b})cc({c})c1" for a, b, c in product(ends, ends, ends)]
    smiles[500:500] = [None, "C" * 400, "*C"]
    assert len(smiles) > module.CHUNK
    alone, rejects = featurize(smiles, features=features, num_workers=0)
    helped, rejects_helped = featurize(smiles, features=features, num_workers=2)
    assert len(alone) + len(rejects) == len(smiles)
    assert rejects == rejects_helped
    assert equal(alone, helped)


def test_many_smiles_start_processes_by_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def run(chunks: list[list[str]], features: Features, num_workers: int) -> Any:
        asked.append(num_workers)
        return featurize_chunks(chunks, features, 0)

    monkeypatch.setattr(module, "featurize_chunks", run)
    monkeypatch.setattr(module, "PARALLEL_FROM", 2)
    monkeypatch.setattr(module, "CHUNK", 1)
    monkeypatch.setattr(module.joblib, "cpu_count", lambda: 3)
    for count in (1, 2, 5):
        featurize(["C"] * count)
    featurize(["C"] * 5, num_workers=0)
    assert asked == [0, 2, 3, 0]


def test_a_child_leaves_no_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would wait for them at its end, and they wait five minutes for more work."""
    monkeypatch.setattr(multiprocessing, "parent_process", multiprocessing.current_process)
    assert len(list(featurize_chunks([["C"], ["CC"]], get_features("ogb"), 2))) == 2
    assert not [child for child in multiprocessing.active_children() if "Loky" in child.name]


def test_a_process_works_without_our_package(tmp_path: Path) -> None:
    program = "import cloudpickle, sys\n"
    for values in ("morgan", "rdkit"):
        features = get_features(f"ogb+rings+rw4+{values}")
        work = ByValue(partial(featurize_chunk, features=features))
        code = tmp_path / values
        code.write_bytes(work.code)
        program += (
            f"part, reasons = cloudpickle.loads(open({str(code)!r}, 'rb').read())(['CCO', 'C('])\n"
            "assert part['num_nodes'].tolist() == [3], part\n"
            "assert part['node_table'].shape[1] == 20, part\n"
            f"assert part['graph_x'].shape == (1, {features.num_graph_values}), part\n"
            f"assert part['graph_x'].sum() == 6 or {values!r} == 'rdkit', part\n"
            "assert list(reasons) == [1], reasons\n"
            "assert not {'torch', 'wlkernelnn'} & set(sys.modules)\n"
        )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
