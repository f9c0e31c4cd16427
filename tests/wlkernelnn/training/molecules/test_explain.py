from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from rdkit import Chem

from tests.inputs.molecules import classification_set, regression_set, small_network
from wlkernelnn.datasets import PackedLoader, featurize
from wlkernelnn.models import GraphNetwork
from wlkernelnn.training.molecules.explain import atom_contributions, drawing

PHENOL = "Oc1ccccc1"


def test_the_mean_over_networks_of_all_atoms() -> None:
    data = classification_set(20)
    networks = [small_network(data, seed=seed, dropout=0.5).train() for seed in range(2)]
    (batch,) = PackedLoader(data, 1000)
    with torch.no_grad():
        expected = sum(net.eval().contributions(batch) for net in networks).numpy() / 2
    networks[0].train()
    came = atom_contributions(networks, data, batch_size=3)
    assert came.shape == (batch.num_nodes, 2)
    np.testing.assert_allclose(came, expected, rtol=1e-4, atol=1e-5)
    assert (networks[0].training, networks[1].training) == (True, False)


def test_atoms_are_in_the_order_of_their_smiles() -> None:
    net = small_network(data := regression_set(20))
    ends = data.arrays.node_ptr[1:].tolist()
    whole = atom_contributions([net], data)
    np.testing.assert_allclose(
        whole[ends[2] : ends[3]], atom_contributions([net], data[3:4]), rtol=1e-4, atol=1e-5
    )
    molecule = Chem.MolFromSmiles(data.smiles[3])
    codes = data[3].x[:, 0].tolist()  # atomic numbers, counted from 0
    assert codes == [atom.GetAtomicNum() - 1 for atom in molecule.GetAtoms()]


def test_a_network_without_num_tasks() -> None:
    class Own(GraphNetwork):
        def __init__(self) -> None:
            super().__init__(data.description.node_dims, 8, num_steps=0)

        def states(self, codes: torch.Tensor, graph: Any) -> torch.Tensor:
            return self.encoder(codes)

    data = regression_set(20)
    (batch,) = PackedLoader(data, 20)
    assert atom_contributions([Own()], data).shape == (batch.num_nodes, 1)


def test_nothing_to_explain() -> None:
    data = classification_set(20)
    assert atom_contributions([small_network(data)], data[:0]).shape == (0, 2)
    with pytest.raises(ValueError, match="at least one network"):
        atom_contributions([], data)


def test_a_drawing() -> None:
    svg = drawing(PHENOL, np.array([2.0, -1.0, 0.0, 0.0, 0.0, 0.0, -2.0]), width=321)
    assert svg.rstrip().endswith("</svg>")
    assert "width='321px'" in svg
    # The strongest red and the strongest blue.
    assert "fill:#FF0000" in svg
    assert "fill:#0000FF" in svg


@pytest.mark.parametrize(("value", "least"), [(0.0, 0.0), (1e-7, 0.01)])
def test_a_drawing_of_what_says_nothing(value: float, least: float) -> None:
    svg = drawing(PHENOL, np.full(7, value), least)
    assert "fill:#FF0000" not in svg
    assert "nan" not in svg


@pytest.mark.parametrize(
    ("smiles", "size", "message"),
    [
        (PHENOL, 6, r"'Oc1ccccc1': 7 atoms, and contributions of shape \[6\]"),
        ("C1CC", 3, "'C1CC': no molecule"),
    ],
)
def test_refused_drawings(smiles: str, size: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        drawing(smiles, np.zeros(size))


def test_no_drawing_of_what_is_no_number() -> None:
    with pytest.raises(ValueError, match="expected finite contributions"):
        drawing("CO", np.array([np.nan, 1.0]))


def test_atoms_share_what_their_ring_has() -> None:
    data, _ = featurize(["C1CC1O", "CC"], features="ogb+ring_nodes")
    data = data.with_targets(np.array([[1.0], [0.0]]))
    (batch,) = PackedLoader(data, 2)
    net = small_network(data).eval()
    with torch.no_grad():
        of_nodes = net.contributions(batch).numpy()[:, 0]
    ring, found = of_nodes[4], atom_contributions([net], data)[:, 0]
    expected = [*(of_nodes[:3] + ring / 3), of_nodes[3], *of_nodes[5:]]
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)
    assert ring != 0
