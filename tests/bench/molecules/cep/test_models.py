from __future__ import annotations

import math

import pytest

from wlkernelnn.bench.harness.parameters import count_parameters
from wlkernelnn.bench.molecules.cep.cep import CEPOptions
from wlkernelnn.bench.molecules.cep.models import SAMPLES, TABLES, network_of, recipe_of
from wlkernelnn.datasets import molecules_from
from wlkernelnn.training.molecules.module import learning_rate_factor

NETWORKS = {
    f"{recipe} {name}": model
    for recipe, models in TABLES.items()
    for name, model in models.items()
    if model.network is not None
}


def test_networks_have_the_papers_size() -> None:
    for name, model in NETWORKS.items():
        data = molecules_from(
            ["CC", "c1ccccc1"], y=[1.0, 2.0], features=model.features, task="regression", cache=False
        )
        net = model.network.from_data(data, **network_of(model, data))
        assert abs(count_parameters(net) / 260_000 - 1) < 0.01, name


def test_recipe_is_the_published_one() -> None:
    """The release: 1e-3, times 0.9 every 100,000 molecules, while above 5e-6; that takes 5.1 million."""
    rate, samples = 1e-3, 0
    while rate > 5e-6:
        rate, samples = rate * 0.9, samples + 100_000
    assert samples == SAMPLES
    recipe, whole = recipe_of(23_982, 1, CEPOptions(), published=True)
    assert (whole, recipe.epochs, recipe.seed) == (213, 213, 1)
    assert recipe.lr_decay_samples == 100_000
    steps = math.ceil(23_982 / recipe.batch_size)  # the last batch of each epoch has 2
    assert learning_rate_factor(recipe, 100_080 // 20, 23_982) == pytest.approx(0.9)
    squeezed, whole = recipe_of(23_982, 1, CEPOptions(epochs=20), published=True)
    assert (whole, squeezed.epochs) == (213, 20)
    for part in (0.25, 0.5, 0.99):
        rates = [
            options.lr * learning_rate_factor(options, int(part * options.epochs * steps), 23_982)
            for options in (recipe, squeezed)
        ]
        assert rates[0] == pytest.approx(rates[1], rel=0.12)
