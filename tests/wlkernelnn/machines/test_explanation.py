from __future__ import annotations

from collections import Counter
from functools import reduce
from operator import add
from typing import Any

import networkx as nx
import numpy as np
import pytest
import torch
from rdkit import Chem
from scipy.special import logit
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process.kernels import RBF
from torch_geometric.data import Data

from wlkernelnn import MoleculeRegressor
from wlkernelnn.datasets import PackedGraphs, featurize
from wlkernelnn.kernels import (
    DescriptorKernel,
    MoleculeKernel,
    PathKernel,
    RandomWalkKernel,
    ShortestPathKernel,
    WLSubtreeKernel,
)
from wlkernelnn.machines import (
    Explanation,
    GaussianProcess,
    GaussianProcessClassifier,
    LinearMachine,
    MoleculeMachine,
    explain,
)
from wlkernelnn.machines import substructures as module

SMILES = [f"{'C' * n}{end}" for n in range(1, 9) for end in ("O", "N", "Cl", "c1ccccc1O")] + [
    "C",
    "[Na+].[Cl-]",
]
VALUES = np.random.default_rng(0).normal(size=len(SMILES)) + [len(text) for text in SMILES]
# An atom alone, ions, two that are in the training set, and one of unknown parts.
NEW = ["CCO", "C", "[K+].[Br-]", "OCCc1ccccc1", "CC(N)CCl", "P#P", SMILES[7], SMILES[-1]]
EVERY = reduce(add, [*MoleculeKernel().parts, PathKernel(6, normalize="minmax", coding="ogb")])


def sums_to_predictions(machine: Any, graphs: Any, expected: np.ndarray) -> Explanation:
    """The explanation, whose sums are as expected."""
    explanation = explain(machine, graphs)
    assert explanation.ptr[-1] == len(explanation.atoms)
    by_hand = [
        explanation.atoms[begin:end].sum(axis=0) + explanation.descriptors[i] + explanation.mean
        for i, (begin, end) in enumerate(zip(explanation.ptr, explanation.ptr[1:], strict=False))
    ]
    np.testing.assert_allclose(by_hand, expected.reshape(len(expected), -1), rtol=0, atol=1e-10)
    np.testing.assert_allclose(explanation.prediction, by_hand, rtol=0, atol=1e-10)
    return explanation


