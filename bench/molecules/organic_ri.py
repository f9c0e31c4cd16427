"""Networks on 100,000 organic molecules and their polarizabilities: a large regression."""

from __future__ import annotations

from wlkernelnn.bench.baselines.molecules import GINENetwork
from wlkernelnn.models import GraphKernelNetwork
from wlkernelnn.training import FitOptions

from .members import GINE, MoleculeRow
from .table import MoleculeTask, molecules

LEGEND = f"""{GINE}\
* Target: polarizability by density functional theory, bohr³, of virtual organic molecules; root
  mean squared error.
"""

TASKS = {
    "organic_ri": MoleculeTask(
        FitOptions(epochs=20, batch_size=256, lr=2e-3, ema_decay=0.999),
        {
            "linear": MoleculeRow("linear machine, chosen on the training part", members=0, process="linear"),
            "gine": MoleculeRow("GINE", {"hidden_channels": 128}, GINENetwork),
            "wl": MoleculeRow("WL kernel network", {}, GraphKernelNetwork),
            "stack": MoleculeRow("deep kernel stack", {"hidden_channels": 128, "num_layers": 4}),
        },
        ("random",),
    )
}


main = molecules("organic-ri", "Polarizability", TASKS, __doc__, legend=LEGEND, seeds=3).main
