from __future__ import annotations

from wlkernelnn.bench.harness.cells import (
    cell,
    epochs,
    epochs_of,
    number,
    of_networks,
    of_recipe,
    out_of,
    scored,
    seconds_per_epoch,
    seeds,
    spread,
    survivors,
)


def test_means_have_deviations_of_several() -> None:
    assert spread([1.25]) == "1.2"
    assert spread([1.0, 2.0, 3.0]) == "2.0 ± 1.0"
    assert spread([None, 1.0]) == "nan ± nan"  # as files have NaN
    assert scored("score", 100, 2)([{"score": 0.01}, {"score": 0.03}]) == "2.00 ± 1.41"


def test_what_diverged_is_told() -> None:
    fine = {"seconds": 6.0, "epochs": 3, "score": 1.0}
    lost = [{"epochs": 2, "diverged": 2}, {"epochs": 0, "diverged": 0}]
    assert survivors([fine, *lost]) == [fine]
    assert cell([1.0, 3.0], [fine, fine]) == "2.0 ± 1.4"
    assert scored("score")([fine, *lost]) == "1.0 (2 of 3 runs diverged)"
    assert scored("score")(lost) == "diverged at epoch 1, 3"
    assert (epochs_of([fine, *lost]), epochs_of(lost)) == (3, 0)
    assert seconds_per_epoch([fine, *lost]) == "2"
    assert seconds_per_epoch([fine], 1) == "2.0"
    assert seconds_per_epoch(lost) == "–"


def test_seeds_and_epochs_of_a_row() -> None:
    assert [out_of(count, 5) for count in (3, 5, 7)] == ["3 of 5", "5", "7"]
    assert seeds(2)([{}]) == "1 of 2"
    trained = [{"epochs": 3, "recipe_epochs": 1000}, {"epochs": 4, "recipe_epochs": 1000}]
    assert epochs("recipe_epochs")(trained) == "3 of 1,000"
    assert of_networks(epochs("recipe_epochs"))([{"epochs": 0, "recipe_epochs": 0}]) == "–"
    assert number("recipe_epochs")(trained) == "1,000"
    record = {"recipe": {"epochs": 5}, "published_epochs": 100}
    assert of_recipe(record) == "5, shortened from 100"
    assert of_recipe(record | {"published_epochs": 5}) == "5"
