"""The rows of CEP's tables, of the size of Lei et al. 2017, and how they are trained."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from wlkernelnn.bench.baselines.molecules import GINENetwork, RandomWalkNetwork
from wlkernelnn.bench.baselines.neural_fingerprint import NeuralFingerprintNetwork
from wlkernelnn.bench.baselines.structure2vec import LoopyBPNetwork, MeanFieldNetwork
from wlkernelnn.bench.harness.experiment import Row
from wlkernelnn.bench.harness.parameters import width_for
from wlkernelnn.bench.harness.trained import TrainedOptions
from wlkernelnn.datasets import PackedGraphs
from wlkernelnn.machines.parts import FEATURES
from wlkernelnn.models import GraphKernelNetwork, GraphNetwork, KernelStackNetwork
from wlkernelnn.training import FitOptions

PARAMETERS = 260_000
# Of our own networks.
DROPOUT = 0.15


@dataclass(frozen=True)
class Model(Row):
    """A row of the table."""

    network: type[GraphNetwork] | None = None  # None for a method of another kind
    features: str = "duvenaud"  # see wlkernelnn.datasets.get_features
    paper_row: str | None = None  # the row of the paper's table whose runs these are


# No normalisation before the head, walks of exactly n nodes, the last iteration's: as in the release.
_PLAIN = {"norm": False}
_WL: dict[str, Any] = {"all_lengths": False, **_PLAIN}


def _wl(title: str, published: str = "–", **arguments: Any) -> Model:
    return Model(title, published, arguments, network=GraphKernelNetwork)


# Published: RMSE in the paper's Table 3, and the number of parameters there.
MODELS = {
    "mean": Model("mean predictor", "2.4062 (1)", trained=False),
    "wl-3": Model("WL subtree kernel, degree 3", "0.2040 (1.6M)", trained=False),
    "wl-6": Model("WL subtree kernel, degree 6", "0.1367 (1378M)", trained=False),
    "mean-field": Model("embedded mean field", "0.1250 (0.1M)", _PLAIN, network=MeanFieldNetwork),
    "loopy-bp": Model("embedded loopy BP", "0.1174 (0.1M), 0.1065 (0.26M)", _PLAIN, network=LoopyBPNetwork),
    "fingerprint": Model("neural fingerprint", "0.1409 (0.26M)", _PLAIN, network=NeuralFingerprintNetwork),
    "random-walk": Model("random walk kernel network", "–", _WL, network=RandomWalkNetwork),
    "deep": Model("deep kernel network", "–", {"jumping": "last", **_PLAIN}, network=KernelStackNetwork),
    "wl-constant": _wl("WL kernel network, λ = 1", "0.1058 (0.26M)", decay=1.0, **_WL),
    "wl-learned": _wl("WL kernel network, learned λ", decay="learned", **_WL),
    "wl-gated": _wl("WL kernel network, gated λ", "0.1043 (0.26M)", decay="gated", gate_scale=10.0, **_WL),
    # The paper's own readout: the sum over iterations, each with walk weights and gates of its own.
    "wl-gated-sum": _wl(
        "WL kernel network, gated λ, sum over iterations",
        decay="gated",
        gate_scale=10.0,
        readout="sum",
        share_walk_weights=False,
        **_WL,
    ),
    "gine": Model("GINE", "–", _PLAIN, network=GINENetwork),
    "chemprop": Model("chemprop"),
}
# What we make of the same molecules: no walk is too short, sums and dropout where they help.
OWN = {
    "wl-learned": _wl("WL kernel network, learned λ", decay="learned", dropout=DROPOUT),
    "wl-gated": _wl("WL kernel network, gated λ", decay="gated", dropout=DROPOUT),
    "wl-paper": replace(
        MODELS["wl-gated"],
        title="WL kernel network, gated λ, the paper's recipe",
        published="–",
        paper_row="wl-gated",
    ),
    "deep": Model(
        "deep kernel stack, walk encodings",
        "–",
        {"compose": "add", "dropout": DROPOUT},
        network=KernelStackNetwork,
        features="ogb+rw16",
    ),
    "gine": Model("GINE", "–", {"dropout": DROPOUT}, network=GINENetwork),
    "gp": Model("kernel machine", features=FEATURES, trained=False),
}
TABLES = {"paper": MODELS, "ours": OWN}


def network_of(model: Model, train: PackedGraphs) -> dict[str, Any]:
    """The arguments of a row's network, its width among them."""
    assert model.network is not None
    make = partial(model.network.from_data, train, **model.arguments)
    width = width_for(lambda width: make(hidden_channels=width), PARAMETERS)
    return {"hidden_channels": width, **model.arguments}


# Lei et al. 2017, section 6.3, and its release: until the learning rate is below 5e-6.
LR, LR_MIN, LR_DECAY, LR_DECAY_SAMPLES = 1e-3, 5e-6, 0.9, 100_000
SAMPLES = LR_DECAY_SAMPLES * math.ceil(math.log(LR_MIN / LR) / math.log(LR_DECAY))
PUBLISHED = FitOptions(
    batch_size=20,
    lr=LR,
    weight_decay=0.0,
    schedule="exponential",
    warmup_epochs=0,
    lr_min=LR_MIN,
    lr_decay=LR_DECAY,
    lr_decay_samples=LR_DECAY_SAMPLES,
    gradient_clip=0.0,
    ema_decay=0.0,
    bucket_width=0.05,
)
# Ours: of "wlkernelnn train", for a set of this size.
OURS = FitOptions(epochs=40, lr=2e-3)


def recipe_of(
    num_molecules: int, seed: int, options: TrainedOptions, published: bool
) -> tuple[FitOptions, int]:
    """How networks are trained, by the published recipe or by ours, and the epochs of the whole recipe."""
    recipe = replace(PUBLISHED, epochs=math.ceil(SAMPLES / num_molecules)) if published else OURS
    epochs = options.limit(recipe.epochs)
    samples = max(1, round(recipe.lr_decay_samples * epochs / recipe.epochs))
    squeezed = replace(recipe, epochs=epochs, lr_decay_samples=samples, **options.of_run(seed))
    return squeezed, recipe.epochs
