"""The tables of moleculenet, zinc, organic_ri and ablation name what is there."""

from __future__ import annotations

from functools import cache

from tests.inputs.molecules import regression_set
from wlkernelnn.bench.harness.parameters import count_parameters
from wlkernelnn.bench.molecules import ablation, moleculenet, organic_ri, zinc
from wlkernelnn.datasets import MOLECULE_SETS, PackedGraphs, molecules_from

MODULES = (ablation, moleculenet, organic_ri, zinc)
TASKS = [(key, task) for module in MODULES for key, task in module.TASKS.items()]


def test_rows_are_networks_of_features_that_exist() -> None:
    molecules, seen = regression_set(), []

    @cache
    def few(features: str) -> PackedGraphs:
        return molecules_from(molecules.smiles[:3], molecules.y.numpy()[:3], features=features, cache=False)

    for key, task in TASKS:
        assert key in MOLECULE_SETS or task.load is not None
        for model in task.models.values():
            if model in seen:
                continue
            seen.append(model)
            size = count_parameters(model.network.from_data(few(model.features), **model.arguments))
            assert 0 < size <= (500_000 if key == "zinc" else 10**9), model.title


def test_rows_of_the_ablation_are_a_single_change() -> None:
    first, *others = ablation.MODELS.values()
    for model in others:
        changed = [name for name, value in model.arguments.items() if value != first.arguments.get(name)]
        changed += [name for name in ("features", "members") if getattr(model, name) != getattr(first, name)]
        assert len(changed) == 1, model.title


def test_no_row_of_zinc_is_told_its_logp() -> None:
    """Its target is a sum with logP, of which RDKit's descriptors have one."""
    rows = [model for key, task in TASKS if key == "zinc" for model in task.models.values()]
    assert len(rows) > 10
    assert not [model.title for model in rows if "rdkit" in model.features]


def test_zinc_has_the_published_split(data_root: str) -> None:
    data = zinc.load_zinc(data_root, features="ogb")
    assert data.split_idx is not None
    assert {part: len(index) for part, index in data.split_idx.items()} == {
        "train": 10_000,
        "valid": 1_000,
        "test": 1_000,
    }
    assert data.metric == "mae"
