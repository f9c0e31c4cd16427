from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

from tests.inputs.edited import edit
from tests.inputs.molecules import (
    assert_same_weights,
    classification_set,
    quick,
    regression_set,
    small_network,
)
from tests.wlkernelnn.training.runs import run
from wlkernelnn.datasets import molecules_from, random_split
from wlkernelnn.training import Columns, Ensemble, load_checkpoint, load_ensemble, predict, save_checkpoint
from wlkernelnn.training.molecules.prediction import describe


def test_ensemble_predicts_mean_and_deviation(folder: Path) -> None:
    data = regression_set()
    ensemble = load_ensemble(folder)
    each = [predict(load_checkpoint(folder / f"model_{i}")[0], data) for i in (0, 1)]
    assert not np.allclose(*each)
    mean, std = ensemble.predict(data, batch_size=7)
    np.testing.assert_allclose(mean, (each[0] + each[1]) / 2, rtol=1e-5)
    np.testing.assert_allclose(std, abs(each[0] - each[1]) / 2, atol=1e-5)
    assert ensemble.num_parameters == 2 * sum(p.numel() for p in ensemble.networks[0].parameters())
    one = load_ensemble(folder / "model_1")
    np.testing.assert_array_equal(one.predict(data)[0], each[1])
    assert not one.predict(data)[1].any()


def test_mixtures_and_quantiles(tmp_path: Path) -> None:
    data = regression_set()
    for loss, more in (("mve", {}), ("quantile", {"quantiles": [0.1, 0.5, 0.9]})):
        networks = [small_network(data, seed, loss=loss, **more) for seed in (0, 1)]
        ensemble = Ensemble(networks, {"features": "ogb", "target_names": ["Act"], "task": "regression"})
        each = np.stack([describe(net, data) for net in networks])
        mean, spread = ensemble.predict(data)
        point, variance = each[..., int(loss == "quantile")], each[..., 1] ** 2
        if loss == "quantile":
            variance = ((each[..., 2] - each[..., 0]) / (2 * norm.ppf(0.9))) ** 2
        np.testing.assert_allclose(mean, point.mean(0), rtol=1e-6)
        np.testing.assert_allclose(spread, np.sqrt(variance.mean(0) + point.var(0)), rtol=1e-4)
        np.testing.assert_array_equal(ensemble.mean_and_std(data)[1], spread)  # without recalibration
        ensemble.recalibrate(data)
        ensemble.save(tmp_path / loss)
        again = load_ensemble(tmp_path / loss)
        for one, other in zip(ensemble.forecast(data), again.forecast(data), strict=True):
            np.testing.assert_array_equal(one, other)
        save_checkpoint(tmp_path / loss / "model_2", small_network(data), ensemble.about)
        with pytest.raises(ValueError, match=r"model_2: the network has another loss"):
            load_ensemble(tmp_path / loss)
    below = (data.y.numpy()[..., None] <= again.forecast(data).quantiles).mean(0)[0]
    assert below[[0, 2]].tolist() == pytest.approx([0.1, 0.9], abs=0.02)


@pytest.mark.parametrize("loss", ["squared", "mve", "quantile"])
@pytest.mark.parametrize("unit", [1e-30, 1e30])
def test_spreads_in_units_whose_squares_float32_lacks(loss: str, unit: float) -> None:
    data, about = regression_set(), {"features": "ogb", "target_names": ["Act"], "task": "regression"}
    networks = [small_network(data, seed, loss=loss) for seed in (0, 1)]
    _, expected = Ensemble(networks, about).predict(data)
    for net in networks:
        net.target_mean, net.target_std = unit * net.target_mean, unit * net.target_std
    _, spread = Ensemble(networks, about).predict(data)
    assert spread.dtype == np.float32
    np.testing.assert_allclose(spread / unit, expected, rtol=1e-4)


def test_an_ensemble_that_is_not_whole_does_not_predict(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "run")
    shutil.rmtree(tmp_path / "run" / "model_1")
    with pytest.raises(FileNotFoundError, match="1 of 2 networks, so its training has not ended"):
        load_ensemble(tmp_path / "run")
    (tmp_path / "run" / "origin.json").write_text('{"data": 3}')
    with pytest.raises(ValueError, match=r"origin\.json: not as a run writes it \(KeyError: 'ens"):
        load_ensemble(tmp_path / "run")


def test_data_of_another_featurizer(folder: Path) -> None:
    other = molecules_from(regression_set().smiles[:3], features="duvenaud", cache=False)
    with pytest.raises(ValueError, match="trained on features 'ogb', the data have 'duvenaud'"):
        load_ensemble(folder).predict(other)


