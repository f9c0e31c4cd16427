from __future__ import annotations

from pathlib import Path

import numpy as np

from tests.inputs.molecules import some_measured
from wlkernelnn.bench.baselines.kernel_machines import fit_process, kernel_machine
from wlkernelnn.bench.harness.molecule_runs import Split
from wlkernelnn.datasets import featurize, random_split
from wlkernelnn.machines.parts import FEATURES
from wlkernelnn.training import score


def test_the_machine_is_fitted_to_the_training_part_alone() -> None:
    plain = some_measured()[::3]
    graphs, _ = featurize(plain.smiles, features=FEATURES)
    data = graphs.with_targets(plain.y, **plain.description.of_set())
    index = random_split(len(data), seed=0)
    fitted = fit_process(Split(data, "random", index), Path())
    assert {*fitted.predictions} == {"valid", "test"}
    y = data.y.numpy()
    error = score("rmse", y[index["test"]], fitted.predictions["test"])
    assert error < y[index["test"]].std()
    assert fitted.more["choice"] in fitted.more["leave_one_out"]
    assert fitted.parameters > len(index["train"])

    other = y.copy()
    other[index["valid"]] += 100
    other[index["test"]] -= 100
    again = fit_process(Split(data.with_targets(other), "random", index), Path())
    np.testing.assert_array_equal(again.predictions["test"], fitted.predictions["test"])

    linear = fit_process(Split(plain, "random", index), Path(), "linear")
    assert linear.more["choice"] in linear.more["leave_one_out"]
    assert score("rmse", y[index["test"]], linear.predictions["test"]) < y[index["test"]].std()

    result = kernel_machine(plain[index["train"]], plain[index["test"]])
    np.testing.assert_allclose(result.prediction, fitted.predictions["test"], rtol=1e-6)
    assert result.parameters == fitted.parameters
    assert result.seconds > 0
