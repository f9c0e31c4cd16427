"""The rows of CEP's tables: methods, and networks of the size that Lei et al. 2017 gave theirs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from wlkernelnn.bench.baselines.molecules import GINENetwork
from wlkernelnn.bench.baselines.neural_fingerprint import NeuralFingerprintNetwork
from wlkernelnn.bench.baselines.random_walk_network import RandomWalkNetwork
from wlkernelnn.bench.baselines.structure2vec import LoopyBPNetwork, MeanFieldNetwork
from wlkernelnn.bench.harness.parameters import width_for
from wlkernelnn.datasets import PackedGraphs
from wlkernelnn.models import GraphKernelNetwork, GraphNetwork, KernelStackNetwork

PARAMETERS = 260_000
# Of our own networks.
DROPOUT = 0.15


@dataclass(frozen=True)
class Model:
    """A row of the table.

    Attributes:
        title: What it is.
        published: RMSE in the paper's Table 3, and the number of parameters there.
        network: Its class; ``None`` for a method of another kind.
        arguments: Its arguments beside the width.
        features: Of the molecules, see :func:`~wlkernelnn.datasets.get_features`.
        seeded: Whether it depends on a seed.
        paper_row: The row of the paper's table whose runs these are, whatever table they stand in.
    """

    title: str
    published: str = "–"
    network: type[GraphNetwork] | None = None
    arguments: Mapping[str, Any] = field(default_factory=dict)
    features: str = "duvenaud"
    seeded: bool = True
    paper_row: str | None = None


# No normalisation before the head, walks of exactly n nodes, the last iteration's: as in the release.
_PLAIN = {"norm": False}
_WL = {"all_lengths": False, **_PLAIN}
MODELS = {
    "mean": Model("mean predictor", "2.4062 (1)", seeded=False),
    "wl-3": Model("WL subtree kernel, degree 3", "0.2040 (1.6M)", seeded=False),
    "wl-6": Model("WL subtree kernel, degree 6", "0.1367 (1378M)", seeded=False),
    "mean-field": Model("embedded mean field", "0.1250 (0.1M)", MeanFieldNetwork, _PLAIN),
    "loopy-bp": Model("embedded loopy BP", "0.1174 (0.1M), 0.1065 (0.26M)", LoopyBPNetwork, _PLAIN),
    "fingerprint": Model("neural fingerprint", "0.1409 (0.26M)", NeuralFingerprintNetwork, _PLAIN),
    "random-walk": Model("random walk kernel network", network=RandomWalkNetwork, arguments=_WL),
    "deep": Model("deep kernel network", network=KernelStackNetwork, arguments={"jumping": "last", **_PLAIN}),
    "wl-constant": Model(
        "WL kernel network, λ = 1", "0.1058 (0.26M)", GraphKernelNetwork, {"decay": 1.0, **_WL}
    ),
    "wl-learned": Model(
        "WL kernel network, learned λ", network=GraphKernelNetwork, arguments={"decay": "learned", **_WL}
    ),
    "wl-gated": Model(
        "WL kernel network, gated λ",
        "0.1043 (0.26M)",
        GraphKernelNetwork,
        {"decay": "gated", "gate_scale": 10.0, **_WL},
    ),
    "gine": Model("GINE", network=GINENetwork, arguments=_PLAIN),
    "chemprop": Model("chemprop"),
}
# What we make of the same molecules: no walk is too short, sums and dropout where they help.
OWN = {
    "wl-learned": Model(
        "WL kernel network, learned λ",
        network=GraphKernelNetwork,
        arguments={"decay": "learned", "dropout": DROPOUT},
    ),
    "wl-gated": Model(
        "WL kernel network, gated λ",
        network=GraphKernelNetwork,
        arguments={"decay": "gated", "dropout": DROPOUT},
    ),
    "wl-paper": replace(
        MODELS["wl-gated"],
        title="WL kernel network, gated λ, the paper's recipe",
        published="–",
        paper_row="wl-gated",
    ),
    "deep": Model(
        "deep kernel stack, walk encodings",
        network=KernelStackNetwork,
        arguments={"compose": "add", "dropout": DROPOUT},
        features="ogb+rw16",
    ),
    "gine": Model("GINE", network=GINENetwork, arguments={"dropout": DROPOUT}),
}
TABLES = {"paper": MODELS, "ours": OWN}


def network_of(model: Model, train: PackedGraphs) -> dict[str, Any]:
    """The arguments of a row's network, its width among them."""
    assert model.network is not None
    make = partial(model.network.from_data, train, **model.arguments)
    return {
        "hidden_channels": width_for(lambda width: make(hidden_channels=width), PARAMETERS),
        **model.arguments,
    }
