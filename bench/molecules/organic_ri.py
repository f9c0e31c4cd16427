"""Networks on 100,000 organic molecules and their polarizabilities: a large regression."""

from __future__ import annotations

from wlkernelnn.bench.baselines.molecules import GINENetwork
from wlkernelnn.models import GraphKernelNetwork
from wlkernelnn.training import FitOptions

from .table import Model, MoleculeTask, run_table

LEGEND = """* Target: polarizability by density functional theory, bohr³, of virtual organic molecules; root
  mean squared error.
"""

TASKS = {
    "organic_ri": MoleculeTask(
        FitOptions(epochs=20, batch_size=256, lr=2e-3, ema_decay=0.999),
        {
            "gine": Model("GINE", {"hidden_channels": 128}, GINENetwork),
            "wl": Model("WL kernel network", {}, GraphKernelNetwork),
            "stack": Model("deep kernel stack", {"hidden_channels": 128, "num_layers": 4}),
        },
        ("random",),
    )
}


def main(argv: list[str] | None = None) -> None:
    """Train, score, print the table, and write ``organic_ri.md`` and ``organic_ri.json``.

    Args:
        argv: Arguments; default the command line's.
    """
    run_table("organic-ri", "Polarizability", TASKS, argv, __doc__, legend=LEGEND, seeds=3)