@pytest.mark.parametrize(
    ("about", "message"),
    [
        (
            {"features": "duvenaud", "target_names": ["Act"], "task": "regression"},
            "features is 'duvenaud', but",
        ),
        (
            {"features": "ogb", "target_names": ["logP"], "task": "regression"},
            r"target_names is \['logP'\], but",
        ),
        ({"features": "ogb", "target_names": ["Act"]}, r"config\.json: missing key about\.task"),
    ],
    ids=["features", "targets", "missing"],
)
def test_networks_that_do_not_belong_together(
    folder: Path, tmp_path: Path, about: dict[str, Any], message: str
) -> None:
    shutil.copytree(folder / "model_0", tmp_path / "model_0")
    save_checkpoint(tmp_path / "model_10", small_network(regression_set()), about)
    with pytest.raises(ValueError, match=f"model_10.*{message}"):
        load_ensemble(tmp_path)


def test_networks_are_in_the_order_of_their_numbers(folder: Path, tmp_path: Path) -> None:
    for i, source in ((2, 0), (10, 1)):
        shutil.copytree(folder / f"model_{source}", tmp_path / f"model_{i}")
    (tmp_path / "model_best").mkdir()
    ensemble = load_ensemble(tmp_path)
    assert_same_weights(ensemble.networks[1], load_checkpoint(folder / "model_1")[0])


def test_it_is_saved_where_no_run_is(folder: Path, tmp_path: Path) -> None:
    ensemble = load_ensemble(folder)
    ensemble.save(tmp_path / "run")
    assert len(load_ensemble(tmp_path / "run").networks) == 2
    ensemble.networks.pop()
    with pytest.raises(FileExistsError, match="run holds a run already"):
        ensemble.save(tmp_path / "run")


def test_folders_without_a_network(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="nowhere: expected a run folder with model_0"):
        load_ensemble(tmp_path / "nowhere")
    shutil.copytree(folder, tmp_path / "run")
    (tmp_path / "run" / "model_1" / "config.json").unlink()
    with pytest.raises(FileNotFoundError, match=r"model_1: no config\.json, so its training has not ended"):
        load_ensemble(tmp_path / "run")


def test_other_descriptors_are_refused(tmp_path: Path) -> None:
    few = regression_set()[:15]
    data = molecules_from(few.smiles, few.y.numpy(), features="ogb+rdkit", cache=False)
    run(tmp_path, data=data, split_idx=random_split(15, (0.6, 0.2, 0.2)), options=quick(epochs=1))
    load_ensemble(tmp_path)
    path = tmp_path / "model_0" / "config.json"
    config = json.loads(path.read_text())
    assert len(config["about"]["descriptors"]) == data.description.num_graph_values
    replaced, config["about"]["descriptors"][3] = config["about"]["descriptors"][3], "Bygone"
    edit(path, config)
    with pytest.raises(ValueError, match=f"without Bygone, with {replaced}, .* the RDKit of the training"):
        load_ensemble(tmp_path)
    del config["about"]["descriptors"]  # of before they were kept
    edit(path, config)
    load_ensemble(tmp_path)


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"features": "ecfp"}, r"config\.json: about\.features: unknown features 'ecfp'"),
        ({"target_names": []}, r"config\.json: about\.target_names: expected 1 names, got \[\]"),
    ],
    ids=str,
)
def test_what_a_damaged_network_says_of_its_data(
    entries: dict[str, Any], message: str, folder: Path, tmp_path: Path
) -> None:
    shutil.copytree(folder / "model_0", tmp_path / "model")
    path = tmp_path / "model" / "config.json"
    config = json.loads(path.read_text())
    config["about"] |= entries
    edit(path, config)
    with pytest.raises(ValueError, match=message):
        load_ensemble(tmp_path / "model")


def test_a_number_of_networks_that_is_none(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "run")
    origin = json.loads((folder / "origin.json").read_text())
    (tmp_path / "run" / "origin.json").write_text(json.dumps(origin | {"ensemble_size": "2"}))
    with pytest.raises(ValueError, match=r"origin\.json: .*ensemble_size must be an integer"):
        load_ensemble(tmp_path / "run")


def of_classes(size: int) -> Ensemble:
    data = classification_set()
    networks = [small_network(data, seed=seed).eval() for seed in range(size)]
    return Ensemble(networks, {"features": "ogb", "target_names": ["active", "aza"]})


@pytest.mark.parametrize(
    ("size", "names"), [(1, ["active", "aza"]), (3, ["active", "active_std", "aza", "aza_std"])]
)
def test_columns_of_predictions(size: int, names: list[str]) -> None:
    data, several = classification_set(), of_classes(size)
    assert Columns().names(several) == names
    mean, std = several.predict(data)
    values = dict(zip(names, Columns().values(several, data, 7).T, strict=True))
    for task, name in enumerate(("active", "aza")):
        np.testing.assert_allclose(values[name], mean[:, task], rtol=1e-5)
        if size > 1:
            np.testing.assert_allclose(values[f"{name}_std"], std[:, task], rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("size", [1, 2])
def test_columns_of_fingerprints(size: int) -> None:
    data, several = classification_set(), of_classes(size)
    columns = Columns("fingerprint")
    names = columns.names(several)
    assert names[:2] == (["fp_0", "fp_1"] if size == 1 else ["fp_0_0", "fp_0_1"])
    assert len(set(names)) == 8 * size
    assert columns.values(several, data, 7).shape == (len(data), 8 * size)
