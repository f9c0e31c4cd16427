from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from tests.inputs.graphs import random_packed
from tests.inputs.molecules import regression_set
from wlkernelnn.datasets import (
    PackedGraphs,
    column_split,
    load_molecules,
    molecule_ids,
    molecules_from,
    random_split,
    scaffold_split,
    scaffolds,
    shared_molecules,
    split,
)
from wlkernelnn.datasets.splits.identity import replicate_groups
from wlkernelnn.datasets.splits.parts import PARTS


def assert_partition(parts: dict[str, np.ndarray], n: int) -> None:
    assert list(parts) == list(PARTS)
    assert all(part.dtype == np.int64 for part in parts.values())
    assert np.array_equal(np.sort(np.concatenate(list(parts.values()))), np.arange(n))


@pytest.mark.parametrize("n", [11, 29978])
def test_random_split_is_a_partition_of_the_right_sizes(n: int) -> None:
    parts = random_split(n)
    assert_partition(parts, n)
    for part, size in zip(parts.values(), (0.8, 0.1, 0.1), strict=True):
        assert abs(len(part) - size * n) <= 1


def test_random_split_depends_on_the_seed_only() -> None:
    a, b, c = (random_split(100, seed=seed)["train"] for seed in (3, 3, 4))
    assert np.array_equal(a, b)
    assert not np.array_equal(a, c)
    assert not np.array_equal(a, np.arange(80))


def test_groups_stay_together_in_parts_of_their_sizes() -> None:
    groups = np.random.default_rng(0).integers(0, 60, 200)
    parts = random_split(200, seed=1, groups=groups)
    assert_partition(parts, 200)
    assert sum(len(set(groups[part])) for part in parts.values()) == len(set(groups))
    assert [len(part) for part in parts.values()] == [160, 20, 20]
    # A group that fits nowhere goes where most room is; groups of one change nothing.
    assert random_split(4, (0.5, 0.5, 0.0), groups=np.array([7, 7, 7, 8]))["valid"].tolist() == [3]
    for seed in range(3):
        alone, plain = random_split(50, seed=seed, groups=np.arange(50)), random_split(50, seed=seed)
        assert all(np.array_equal(alone[part], plain[part]) for part in PARTS)
    with pytest.raises(ValueError, match=r"groups: expected \[10\], got \(9,\)"):
        random_split(10, groups=np.zeros(9))
    with pytest.raises(ValueError, match="the valid part of the split is empty"):
        random_split(10, groups=np.zeros(10))


def test_molecules_are_known_however_they_are_written() -> None:
    same = molecule_ids(["OCC", "CCO", "[H]OC([H])([H])C", "C(O)C"])
    assert same.dtype == np.uint64
    assert len(set(same.tolist())) == 1
    others = ["CC", "CC.Cl", "C[C@H](N)O", "C[C@@H](N)O", "CC(N)O", "not a molecule", "nor this", ""]
    assert len({*same.tolist(), *molecule_ids(others).tolist()}) == 1 + len(others)


def test_replicates_stay_in_one_part(caplog: pytest.LogCaptureFixture) -> None:
    smiles = [text for n in range(1, 31) for text in (f"{'C' * n}O", f"O{'C' * n}")]
    data = molecules_from(smiles, cache=False)
    with caplog.at_level("INFO"):
        parts = split(data, "random", seed=4)
    assert_partition(parts, 60)
    assert [len(part) for part in parts.values()] == [48, 6, 6]
    assert shared_molecules(smiles, parts) == ""
    assert "30 molecules stand in more than one row (60 rows); the rows of each stay" in caplog.text
    by_row = random_split(60, seed=4)
    said = "4 molecules of the test part (4 of 6 rows) are in the train part too"
    assert said in shared_molecules(smiles, by_row)
    assert shared_molecules([], by_row) == ""


def test_a_part_may_be_left_out_on_purpose_only() -> None:
    assert len(random_split(10, (0.9, 0.1, 0.0))["test"]) == 0
    with pytest.raises(ValueError, match="the valid part of the split is empty: 2 items"):
        random_split(2)


@pytest.mark.parametrize("sizes", [(0.8, 0.1, 0.2), (0.8, 0.2), (1.2, -0.1, -0.1)])
def test_sizes_are_fractions_that_sum_to_one(sizes: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match="three fractions"):
        random_split(10, sizes)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="three fractions"):
        scaffold_split(["C"] * 10, sizes)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["ogbg_molesol", "ogbg_molfreesolv", "ogbg_molbbbp"])
def test_scaffold_split_equals_the_published_one(data_root: Path, name: str) -> None:
    folder = data_root / "ogb" / name
    smiles = pd.read_csv(folder / "mapping" / "mol.csv.gz")["smiles"].tolist()
    parts = scaffold_split(smiles)
    assert_partition(parts, len(smiles))
    for part, positions in parts.items():
        published = pd.read_csv(folder / "split" / "scaffold" / f"{part}.csv.gz", header=None)[0]
        assert set(positions) == set(published)


