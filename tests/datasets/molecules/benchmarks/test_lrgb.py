from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from wlkernelnn.datasets import get_features, load_lrgb, load_molecules
from wlkernelnn.models import GraphKernelNetwork

PEPTIDES = {"train": ["NCC(=O)O", "NCC(=O)NCC(=O)O"], "val": ["NC(C)C(=O)O"], "test": ["NC(CS)C(=O)O"]}


def raw(smiles: str, y: Tensor) -> tuple[Tensor, ...]:
    """A graph as LRGB's files hold it: atoms, bonds, edges, targets."""
    data = load_molecules([smiles], cache=False)
    graph = data[0]
    bonds = torch.as_tensor(get_features("ogb").decode_edge(graph.edge_type.numpy()))
    return graph.x.long(), bonds.long(), graph.edge_index.long(), y


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(
    ("name", "y", "metric"),
    [
        ("peptides-func", torch.tensor([[0.0, 1.0] * 5]), "average_precision"),
        ("peptides-struct", torch.linspace(-1, 1, 11)[None], "mae"),
    ],
)
def test_peptides(
    name: str, y: Tensor, metric: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "lrgb" / name / "raw"
    folder.mkdir(parents=True)
    for part, some in PEPTIDES.items():
        torch.save([raw(smiles, y) for smiles in some], folder / f"{part}.pt")
    data = load_lrgb(name.upper(), tmp_path)
    assert f"has 4 graphs, but {name} 15,535" in caplog.text
    assert data.metric == metric
    assert data.split_idx is not None
    assert {part: rows.tolist() for part, rows in data.split_idx.items()} == {
        "train": [0, 1],
        "valid": [2],
        "test": [3],
    }
    assert data.y.tolist() == y.repeat(4, 1).tolist()
    # The same graphs as from SMILES, codes included.
    expected = load_molecules([smiles for part in PEPTIDES.values() for smiles in part], cache=False)
    for graph, other in zip(data, expected, strict=True):
        assert graph.x.equal(other.x)
        assert graph.edge_index.equal(other.edge_index)
        assert graph.edge_type.equal(other.edge_type)
    network = GraphKernelNetwork.from_data(data, hidden_channels=8, num_iterations=2)
    assert network(data[0]).shape == (1, y.size(1))
    # PyG keeps what it processed; a file that is newer is processed again.
    torch.save([raw("NC(CS)C(=O)O", 1 - y)], folder / "test.pt")
    assert load_lrgb(name, tmp_path).y[3].tolist() == (1 - y[0]).tolist()


def test_an_unknown_name() -> None:
    with pytest.raises(ValueError, match="name must be one of peptides-func, peptides-struct, got"):
        load_lrgb("PascalVOC-SP")


class Code:
    """What runs code when it is read."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.path,)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_files_run_no_code(tmp_path: Path) -> None:
    folder = tmp_path / "lrgb" / "peptides-func" / "raw"
    folder.mkdir(parents=True)
    for part in PEPTIDES:
        torch.save(Code(tmp_path / "ran"), folder / f"{part}.pt")
    with pytest.raises(ValueError, match=r"peptides-func: a file .* could run code, and is not read"):
        load_lrgb("peptides-func", tmp_path)
    assert not (tmp_path / "ran").exists()
