"""What predicts together in a row of a table of molecules: networks, and a machine on the exact kernel."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from wlkernelnn.bench.baselines.kernel_machines import fit_process
from wlkernelnn.bench.baselines.landmark_machines import fit_landmarks
from wlkernelnn.bench.baselines.wl_machines import fit_machine
from wlkernelnn.bench.harness.cells import Record
from wlkernelnn.bench.harness.molecule_runs import Fitted, Split, ensemble, run_method, run_network
from wlkernelnn.bench.harness.trained import TrainedOptions
from wlkernelnn.models import GraphNetwork, KernelStackNetwork
from wlkernelnn.training import FitOptions

PROCESS = """* The kernel machine is a Gaussian process on exact kernels and descriptors, the default of
  "wlkernelnn train": fitted to the training part alone, without a look at the validation part. Its parameters
  are a weight for each training molecule and target, the amplitudes of the kernels, and the noise.
"""

# For as long as a table has such a row.
GINE = """\
* Seconds of GINE at revision 88b3d69 are of a processor that other work shared, several times those of an
  idle one, and those at 1a05d0d of a GPU that sixteen trainings shared: "wlkernelnn benchmark speed" compares
  speeds.
"""
LINEAR = """* The "linear machine, chosen on the training part" is "wlkernelnn train --model linear", the
  same with bonds and without lengths. Iterations and penalties have the least error on the training part: of
  numbers leave-one-out, of classes the log loss in 3-fold cross-validation; of a fifth that is held out with
  more than 2,500 molecules (of classes 10,000).
"""
MACHINE = """* The linear machine on the WL subtree kernel is ridge regression on counts of colours, or of
  classes logistic regression on log(1 + count); iterations (1 to 3), penalty, and whether bonds and (of ridge
  regression) lengths count, are those with the best score on the validation part. Its parameters are the
  weights of the colours of the training part, of every target.
"""
LANDMARKS = """* The landmark machine is linear in the kernel with landmarks, molecules of the training part:
  all active ones (at most half of the landmarks) and others, drawn at random (Nyström's method, Williams and
  Seeger 2001). The kernel is the mean of four min-max kernels of WL colours, in the codings "ogb", "element",
  "ecfp" and "fcfp" of atoms. Whether rings are nodes, whether it is ridge regression on 0 and 1 or logistic
  regression, with classes as they are or of the same weight, and its penalty are those with the best score on
  the validation part. Its parameters are a weight for each landmark and a constant; it has no seed.
"""
# Members of an ensemble have seeds that are so far apart.
MEMBER_SEEDS = 1000
# The most networks of a quick run.
QUICK_MEMBERS = 2


@dataclass(frozen=True)
class MoleculeRow:
    """A row of a table of molecules."""

    title: str  # "{members}" in it is the number of networks
    arguments: Mapping[str, Any] = field(default_factory=dict)  # beside those that the data decide
    network: type[GraphNetwork] = KernelStackNetwork
    features: str = "ogb"  # see wlkernelnn.datasets.get_features
    members: int = 1  # how many networks predict together; they differ in their seeds
    # Iterations of the kernel whose linear machine predicts with them, see wl_machines.
    machine: tuple[int, ...] = ()
    process: str = ""  # the machine that predicts with them, by its name: "auto", "linear"
    landmarks: int = 0  # of the landmark machine that predicts with them, if there is one


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

    Rows may have the folder of runs in common. The result are the record of the row, and those of its
    members: the networks, then the machine.
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

        def fit(_: Path) -> Fitted:
            return fit_machine(split, row.machine)

        members.append(run_method(name, split, fit, folder, decided_by=decided_by, known=known))
    if row.landmarks:
        number = {"landmarks": row.landmarks}
        method = partial(fit_landmarks, row.landmarks, split)
        members.append(run_method(name, split, method, folder, decided_by=number, known=known))
    if row.process:
        kind = {"process": row.process}
        fit_machine_named = partial(fit_process, split, model=row.process)
        members.append(run_method(name, split, fit_machine_named, folder, decided_by=kind, known=known))
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
