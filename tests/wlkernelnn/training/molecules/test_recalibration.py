from __future__ import annotations

import logging
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import brute
from scipy.stats import norm

from tests.inputs.edited import edit
from tests.inputs.molecules import SMALL, quick, regression_set
from tests.wlkernelnn.training.runs import SPLIT, run
from wlkernelnn.datasets import molecules_from, random_split
from wlkernelnn.training import Columns, load_ensemble, load_run, mean_and_std
from wlkernelnn.training.folder import REPORT
from wlkernelnn.training.molecules.columns import digests
from wlkernelnn.training.molecules.recalibration import FILE, NOTE, Recalibration, conformal_shift, shifted


def drawn(count: int, factor: float, rest: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Targets, means and spreads, whose errors have the deviations of a and b."""
    random = np.random.default_rng(0)
    mean, spread = random.normal(size=(count, 1)), random.gamma(2.0, 0.5, size=(count, 1))
    std = np.sqrt((factor * spread) ** 2 + rest**2)
    return mean + std * random.normal(size=(count, 1)), mean, spread


@pytest.mark.parametrize(("factor", "rest"), [(2.0, 0.5), (0.0, 1.5), (3.0, 0.1)])
def test_it_finds_the_parameters(factor: float, rest: float) -> None:
    found = Recalibration.fit(*drawn(20_000, factor, rest), networks=5)
    assert found is not None
    assert found.factor == pytest.approx([factor], rel=0.05, abs=0.15)
    assert found.rest == pytest.approx([rest], rel=0.05, abs=0.02)
    assert found.counts.tolist() == [20_000]


def test_it_is_the_maximum_of_the_likelihood() -> None:
    target, mean, spread = drawn(40, 1.0, 0.4)

    def loss(both: np.ndarray) -> float:
        std = np.sqrt((both[0] * spread) ** 2 + both[1] ** 2)
        return float(-norm.logpdf(target, mean, std).mean())

    found = Recalibration.fit(target, mean, spread, 5)
    assert found is not None
    grid = brute(loss, ((0, 4), (0.05, 3)), Ns=40)
    assert loss(np.array([found.factor[0], found.rest[0]])) <= loss(grid) + 1e-6


def test_quantiles_keep_their_promise() -> None:
    """Quantiles that are far too narrow hold, on average over draws, their shares of new values."""
    random, levels = np.random.default_rng(0), (0.05, 0.2, 0.5, 0.9)
    predicted = np.broadcast_to(np.array([-0.1, 0.0, 0.1, 0.2]), (1, 1, 4))
    below = np.zeros(4)
    for _ in range(400):
        y = random.normal(size=(39, 1))
        y[0] = np.nan
        shift = conformal_shift(y, np.broadcast_to(predicted, (39, 1, 4)), levels)
        below += norm.cdf(shifted(predicted, shift, levels)[0, 0]) / 400
    # (n + 1) τ of 38 values is rounded away from the median.
    expected = [np.floor(39 * 0.05) / 39, np.floor(39 * 0.2) / 39, norm.cdf(0.1), np.ceil(39 * 0.9) / 39]
    assert below.tolist() == pytest.approx(expected, abs=0.01)


def test_quantiles_stay_in_order() -> None:
    """Shifts beyond the median stop there; of few values the outermost error counts."""
    quantiles, levels = np.array([[[0.0, 1.0, 2.0]]]), (0.05, 0.5, 0.95)
    shift = conformal_shift([[5.0], [6.0]], np.repeat(quantiles, 2, axis=0), levels)
    assert shift.tolist() == [[5.0, 0.0, 4.0]]
    assert shifted(quantiles, shift, levels).tolist() == [[[1.0, 1.0, 6.0]]]


def test_networks_that_agree() -> None:
    """One network, or targets that are all predicted exactly."""
    target, mean, spread = drawn(12, 0.0, 2.0)
    alone = Recalibration.fit(target, mean, 0 * spread, 1)
    assert alone is not None
    assert (alone.factor[0], alone.rest[0]) == (0, pytest.approx(np.sqrt(np.mean((target - mean) ** 2))))
    exact = Recalibration.fit(mean, mean, spread, 5)
    assert exact is not None
    assert exact.std(spread).tolist() == np.zeros((12, 1)).tolist()


def test_targets_with_too_few_values(tmp_path: Path) -> None:
    target, mean, spread = (np.tile(values, (1, 2)) for values in drawn(12, 1.0, 0.5))
    target[:3, 1] = np.nan
    found = Recalibration.fit(target, mean, spread, 5)
    assert found is not None
    assert found.counts.tolist() == [12, 9]
    assert np.isnan(found.std(spread)).any(axis=0).tolist() == [False, True]
    found.save(tmp_path)
    again = Recalibration.load(tmp_path, 5, 2)
    assert again is not None
    np.testing.assert_array_equal(again.std(spread), found.std(spread))
    assert found.without(["a", "b"]) == "no deviations of b (9): at least 10 validation values are needed"
    assert not Recalibration(found.factor, found.rest, np.array([12, 10]), 5).without(["a", "b"])
    assert Recalibration.fit(target[:9], mean[:9], spread[:9], 5) is None
    levels = (0.1, 0.5, 0.9)
    quantiles = mean[..., None] + np.array([-1.0, 0.0, 1.0])
    learned = Recalibration.fit(target, mean, spread, 5, quantiles, levels, distributions=True)
    assert learned is not None
    np.testing.assert_array_equal(learned.std(spread)[:, 1], spread[:, 1])
    np.testing.assert_array_equal(learned.factor[0], found.factor[0])
    assert learned.shift is not None
    np.testing.assert_array_equal(learned.shift[0], conformal_shift(target, quantiles, levels)[0])
    assert learned.shift[0].any()
    assert not learned.shift[1].any()
    said = "deviations and quantiles as the networks learned them of b (9): at least 10"
    assert learned.without(["a", "b"]).startswith(said)


def test_a_run_keeps_it(folder: Path) -> None:
    data, ensemble = regression_set(), load_ensemble(folder)
    valid = data[SPLIT["valid"]]
    found = ensemble.recalibration
    assert found is not None
    expected = Recalibration.fit(valid.y.numpy(), *ensemble.predict(valid), 2)
    assert expected is not None
    np.testing.assert_allclose(found.factor, expected.factor, rtol=1e-4)
    mean, spread = ensemble.predict(data)
    np.testing.assert_allclose(mean_and_std(ensemble, data)[1], found.std(spread), rtol=1e-6)
    columns = Columns(std=True, interval=0.9)
    assert columns.names(ensemble) == ["Act", "Act_std", "Act_low", "Act_high"]
    values = columns.values(ensemble, data)
    half = norm.ppf(0.95) * found.std(spread)[:, 0]
    np.testing.assert_allclose(values[:, 2:], np.stack([mean[:, 0] - half, mean[:, 0] + half], 1), rtol=1e-5)


def test_one_network_has_deviations_and_a_resumed_run_new_ones(tmp_path: Path) -> None:
    alone, _ = run(tmp_path)
    assert alone.recalibration is not None
    assert alone.recalibration.factor.tolist() == [0]
    assert Columns(std=True).names(alone) == ["Act", "Act_std"]
    two, _ = run(tmp_path, ensemble_size=2, resume=True)
    assert two.recalibration is not None
    assert two.recalibration.networks == 2
    assert digests(load_run(tmp_path)) == digests(two)
    assert digests(two)[0] == digests(alone)[0]
    assert len(digests(two)) == 3


def test_a_target_without_it_is_told(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    ensemble = load_ensemble(folder)
    assert ensemble.recalibration is not None
    Columns(std=True).names(ensemble)
    assert not caplog.text
    ensemble.recalibration = replace(ensemble.recalibration, factor=np.array([np.nan]), counts=np.array([9]))
    Columns(std=True).names(ensemble)
    assert "no deviations of Act (9): at least 10 validation values are needed" in caplog.text


def test_runs_without_it(folder: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Of earlier versions, or with few validation molecules."""
    shutil.copytree(folder, tmp_path / "old")
    (tmp_path / "old" / FILE).unlink()
    with pytest.raises(
        FileNotFoundError, match=rf"{FILE}: no such file; metrics\.json says that there was one"
    ):
        load_run(tmp_path / "old")
    edit(tmp_path / "old" / REPORT, {NOTE: False})
    old = load_run(tmp_path / "old")
    assert Columns().names(old) == ["Act", "Act_std"]
    assert Columns(std=True).names(old) == ["Act", "Act_std"]
    assert "std is that over the networks, which is too small" in caplog.text
    with pytest.raises(ValueError, match=f"^interval: networks have deviations .* where {FILE} lies"):
        Columns(interval=0.9).names(old)
    for path in (folder / "model_0", tmp_path / "old" / "model_1"):
        with pytest.raises(ValueError, match=r"^std: networks have deviations"):
            Columns(std=True).names(load_run(path))
    with caplog.at_level(logging.INFO):
        few, _ = run(tmp_path / "few", split_idx=random_split(60, (0.8, 0.1, 0.1)), options=quick(epochs=1))
    assert few.recalibration is None
    assert "no deviations of new measurements: 6 validation molecules, and at least 10" in caplog.text
    assert not (tmp_path / "few" / FILE).exists()


@pytest.mark.parametrize("loss", ["mve", "quantile"])
def test_networks_that_learn_deviations_have_them_without_it(
    loss: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    split = random_split(60, (0.8, 0.1, 0.1))
    with caplog.at_level(logging.INFO):
        learned, _ = run(tmp_path, split_idx=split, options=quick(epochs=1), network={**SMALL, "loss": loss})
    assert learned.recalibration is None
    assert "have the deviations that networks learn of new measurements: 6 validation" in caplog.text
    caplog.clear()
    assert Columns(interval=0.9).names(learned)[-1] == ("Act_high" if loss == "mve" else "Act_q0.95")
    assert "are as the networks learned them" in caplog.text
    data = regression_set()
    np.testing.assert_array_equal(mean_and_std(learned, data)[1], learned.predict(data)[1])


def test_a_target_with_few_values_beside_another(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Its quantiles are as the network learned them."""
    some = regression_set()
    y = np.repeat(some.y.numpy(), 2, axis=1)
    y[SPLIT["valid"][2:], 1] = np.nan
    data = molecules_from(some.smiles, y, target_columns=["first", "second"], cache=False)
    learned, _ = run(tmp_path, data=data, network={**SMALL, "loss": "quantile"})
    assert "as the networks learned them of second (2)" in caplog.text
    moved = learned.forecast(data).quantiles
    raw = replace(learned, recalibration=None).forecast(data).quantiles
    assert moved is not None
    assert raw is not None
    np.testing.assert_array_equal(moved[:, 1], raw[:, 1])
    assert (moved[:, 0] != raw[:, 0]).any()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": "0"}, "expected format"),
        ({"networks": 3}, "is of 3 networks, and there are 2"),
        ({"factor": [1, 2]}, "expected numbers of 1 targets"),
        ({"rest": "one"}, "ValueError"),
        ({"counts": None}, "expected numbers"),
    ],
)
def test_damaged_files(folder: Path, tmp_path: Path, change: dict[str, object], message: str) -> None:
    shutil.copytree(folder, tmp_path / "run")
    edit(tmp_path / "run" / FILE, change)
    with pytest.raises(ValueError, match=rf"recalibration\.json: not as a run writes it .*{message}"):
        load_ensemble(tmp_path / "run")
