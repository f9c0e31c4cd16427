"""That every recipe, and all that is tried beside it, makes a network, none too large."""

from __future__ import annotations

from typing import Any

from wlkernelnn.bench.harness.parameters import count_parameters
from wlkernelnn.bench.molecules import ogb_recipes
from wlkernelnn.datasets import OGB_SETS, get_features


def test_recipes() -> None:
    # Some sets have their recipes in common.
    of_set = {id(recipes): name for name, recipes in ogb_recipes.RECIPES.items()}
    rows = [(name, recipe) for name in of_set.values() for recipe in ogb_recipes.RECIPES[name].values()]
    made: list[Any] = []
    for set_name, recipe in rows:
        for changed, values in recipe.grid.items():
            assert recipe.value(changed) in values
            assert len(set(values)) == len(values)
        about = get_features(recipe.features)
        sizes = {name: getattr(about, name) for name in ("node_dims", "num_edge_types", "num_node_values")}
        for _, _, tried in recipe.variations():
            arguments = (tried.network, sizes, tried.arguments)
            if arguments not in made:
                made.append(arguments)
                tried.network(**sizes, **tried.arguments)
        net = recipe.network(**sizes, num_tasks=OGB_SETS[set_name].num_tasks, **recipe.arguments)
        if OGB_SETS[set_name].num_tasks == 1:
            assert recipe.members * count_parameters(net) < 150_000