@pytest.mark.parametrize(
    "kernel",
    [
        EVERY,
        MoleculeKernel(),
        WLSubtreeKernel(2, normalize="cosine") + PathKernel(4),
        ShortestPathKernel(normalize="cosine", coding="ecfp") + WLSubtreeKernel(1),
    ],
)
@pytest.mark.parametrize("num_landmarks", [None, 12])
def test_atoms_and_mean_sum_to_the_prediction(
    kernel: Any, num_landmarks: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_BLOCK", 3)  # graphs are explained in three blocks
    machine = GaussianProcess(kernel, num_landmarks=num_landmarks).fit(SMILES, VALUES)
    explanation = sums_to_predictions(machine, NEW, machine.predict(NEW))
    assert not explanation.descriptors.any()


def test_of_descriptors_several_targets_with_gaps_and_of_classes() -> None:
    train, _ = featurize(SMILES, features="ogb+invariants+descriptors")
    new, _ = featurize(NEW, features="ogb+invariants+descriptors")
    several = np.stack([VALUES, -VALUES], axis=1)
    several[::3, 1] = np.nan
    kernel = MoleculeKernel() + DescriptorKernel(length_scale_bounds=(0.5, 8.0))
    machine = GaussianProcess(kernel).fit(train, several)
    explanation = sums_to_predictions(machine, new, machine.predict(new))
    gram = machine.targets_[1].kernels[1](new, train[machine.targets_[1].rows])
    target = machine.targets_[1]
    np.testing.assert_allclose(
        explanation.descriptors[:, 1], target.scale * target.amplitudes[1] * gram @ target.posterior.alpha
    )
    alone = GaussianProcess(DescriptorKernel()).fit(train, VALUES)
    explanation = sums_to_predictions(alone, new, alone.predict(new))
    assert not explanation.atoms.any()
    assert explanation.substructures.empty

    for y in (VALUES > 8, np.stack([VALUES > 8, VALUES > 4], axis=1).astype(float)):
        classifier = GaussianProcessClassifier(EVERY).fit(SMILES, y)
        proba = np.stack(np.reshape(classifier.predict_proba(NEW), (-1, len(NEW), 2)), axis=1)
        sums_to_predictions(classifier, NEW, np.log(proba[..., 1] / proba[..., 0]))


@pytest.mark.parametrize("task", ["regression", "classification"])
def test_of_molecule_machines(task: str) -> None:
    y = VALUES if task == "regression" else (VALUES > 8).astype(float)
    data, _ = featurize(SMILES, features="ogb+invariants+descriptors")
    new, _ = featurize(NEW, features="ogb+invariants+descriptors")
    machine = MoleculeMachine().fit(data.with_targets(y[:, None], task=task))
    predicted = machine.predict(new)
    sums_to_predictions(machine, new, predicted if task == "regression" else logit(predicted))


def pairs(smiles: str) -> list[tuple[tuple[Any, ...], tuple[int, int]]]:
    """Atom pairs of a molecule, each with its two atoms, one by one."""
    molecule = Chem.MolFromSmiles(smiles)
    distance = Chem.GetDistanceMatrix(molecule)
    label = [(atom.GetSymbol(), atom.GetIsAromatic()) for atom in molecule.GetAtoms()]
    return [
        ((*sorted([label[u], label[v]]), int(distance[u, v])), (u, v))
        for u in range(len(label))
        for v in range(u + 1, len(label))
        if distance[u, v] < 1e6
    ]


def test_equals_a_sum_over_pairs_one_by_one() -> None:
    kernel = ShortestPathKernel(normalize="minmax", coding="element")
    machine = GaussianProcess(kernel).fit(SMILES, VALUES)
    target = machine.targets_[0]
    explanation = explain(machine, NEW, most=1000)
    of_training = [Counter(key for key, _ in pairs(smiles)) for smiles in SMILES]
    for g, smiles in enumerate(NEW):
        mine = pairs(smiles)
        counts = Counter(key for key, _ in mine)
        atoms = np.zeros(Chem.MolFromSmiles(smiles).GetNumAtoms())
        adds: Counter[Any] = Counter()
        for alpha, others in zip(target.posterior.alpha, of_training, strict=True):
            times = target.scale * target.amplitudes[0] * alpha
            largest = sum((counts | others).values())
            if largest == 0:
                atoms += times / len(atoms)
            for key, ends in mine:
                value = times * min(counts[key], others[key]) / largest
                adds[key] += value / counts[key]
                atoms[[*ends]] += value / counts[key] / 2
        begin, end = explanation.ptr[[g, g + 1]]
        np.testing.assert_allclose(explanation.atoms[begin:end, 0], atoms, atol=1e-10)
        table = explanation.substructures[explanation.substructures["graph"] == g]
        shown = {
            tuple(sorted(atoms)): value
            for atoms, value in zip(table["atoms"], table["contribution"], strict=True)
        }
        expected = {
            tuple(sorted(ends for other, ends in mine if other == key)): value
            for key, value in adds.items()
            if value
        }
        assert shown == pytest.approx(expected, abs=1e-10)
        assert np.all(np.diff(table["contribution"].abs()) <= 0)


def test_colours_belong_to_their_atoms_and_show_what_they_see() -> None:
    # Nothing but the second iteration at the nitrogen tells the last one apart.
    machine = GaussianProcess(WLSubtreeKernel(2, normalize="minmax", coding="element")).fit(
        ["CCCCCN", "CCCCCO", "CCCCO", "CCCCN", "CCCN", "CCCO"], [3.0, 1, 1, 3, 3, 1]
    )
    explanation = explain(machine, ["CCCCCCCN"], most=100)
    assert explanation.atoms[:, 0].argmax() == 7
    table = explanation.substructures
    own = table[[atoms == ((7,),) for atoms in table["atoms"]]]
    assert own[["kernel", "coding", "radius"]].to_numpy().tolist() == [["WLSubtreeKernel", "element", 0]]
    assert {((6, 7),), ((5, 6, 7),), ((1, 2),)} & {*table["atoms"]} == {((6, 7),), ((5, 6, 7),)}
    np.testing.assert_allclose(table["contribution"].sum(), explanation.atoms.sum())


def test_largest_substructures_and_nearest_graphs_are_named() -> None:
    machine = GaussianProcess(EVERY).fit(SMILES, VALUES)
    few, every = explain(machine, NEW, most=3, neighbours=2), explain(machine, NEW, most=10_000)
    assert few.substructures.groupby("graph").size().max() == 3
    for graph, table in every.substructures.groupby("graph"):
        largest = table["contribution"].abs().nlargest(3)
        mine = few.substructures[few.substructures["graph"] == graph]
        np.testing.assert_allclose(mine["contribution"].abs(), largest)
    assert explain(machine, NEW, most=0).substructures.empty
    kernel = np.mean([part(NEW, SMILES) for part in machine.targets_[0].kernels], axis=0)
    np.testing.assert_array_equal(few.nearest[:, 0], kernel.argmax(axis=1))
    np.testing.assert_allclose(few.similarity, -np.sort(-kernel, axis=1)[:, :2])
    assert few.nearest[-2, 0] == 7
    np.testing.assert_allclose(few.similarity[-2, 0], 1)
    # Landmarks give the prediction, and the nearest of all rows are named.
    some = GaussianProcess(WLSubtreeKernel(2, normalize="minmax"), num_landmarks=5).fit(SMILES, VALUES)
    assert (explain(some, SMILES[:9]).similarity[:, 0] == 1).all()


def test_any_graphs_are_explained() -> None:
    graphs = [nx.path_graph(n) for n in range(1, 8)] + [nx.cycle_graph(n) for n in range(3, 8)]
    machine = GaussianProcess(WLSubtreeKernel(3, normalize="minmax")).fit(graphs, range(12))
    explanation = sums_to_predictions(machine, graphs[3:6], machine.predict(graphs[3:6]))
    first = explanation.atoms[:4, 0]  # a path is the same from both ends
    np.testing.assert_allclose(first, first[::-1])


def test_constant_targets_and_no_graphs() -> None:
    machine = GaussianProcess(MoleculeKernel()).fit(["CCO", "CC"], [4.0, 4.0])
    np.testing.assert_array_equal(explain(machine, ["CCCO"]).prediction, [[4.0]])
    assert explain(machine, ["CCCO"]).substructures.empty
    assert explain(machine, ["CCCO"], neighbours=5).nearest.tolist() == [[0, 1]]


def test_mistakes_are_named() -> None:
    with pytest.raises(NotFittedError):
        explain(GaussianProcess(MoleculeKernel()), NEW)
    machine = GaussianProcess(RandomWalkKernel(normalize=True)).fit(SMILES, VALUES)
    with pytest.raises(TypeError, match="sums are explained exactly, got RandomWalkKernel"):
        explain(machine, NEW)
    estimator = MoleculeRegressor(model="linear").fit(SMILES, VALUES)
    with pytest.raises(
        TypeError, match="machine must be a machine on kernels, got MoleculeRegressor: of an est"
    ):
        explain(estimator, NEW)
    of_numbers = GaussianProcess(RBF()).fit(VALUES[:, None], VALUES)
    with pytest.raises(TypeError, match="explained exactly, got RBF"):
        explain(of_numbers, VALUES[:, None])
    machine = GaussianProcess(WLSubtreeKernel(1, normalize="minmax")).fit([nx.path_graph(3)] * 3, [1.0, 2, 3])
    with pytest.raises(ValueError, match="graph 1 has no nodes"):
        explain(machine, [nx.path_graph(2), nx.empty_graph(0)])
    with pytest.raises(ValueError, match="most must be an integer of at least 0, got -1"):
        explain(machine, [nx.path_graph(2)], most=-1)


@pytest.mark.parametrize("kernel", [WLSubtreeKernel(2), MoleculeKernel()], ids=["wl", "six"])
def test_atoms_share_what_their_ring_adds(kernel: Any) -> None:
    data, _ = featurize(SMILES, features="ogb+invariants+ring_nodes")
    new, _ = featurize(NEW, features="ogb+invariants+ring_nodes")
    machine = GaussianProcess(kernel).fit(data, VALUES)
    explanation = sums_to_predictions(machine, new, machine.predict(new))
    sizes = [Chem.MolFromSmiles(smiles).GetNumAtoms() for smiles in NEW]
    assert np.diff(explanation.ptr).tolist() == sizes
    table = explanation.substructures
    for graph, places in zip(table["graph"], table["atoms"], strict=True):
        assert {atom for atoms in places for atom in atoms} <= {*range(sizes[graph])}


def test_a_ring_stands_for_its_atoms() -> None:
    data, _ = featurize(["C1CC1", "CCC"], features="ogb+ring_nodes")
    machine = GaussianProcess(WLSubtreeKernel(0)).fit(data, [1.0, 0.0])
    explanation = explain(machine, data)
    table = explanation.substructures[explanation.substructures["graph"] == 0]
    # The three atoms are one substructure, which occurs three times, and the ring is one.
    assert {*table["atoms"]} == {((0,), (1,), (2,)), ((0, 1, 2),)}
    np.testing.assert_allclose(explanation.atoms[:3, 0], table["contribution"].sum() / 3)


def test_a_linear_machine_refuses_graphs_without_nodes() -> None:
    graphs = [
        Data(x=torch.ones(n, 1, dtype=torch.long), edge_index=torch.zeros(2, 0).long()) for n in (2, 0, 3)
    ]
    data = PackedGraphs.from_pyg(graphs).with_targets(np.arange(3.0))
    machine = LinearMachine().fit(data[[0, 2]].compact())
    with pytest.raises(ValueError, match="graph 1 has no nodes, to which nothing can be attributed"):
        explain(machine, data)
