"""What predicts together in a row of a table of molecules: networks, and a machine on the exact kernel."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from wlkernelnn.bench.baselines.wl_machines import fit_machine
from wlkernelnn.bench.harness.cells import Record
from wlkernelnn.bench.harness.molecule_runs import Split, ensemble, run_method, run_network
from wlkernelnn.bench.harness.trained import TrainedOptions
from wlkernelnn.models import GraphNetwork, KernelStackNetwork
from wlkernelnn.training import FitOptions

# Members of an ensemble have seeds that are so far apart.
MEMBER_SEEDS = 1000
# The most networks of a quick run.
QUICK_MEMBERS = 2


@dataclass(frozen=True)
class MoleculeRow:
    """A row of a table of molecules.

    Attributes:
        title: What it is; in it "{members}" is the number of networks.
        arguments: Of the network, beside what the data say.
        network: Its class.
        features: Of the molecules, see :func:`~wlkernelnn.datasets.get_features`.
        members: How many networks predict together; they differ in their seeds.
        machine: Numbers of iterations of the WL subtree kernel whose machine, see
            :func:`~.wl_machines.best_machine`, predicts with them; none for no machine.
    """

    title: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    network: type[GraphNetwork] = KernelStackNetwork
    features: str = "ogb"
    members: int = 1
    machine: tuple[int, ...] = ()


def run_members(
    name: str,
    row: MoleculeRow,
    split: Split,
    recipe: FitOptions,
    seed: int,
    options: TrainedOptions,
    folder: Path,
    known: Mapping[str, Any],
) -> tuple[Record, list[Record]]:
    """Train the networks of a row, or take those that were trained, and fit its machine.

    Args:
        name: Of the row.
        row: Which members it has.
        split: Data set and parts.
        recipe: How networks are trained.
        seed: Of the first one.
        options: What is to be done.
        folder: Folder of the runs, which rows may have in common.
        known: What a record is to say of the run.

    Returns:
        The record of the row, and those of its members: the networks, then the machine.
    """
    networks = [
        run_network(
            name,
            row.network,
            row.arguments,
            split,
            replace(recipe, **options.of_run(seed + MEMBER_SEEDS * member)),
            folder,
            epochs=options.limit(recipe.epochs),
            known=known,
        )
        for member in range(min(row.members, QUICK_MEMBERS) if options.quick else row.members)
    ]
    members = list(networks)
    if row.machine:
        decided_by = {"machine": list(row.machine)}
        fit = partial(fit_machine, split, row.machine)
        members.append(run_method(name, split, lambda _: fit(), folder, decided_by=decided_by, known=known))
    together = members[0] if len(members) == 1 else ensemble(name, members)
    best = [network.get("best_epoch", np.nan) for network in networks]
    return {
        **together,
        "title": row.title.format(members=len(networks)),
        "features": members[0]["features"],
        "content": members[0]["content"],
        "epochs": min((network["epochs"] for network in networks), default=0),
        "recipe_epochs": recipe.epochs if networks else 0,
        "best_epoch": float(np.mean(best)) if best else None,
        "networks": len(networks),
        "network_seconds": sum(network["seconds"] for network in networks),
        "member_parameters": [member["parameters"] for member in members],
    }, members