def test_scaffolds() -> None:
    smiles = ["CCO", "Cc1ccccc1", "c1ccccc1CC", "not a molecule", "C[C@H]1CCOC1", "C1CCCC1.CC"]
    assert scaffolds(smiles) == ["", "c1ccccc1", "c1ccccc1", "", "C1CCOC1", "C1CCCC1"]
    bridged = scaffolds(["C1C[C@H]2C[C@@H]1C=C2"])
    assert "@" in bridged[0]
    decalins = ["C1CC[C@H]2CCCC[C@@H]2C1", "C1CC[C@H]2CCCC[C@H]2C1"]
    assert len(set(scaffolds(decalins))) == 2
    assert set(scaffolds(decalins, chirality=False)) == {"C1CCC2CCCCC2C1"}


def test_stereoisomers_stay_together_without_chirality() -> None:
    decalins = ["C1CC[C@H]2CCCC[C@@H]2C1", "C1CC[C@H]2CCCC[C@H]2C1"]
    data = molecules_from([*["C" * n for n in range(1, 17)], "CC1CC1", *decalins, "CC1CCC1"], cache=False)
    flat, parted = split(data, "flat_scaffold"), split(data, "scaffold")
    assert_partition(flat, len(data))
    assert sum(bool({17, 18} & set(part)) for part in flat.values()) == 1
    assert sum(bool({17, 18} & set(part)) for part in parted.values()) == 2


def test_scaffold_groups_stay_together_and_fill_the_parts_by_size() -> None:
    rings = [f"C1{'C' * size}1" for size in range(2, 8)]  # six scaffolds
    smiles = [*rings * 2, "C1CC1C", "C1CC1CC", *["CC"] * 6]
    parts = scaffold_split(smiles, (0.6, 0.2, 0.2))
    assert_partition(parts, len(smiles))
    groups = [{scaffolds(smiles)[i] for i in part} for part in parts.values()]
    # The largest groups (acyclic, cyclopropane) come first; of the others those that begin last.
    assert groups == [{"", "C1CC1", "C1CCCCCCC1"}, {"C1CCCCCC1", "C1CCCCC1"}, {"C1CCCC1", "C1CCC1"}]


def test_a_scaffold_that_holds_everything_cannot_be_split() -> None:
    message = r"the train part .* empty: 20 items .* of scaffold c1ccccc1, holds 20 of 20 \(100%\)"
    with pytest.raises(ValueError, match=message):
        scaffold_split(["Cc1ccccc1"] * 20)


def test_a_group_too_large_for_its_part_is_told(caplog: pytest.LogCaptureFixture) -> None:
    smiles = [*["C" * n for n in range(1, 52)], *["C1CCCCC1", "C1CCCC1", "C1CCC1"] * 3]
    scaffold_split(smiles, (0.1, 0.9, 0.0))
    assert not caplog.messages
    with pytest.raises(ValueError, match=r"test part .*; the largest group, of acyclic molecules, holds 51"):
        scaffold_split(smiles)
    scaffold_split(smiles, (0.8, 0.2, 0.0))
    (message,) = caplog.messages
    assert message.startswith(
        "scaffold split: 9 / 51 / 0 molecules in train / valid / test, 48 / 12 / 0 were"
    )
    assert message.endswith("group, of acyclic molecules, holds 51 of 60 (85%), and groups are not split")


def test_column_split() -> None:
    parts = column_split(["train", " TEST", "val", "Valid", "validation", "train"])
    assert {name: part.tolist() for name, part in parts.items()} == {
        "train": [0, 5],
        "valid": [2, 3, 4],
        "test": [1],
    }
    assert [len(part) for part in column_split([]).values()] == [0, 0, 0]
    with pytest.raises(ValueError, match=r"data row 2: expected a split label .* got 'tset' \(2 such rows\)"):
        column_split(["train", "tset", None])


def test_split_of_a_store_or_a_view() -> None:
    data = load_molecules(regression_set().smiles, split="scaffold", cache=False)
    for positions, wanted in zip(split(data, "scaffold").values(), data.split_idx.values(), strict=True):
        assert np.array_equal(positions, wanted)
    view = data[10:50]
    assert_partition(split(view, "scaffold"), 40)
    assert np.array_equal(split(view, "random", seed=5)["test"], random_split(40, seed=5)["test"])
    with pytest.raises(ValueError, match=r"split must be one of random, .*, butina, time, got 'date'"):
        split(data, "date")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="a time split needs times: time_split"):
        split(data, "time")


def test_graphs_without_smiles_have_no_scaffolds() -> None:
    arrays = molecules_from(["CCO"] * 20, cache=False).arrays
    bare = replace(arrays, smiles=arrays.smiles[:0], smiles_ptr=torch.zeros(0, dtype=torch.int64))
    with pytest.raises(ValueError, match="needs SMILES"):
        split(PackedGraphs(bare), "scaffold")


def test_sizes_are_rounded_to_the_nearest() -> None:
    assert [len(part) for part in random_split(15).values()] == [12, 2, 1]
    assert [len(part) for part in random_split(10, (0.7, 0.2, 0.1)).values()] == [7, 2, 1]


def test_replicate_groups_are_first_rows_of_molecules() -> None:
    data = load_molecules(["OCC", "CC", "CCO", "C[C@H](N)O", "C[C@@H](N)O", "C(C)O"], cache=False)
    groups = replicate_groups(data)
    assert groups is not None
    assert groups.tolist() == [0, 1, 0, 3, 4, 0]
    assert replicate_groups(data[:2]) is None
    assert replicate_groups(data[:0]) is None
    assert replicate_groups(random_packed(3)) is None
