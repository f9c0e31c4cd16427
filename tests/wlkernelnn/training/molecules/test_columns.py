from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.stats import norm

from tests.inputs.edited import edit
from tests.inputs.molecules import regression_set
from wlkernelnn.datasets import molecules_from
from wlkernelnn.machines import MoleculeMachine, save_machine
from wlkernelnn.machines.parts import FEATURES
from wlkernelnn.machines.saved import CONFIG
from wlkernelnn.training import Columns, load_run, mean_and_std
from wlkernelnn.training.molecules.columns import digests
from wlkernelnn.utils.files import read_json, write_text


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> MoleculeMachine:
    some = regression_set()[:30]
    y = np.stack([some.y[:, 0].numpy(), -some.y[:, 0].numpy()], axis=1)
    names = ["Act", "minus"]
    data = molecules_from(some.smiles, y, target_columns=names, features=FEATURES, cache=False)
    return MoleculeMachine().fit(data)


def test_columns_of_a_machine(machine: MoleculeMachine) -> None:
    data = machine.process_.X_train_[:4]
    mean, std = machine.predict(data, return_std=True)
    for one, other in zip(mean_and_std(machine, data), (mean, std), strict=True):
        np.testing.assert_array_equal(one, other)
    half = norm.ppf(0.9) * std
    columns = Columns(std=True, interval=0.8, nearest=True)
    ends = ("", "_std", "_low", "_high")
    names = [f"{name}{end}" for name in ("Act", "minus") for end in ends]
    assert columns.names(machine) == [*names, "nearest_similarity"]
    values = columns.values(machine, data)
    assert values.dtype == np.float32
    np.testing.assert_allclose(values[:, [0, 4]], mean, rtol=1e-5)
    np.testing.assert_allclose(values[:, [1, 5]], std, rtol=1e-5)
    np.testing.assert_allclose(values[:, [2, 6]], mean - half, rtol=1e-5)
    np.testing.assert_allclose(values[:, [3, 7]], mean + half, rtol=1e-5)
    np.testing.assert_allclose(values[:, 8], 1)
    assert Columns().names(machine) == ["Act", "minus"]
    assert Columns(nearest=True).values(machine, data[:0]).shape == (0, 3)


def test_digests_tell_machines_apart(machine: MoleculeMachine) -> None:
    (one,) = digests(machine)
    target = machine.process_.targets_[0]
    target.posterior.alpha[0] += 1
    assert digests(machine) != [one]
    target.posterior.alpha[0] -= 1


def test_another_rdkit(machine: MoleculeMachine, tmp_path: Path) -> None:
    save_machine(tmp_path, machine)
    assert isinstance(load_run(tmp_path), MoleculeMachine)
    config = (tmp_path / CONFIG).read_text()
    name = read_json(tmp_path / CONFIG)["about"]["descriptors"][0]
    write_text(tmp_path / CONFIG, config.replace(f'"{name}"', '"Another"'))
    with pytest.raises(ValueError, match="not what was written there"):
        load_run(tmp_path)
    edit(tmp_path / CONFIG, {})
    with pytest.raises(ValueError, match=r"without Another, with .*: predict with the RDKit of the training"):
        load_run(tmp_path)
    about = read_json(tmp_path / CONFIG)["about"]["rdkit"]
    others = config.replace(f'"{about["version"]}"', '"2020.1"').replace(f'"{about["codes"]}"', '"0"')
    write_text(tmp_path / CONFIG, others)
    edit(tmp_path / CONFIG, {})
    with pytest.raises(ValueError, match=r"trained with RDKit 2020\.1, and RDKit .* gives other features"):
        load_run(tmp_path)


@pytest.mark.parametrize("interval", [0, 1, -0.1, 90.0])
def test_no_such_interval(interval: float) -> None:
    with pytest.raises(ValueError, match="interval must be above 0 and below 1"):
        Columns(interval=interval)


def test_strangers_are_named(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without descriptors they are predicted as the mean, with the deviation of the prior."""
    smiles = [f"{'C' * n}{end}" for n in range(6, 14) for end in ("O", "N", "=O", "(=O)O")]
    values = np.arange(32.0)
    machine = MoleculeMachine(random_state=0)
    monkeypatch.setattr(
        MoleculeMachine, "_error", lambda _, process, *given: len(process.targets_[0].kernels) % 8
    )
    machine.fit(molecules_from(smiles, values, features=FEATURES, cache=False))
    assert machine.choice_ == "kernels"
    data = molecules_from(["CCCCCCO", "FF", "ClCl"], features=FEATURES, cache=False)
    found = Columns(std=True, nearest=True).values(machine, data)
    assert found[0, 2] == 1
    assert found[1:, 2].tolist() == [0, 0]
    (target,) = machine.process_.targets_
    np.testing.assert_allclose(found[1:, 0], values.mean(), rtol=1e-6)
    prior = values.std() * np.sqrt(target.amplitudes.sum() + target.noise)
    np.testing.assert_allclose(found[1:, 1], prior, rtol=1e-6)
    said = "2 of 3 molecules share no substructure with training molecules (similarity 0), first data row 2. "
    assert f"{said}There the kernel machine predicts the mean of the training targets, with" in caplog.text
