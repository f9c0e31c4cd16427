from __future__ import annotations

import pytest

from wlkernelnn.bench.harness.parameters import count_parameters
from wlkernelnn.bench.molecules.cep.models import TABLES, Model, network_of
from wlkernelnn.datasets import molecules_from

NETWORKS = {
    f"{recipe} {name}": model
    for recipe, models in TABLES.items()
    for name, model in models.items()
    if model.network is not None
}


@pytest.mark.parametrize("model", NETWORKS.values(), ids=NETWORKS)
def test_networks_have_the_papers_size(model: Model) -> None:
    data = molecules_from(
        ["CC", "c1ccccc1"], y=[1.0, 2.0], features=model.features, task="regression", cache=False
    )
    net = model.network.from_data(data, **network_of(model, data))
    assert abs(count_parameters(net) / 260_000 - 1) < 0.01
