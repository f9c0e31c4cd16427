"""That every recipe, and all that is tried beside it, makes a network, none too large."""

from __future__ import annotations

import pytest

from wlkernelnn.bench.harness.parameters import count_parameters
from wlkernelnn.bench.molecules import ogb_recipes
from wlkernelnn.datasets import OGB_SETS, get_features


@pytest.mark.parametrize("name", OGB_SETS)
def test_recipes(name: str) -> None:
    for recipe in ogb_recipes.RECIPES[name].values():
        for changed, values in recipe.grid.items():
            assert recipe.value(changed) in values
            assert len(set(values)) == len(values)
        about = get_features(recipe.features)
        sizes = {name: getattr(about, name) for name in ("node_dims", "num_edge_types", "num_node_values")}
        for _, _, tried in recipe.variations():
            tried.network(**sizes, **tried.arguments)
        net = recipe.network(**sizes, num_tasks=OGB_SETS[name].num_tasks, **recipe.arguments)
        if OGB_SETS[name].num_tasks == 1:
            assert recipe.members * count_parameters(net) < 150_000
