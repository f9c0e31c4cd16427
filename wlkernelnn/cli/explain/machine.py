"""What a kernel machine's predictions are sums of, as tables."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from rdkit import Chem

from wlkernelnn.machines import Explanation, LinearMachine, explain
from wlkernelnn.machines.parts import targets_of
from wlkernelnn.training import JointModel
from wlkernelnn.training.classes import output_names
from wlkernelnn.training.molecules.explain import atom_contributions
from wlkernelnn.training.molecules.machine import Machine

if TYPE_CHECKING:
    from wlkernelnn.datasets import PackedGraphs

# Of each molecule (and target).
NEIGHBOURS, SUBSTRUCTURES = 3, 10


def explained(
    model: Machine | JointModel, data: PackedGraphs, batch_size: int
) -> tuple[np.ndarray, dict[str, pd.DataFrame]]:
    """What each atom adds ``[ΣV, T]``, and tables by the names of their files."""
    machine = model.machine if isinstance(model, JointModel) else model
    atoms, molecules, substructures = [], [], []
    for begin in range(0, max(1, len(data)), batch_size):
        part = data[begin : begin + batch_size]
        explanation = explain(machine, part, most=SUBSTRUCTURES, neighbours=NEIGHBOURS)
        more = None
        if isinstance(model, JointModel):
            explanation, more = _times(explanation, 1 - model.share), model.of_networks(part)
        atoms.append(explanation.atoms)
        molecules.append(_molecules(machine, part, explanation, more))
        substructures.append(_substructures(machine, part, explanation))
    of_atoms = np.concatenate(atoms)
    if isinstance(model, JointModel):
        of_atoms += model.share * atom_contributions(model.ensemble.networks, data, batch_size)
    return of_atoms, {"molecules.csv": pd.concat(molecules), "substructures.csv": pd.concat(substructures)}


def _times(explanation: Explanation, factor: np.ndarray) -> Explanation:
    """An explanation of the predictions times a factor of each target ``[T]``."""
    table = explanation.substructures
    return replace(
        explanation,
        atoms=explanation.atoms * factor,
        descriptors=explanation.descriptors * factor,
        mean=explanation.mean * factor,
        substructures=table.assign(
            contribution=table["contribution"] * factor[table["target"].to_numpy(int)]
        ),
    )


def _molecules(
    machine: Machine, data: PackedGraphs, explanation: Explanation, networks: np.ndarray | None
) -> pd.DataFrame:
    """Of each molecule and target the sum that is its prediction, and the nearest training molecules.

    Networks, where there are some, add ``[n, T]``.
    """
    of_atoms = explanation.prediction - explanation.descriptors - explanation.mean
    tables = []
    for t, name in enumerate(output_names(machine.about)):
        columns = {
            "row": data.row.numpy() + 1,
            "smiles": data.smiles,
            "target": name,
            "prediction": (explanation.prediction if networks is None else explanation.prediction + networks)[
                :, t
            ],
            "atoms": of_atoms[:, t],
            "descriptors": explanation.descriptors[:, t],
            "mean": explanation.mean[t],
        }
        if networks is not None:
            columns["networks"] = networks[:, t]
        tables.append(pd.DataFrame(columns | _nearest(machine, explanation, t)))
    return pd.concat(tables).sort_values("row", kind="stable")


def _nearest(machine: Machine, explanation: Explanation, target: int) -> dict[str, np.ndarray]:
    """Columns of the nearest training molecules, which a linear machine does not keep."""
    if isinstance(machine, LinearMachine):
        return {}
    train, columns = machine.process_.X_train_, dict[str, np.ndarray]()
    smiles, rows = np.array(train.smiles, dtype=object), train.row.numpy() + 1
    y = targets_of(train, machine.about)
    for k, nearest in enumerate(explanation.nearest.T, 1):
        columns |= {
            f"nearest_{k}_row": rows[nearest],
            f"nearest_{k}_smiles": smiles[nearest],
            f"nearest_{k}_value": y[nearest, target],
            f"nearest_{k}_similarity": explanation.similarity[:, k - 1],
        }
    return columns


def _substructures(machine: Machine, data: PackedGraphs, explanation: Explanation) -> pd.DataFrame:
    """The substructures that add or take most; of each the times it occurs, and the first time as SMILES."""
    table = explanation.substructures
    graph, first = table["graph"].to_numpy(int), [atoms[0] for atoms in table["atoms"]]
    molecules = {g: Chem.MolFromSmiles(data.smiles[g]) for g in np.unique(graph).tolist()}
    return pd.DataFrame(
        {
            "row": data.row.numpy()[graph] + 1,
            "target": [output_names(machine.about)[t] for t in table["target"]],
            "kernel": table["kernel"],
            "coding": table["coding"],
            "radius": table["radius"],
            "times": [len(atoms) for atoms in table["atoms"]],
            "contribution": table["contribution"],
            "fragment": [
                Chem.MolFragmentToSmiles(molecules[g], atoms) for g, atoms in zip(graph, first, strict=True)
            ],
            "atoms": [" ".join(map(str, atoms)) for atoms in first],
        }
    )
