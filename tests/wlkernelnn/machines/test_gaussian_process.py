from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.ensemble import BaggingRegressor
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Kernel, WhiteKernel
from sklearn.metrics import r2_score
from sklearn.model_selection import cross_val_score

from wlkernelnn.datasets import featurize
from wlkernelnn.kernels import (
    DescriptorKernel,
    MoleculeKernel,
    PathKernel,
    ShortestPathKernel,
    WLSubtreeKernel,
)
from wlkernelnn.machines import GaussianProcess

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(60, 2))
Y = np.sin(X[:, 0]) + 0.3 * X[:, 1] + 0.1 * RANDOM.normal(size=60) + 5
NEW = RANDOM.normal(size=(7, 2))
SMILES = [f"{'C' * n}{end}" for n in range(1, 13) for end in ("O", "N", "Cl")]
VALUES = np.array([len(text) + 2.0 * ("N" in text) for text in SMILES])


def same_process(machine: GaussianProcess) -> GaussianProcessRegressor:
    """scikit-learn's process with the hyper-parameters that the machine found."""
    target = machine.targets_[0]
    kernel = WhiteKernel(target.noise)
    for amplitude, part in zip(target.amplitudes, target.kernels, strict=True):
        kernel = kernel + ConstantKernel(amplitude) * part
    return GaussianProcessRegressor(kernel, optimizer=None)


def test_equals_scikit_learns_process_with_the_same_hyper_parameters() -> None:
    machine = GaussianProcess(RBF() + RBF(0.2, "fixed")).fit(X, Y)
    target = machine.targets_[0]
    other = same_process(machine).fit(X, target.y)
    mean, std = machine.predict(NEW, return_std=True)
    expected, deviation = other.predict(NEW, return_std=True)
    np.testing.assert_allclose(mean, target.mean + target.scale * expected, rtol=1e-8)
    np.testing.assert_allclose(std, target.scale * deviation, rtol=1e-8)
    np.testing.assert_allclose(target.mean, Y.mean())
    np.testing.assert_allclose(target.scale, Y.std())


def test_finds_what_scikit_learn_finds() -> None:
    # With as many rows, the priors are weak.
    x = np.random.default_rng(1).normal(size=(300, 1))
    y = np.sin(2 * x[:, 0]) + 0.2 * np.random.default_rng(2).normal(size=300)
    machine = GaussianProcess(RBF(1.0, (1e-2, 1e2))).fit(x, y)
    kernel = ConstantKernel(1.0) * RBF(1.0, (1e-2, 1e2)) + WhiteKernel(0.1)
    other = GaussianProcessRegressor(kernel, normalize_y=True).fit(x, y)
    new = np.linspace(-2, 2, 9)[:, None]
    np.testing.assert_allclose(machine.predict(new), other.predict(new), atol=0.02)
    assert abs(machine.targets_[0].noise * y.var() - 0.04) < 0.01


@pytest.mark.parametrize("num_landmarks", [None, 20])
def test_leaving_one_out_is_fitting_without_it(num_landmarks: int | None) -> None:
    machine = GaussianProcess(RBF(1.0, "fixed"), num_landmarks=num_landmarks).fit(X, Y)
    means, stds = machine.leave_one_out()
    target = machine.targets_[0]
    posterior = target.posterior
    for i in (0, 17, int(machine.landmarks_[0]) if num_landmarks else 3):
        # A row that says nothing: its noise is without end.
        noise = np.full(60, target.noise)
        noise[i] = 1e12
        kernel = target.amplitudes[0] * RBF(1.0, "fixed")(X)
        if num_landmarks:
            marks = machine.landmarks_
            inside = type(posterior)(kernel[np.ix_(marks, marks)], kernel[:, marks], np.diag(kernel).copy())
            inside.condition(target.y, noise)
            cross = kernel[i : i + 1, marks]
        else:
            inside = type(posterior)(kernel.copy(), target.y, noise)
            cross = kernel[i : i + 1]
        np.testing.assert_allclose(means[i], target.mean + target.scale * inside.mean(cross)[0], rtol=1e-5)
        variance = inside.variance(cross, kernel[i, i : i + 1])[0] + target.noise
        np.testing.assert_allclose(stds[i], target.scale * np.sqrt(variance), rtol=1e-5)


def test_all_rows_as_landmarks_are_the_exact_process() -> None:
    exact = GaussianProcess(RBF(1.0, "fixed")).fit(X, Y)
    nystrom = GaussianProcess(RBF(1.0, "fixed"), num_landmarks=59).fit(X, Y)
    assert len(nystrom.landmarks_) == 59
    for one, other in zip(exact.predict(NEW, True), nystrom.predict(NEW, True), strict=True):
        np.testing.assert_allclose(one, other, rtol=0.02)
    assert GaussianProcess(RBF(), num_landmarks=60).fit(X, Y).landmarks_ is None


def test_several_targets_are_several_machines() -> None:
    several = np.stack([Y, -3 * Y + X[:, 1]], axis=1)
    several[::3, 1] = np.nan
    known = np.flatnonzero(~np.isnan(several[:, 1]))
    kernel = RBF(1.0, "fixed") + RBF()
    machine = GaussianProcess(kernel, max_fit_rows=None).fit(X, several)
    first = GaussianProcess(kernel, max_fit_rows=None).fit(X, Y)
    second = GaussianProcess(kernel, max_fit_rows=None).fit(X[known], several[known, 1])
    mean, std = machine.predict(NEW, return_std=True)
    assert mean.shape == std.shape == (7, 2)
    np.testing.assert_allclose(mean[:, 0], first.predict(NEW), rtol=1e-6)
    np.testing.assert_allclose(mean[:, 1], second.predict(NEW), rtol=1e-6)
    left_out, _ = machine.leave_one_out()
    assert np.isnan(left_out[::3, 1]).all()
    np.testing.assert_allclose(left_out[known, 1], second.leave_one_out()[0], rtol=1e-6)


@pytest.mark.parametrize("num_landmarks", [None, 20])
def test_a_weight_of_0_leaves_a_row_out(num_landmarks: int | None) -> None:
    weight = np.where(np.arange(60) % 4, np.linspace(0.5, 1.5, 60), 0)
    machine = GaussianProcess(RBF(), num_landmarks=num_landmarks)
    expected = clone(machine).fit(X[weight > 0], Y[weight > 0], weight[weight > 0])
    mean, std = machine.fit(X, np.where(weight, Y, np.inf), weight).predict(NEW, return_std=True)
    np.testing.assert_array_equal([mean, std], expected.predict(NEW, return_std=True))
    np.testing.assert_array_equal(machine.leave_one_out(), expected.leave_one_out())
    assert machine.score(X, Y, weight) == expected.score(X[weight > 0], Y[weight > 0], weight[weight > 0])


def test_it_is_bagged() -> None:
    """scikit-learn's ensembles say by weights which rows were drawn, 0 of those that were not."""
    bag = BaggingRegressor(GaussianProcess(RBF()), n_estimators=3, random_state=0).fit(X, Y)
    assert bag.score(X, Y) > 0.5


def test_a_weight_of_two_is_a_row_twice() -> None:
    weight = np.ones(60)
    weight[:10] = 2
    weighted = GaussianProcess(RBF(1.0, "fixed")).fit(X, Y, weight)
    target = weighted.targets_[0]
    twice = np.concatenate([np.arange(60), np.arange(10)])
    np.testing.assert_allclose([target.mean, target.scale], [Y[twice].mean(), Y[twice].std()])
    other = same_process(weighted).fit(X[twice], (Y[twice] - target.mean) / target.scale)
    np.testing.assert_allclose(
        weighted.predict(NEW), target.mean + target.scale * other.predict(NEW), rtol=1e-6
    )


@pytest.mark.parametrize("num_landmarks", [None, 20])
@pytest.mark.parametrize("unit", [1e-4, 1e12])
def test_the_unit_of_weights_is_that_of_the_noise(unit: float, num_landmarks: int | None) -> None:
    machine = GaussianProcess(RBF(1.0, "fixed"), num_landmarks=num_landmarks)
    for weight in (np.ones(60), np.linspace(0.5, 1.5, 60)):
        expected, noise = machine.fit(X, Y, weight).predict(NEW), machine.targets_[0].noise
        machine.fit(X, Y, unit * weight)
        np.testing.assert_allclose(machine.predict(NEW), expected, rtol=1e-6)
        np.testing.assert_allclose(machine.targets_[0].noise, unit * noise, rtol=1e-4)


def test_hyper_parameters_come_from_some_rows_and_repeat() -> None:
    some = GaussianProcess(RBF(1.0, "fixed"), max_fit_rows=20).fit(X, Y)
    again = GaussianProcess(RBF(1.0, "fixed"), max_fit_rows=20).fit(X, Y)
    other = GaussianProcess(RBF(1.0, "fixed"), max_fit_rows=20, random_state=1).fit(X, Y)
    assert some.targets_[0].noise == again.targets_[0].noise != other.targets_[0].noise
    np.testing.assert_array_equal(some.predict(NEW), again.predict(NEW))


def test_molecules() -> None:
    graphs, _ = featurize(SMILES, features="ogb+invariants+descriptors")
    kernel = MoleculeKernel() + PathKernel(2, normalize="minmax") + DescriptorKernel()
    machine = GaussianProcess(kernel).fit(graphs[::2], VALUES[::2])
    assert np.abs(machine.predict(graphs[1::2]) - VALUES[1::2]).mean() < 0.5
    of_smiles = GaussianProcess(MoleculeKernel()).fit(SMILES, VALUES)
    np.testing.assert_allclose(
        of_smiles.predict(SMILES[:3]),
        GaussianProcess(MoleculeKernel()).fit(graphs, VALUES).predict(graphs[:3]),
    )
    assert clone(machine).kernel == kernel


def test_a_stranger_has_the_mean_and_the_deviation_of_the_prior() -> None:
    machine = GaussianProcess(WLSubtreeKernel(1, normalize="minmax")).fit(SMILES, VALUES)
    target = machine.targets_[0]
    mean, std = machine.predict(["[Na+]"], return_std=True)
    np.testing.assert_allclose(mean, VALUES.mean())
    np.testing.assert_allclose(std, target.scale * np.sqrt(target.amplitudes.sum() + target.noise))


def test_constant_targets_and_one_row_are_their_mean() -> None:
    for smiles in (SMILES[:5], ["C"], ["C", "C"]):
        mean, std = GaussianProcess(MoleculeKernel()).fit(smiles, [4.0] * len(smiles)).predict(["CCO"], True)
        np.testing.assert_allclose(mean, 4)
        np.testing.assert_array_equal(std, 0)
    rounded = GaussianProcess(RBF()).fit(X, np.full(60, 0.1))  # their average is not 0.1
    assert (rounded.targets_[0].mean, rounded.targets_[0].scale) == (0.1, 0)


def test_repeated_molecules_with_different_targets_are_noise() -> None:
    machine = GaussianProcess(MoleculeKernel()).fit(["CCO"] * 4 + ["CCCCN"] * 4, [1, 2, 3, 2, 8, 9, 10, 9])
    mean, std = machine.predict(["CCO", "CCCCN"], return_std=True)
    np.testing.assert_allclose(mean, [2, 9], atol=0.3)
    assert (std > 0.5).all()


@pytest.mark.parametrize(
    ("y", "weight", "message"),
    [
        (Y[:-1], None, r"y must be \[60\] or \[60, T\], as long as X, got \[59, 1\]"),
        (np.where(Y > 6, np.inf, Y), None, "y must be finite, or NaN where a target is missing"),
        (np.stack([Y, np.full(60, np.nan)], 1), None, "y: target 1 has no value"),
        (Y, np.zeros(60), "sample_weight: all rows have 0, expected one at least"),
        (Y, np.ones(3), r"sample_weight must be \[60\], as long as X, got \[3\]"),
        (Y, np.where(np.arange(60) == 7, -0.5, 1.0), "sample_weight: row 7 has -0.5, expected 0 or more"),
    ],
)
def test_mistakes_are_named(y: np.ndarray, weight: np.ndarray | None, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        GaussianProcess(RBF()).fit(X, y, weight)


def test_numbers_of_rows_are_counts() -> None:
    for name in ("num_landmarks", "max_fit_rows"):
        with pytest.raises(ValueError, match=f"{name} must be"):
            GaussianProcess(RBF(), **{name: 0}).fit(X, Y)


def test_threads_and_gaps_do_not_change_the_sums() -> None:
    smiles = [f"{'C' * n}{end}" for n in range(1, 160) for end in ("O", "N", "Cl", "F")]
    y = np.stack([np.arange(len(smiles)) % 7, np.arange(len(smiles)) % 5], axis=1).astype(float)
    y[::3, 1] = np.nan
    kernel = WLSubtreeKernel(1, normalize="minmax", coding="element") + ShortestPathKernel(
        5, normalize="minmax", coding="element"
    )
    machines = [GaussianProcess(kernel, n_jobs=n, max_fit_rows=50).fit(smiles, y) for n in (None, 2)]
    new = ["CCCCN", "CCBr", "c1ccccc1"]
    for one, other in zip(*(machine.predict(new, True) for machine in machines), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)
    # More than one block of rows; some have no second target.
    assert len(smiles) > 512
    target = machines[0].targets_[1]
    gram = sum(a * part(smiles) for a, part in zip(target.amplitudes, target.kernels, strict=True))
    gram = gram[np.ix_(target.rows, target.rows)] + target.noise * np.eye(len(target.rows))
    np.testing.assert_allclose(gram @ target.posterior.alpha, target.y, atol=1e-8)


def test_rows_of_a_column_are_read_by_their_places() -> None:
    order = np.random.default_rng(1).permutation(len(SMILES))
    machine = GaussianProcess(MoleculeKernel(), max_fit_rows=20)
    expected = machine.fit([SMILES[i] for i in order], VALUES[order]).predict(["CCO", "CCN"])
    column = pd.Series(SMILES, index=RANDOM.permutation(len(SMILES))).iloc[order]
    np.testing.assert_array_equal(machine.fit(column, VALUES[order]).predict(["CCO", "CCN"]), expected)
    scores = cross_val_score(GaussianProcess(MoleculeKernel()), pd.Series(SMILES), VALUES, cv=3)
    assert np.isfinite(scores).all()
    frame = pd.DataFrame(X, columns=["a", "b"])
    found = GaussianProcess(DescriptorKernel()).fit(frame, Y).predict(frame)
    np.testing.assert_allclose(found, GaussianProcess(DescriptorKernel()).fit(X, Y).predict(X))


def test_a_descriptor_kernel_inside_a_product_learns_its_ranks() -> None:
    data, _ = featurize(SMILES, features="ogb+invariants+descriptors")
    assert (
        GaussianProcess(ConstantKernel(1.0) * DescriptorKernel()).fit(data, VALUES).score(data, VALUES) > 0.99
    )


def test_score_takes_missing_targets() -> None:
    several = pd.DataFrame({"a": VALUES, "b": np.where(np.arange(36) % 3, VALUES, np.nan)})
    machine = GaussianProcess(MoleculeKernel()).fit(SMILES, several.astype("Float64"))
    expected = [
        r2_score(several[name].dropna(), found[several[name].notna()])
        for name, found in zip(several, machine.predict(SMILES).T, strict=True)
    ]
    np.testing.assert_allclose(machine.score(SMILES, several), np.mean(expected))
    one = GaussianProcess(MoleculeKernel()).fit(SMILES, VALUES)
    weight = np.arange(1, 37)
    expected_one = r2_score(VALUES, one.predict(SMILES), sample_weight=weight)
    np.testing.assert_allclose(one.score(SMILES, VALUES, weight), expected_one)
    with pytest.raises(ValueError, match=r"y must be \[36, 2\], as predictions, got \[36\]"):
        machine.score(SMILES, VALUES)


@pytest.mark.parametrize("kernel", ["rbf", MoleculeKernel])
def test_what_is_no_kernel_is_refused(kernel: object) -> None:
    with pytest.raises(TypeError, match=r"kernel must be a kernel of .* or scikit-learn"):
        GaussianProcess(kernel).fit(SMILES, VALUES)  # type: ignore[arg-type]


@pytest.mark.parametrize("num_landmarks", [None, 20])
def test_groups_are_left_out_together(num_landmarks: int | None) -> None:
    """Against the same process, conditioned on the other rows alone."""
    groups = np.arange(60) // 3
    groups[::7] = 3
    y = np.stack([Y, np.where(np.arange(60) % 5, Y**2, np.nan)], axis=1)
    machine = GaussianProcess(RBF(1.0, "fixed"), num_landmarks=num_landmarks).fit(X, y)
    means, stds = machine.leave_one_out(groups)
    for t, target in enumerate(machine.targets_):
        gram = target.amplitudes[0] * RBF(1.0)(X)[np.ix_(target.rows, target.rows)]
        noise = target.noises
        if machine.landmarks_ is not None:
            features = target.posterior.features
            rest = target.posterior.noise - target.noises
            gram, noise = features @ features.T, target.noises + rest
        own = groups[target.rows]
        for group in np.unique(own):
            left = own == group
            kept = gram[np.ix_(~left, ~left)] + np.diag(noise[~left])
            cross = gram[np.ix_(left, ~left)]
            mean = cross @ np.linalg.solve(kept, target.y[~left])
            rows = target.rows[left]
            np.testing.assert_allclose(means[rows, t], target.mean + target.scale * mean)
            variance = np.diag(gram)[left] + noise[left] - np.diag(cross @ np.linalg.solve(kept, cross.T))
            np.testing.assert_allclose(stds[rows, t], target.scale * np.sqrt(variance))
    np.testing.assert_allclose(machine.leave_one_out(np.arange(60)), machine.leave_one_out())
    with pytest.raises(ValueError, match=r"groups must be \[60\], one per row, got \[3\]"):
        machine.leave_one_out([0, 1, 2])


@pytest.mark.parametrize(
    "kernel", [RBF(), RBF(0.5, "fixed"), DescriptorKernel(length_scale_bounds=(0.1, 10))]
)
def test_what_happens_to_the_callers_array_does_not_matter(kernel: Kernel) -> None:
    own = X.copy()
    machine = GaussianProcess(kernel).fit(own, Y)
    before = machine.predict(NEW)
    own[:] = 0
    np.testing.assert_array_equal(machine.predict(NEW), before)


def test_columns_of_a_table_keep_their_names() -> None:
    table = pd.DataFrame(X, columns=["a", "b"])
    machine = GaussianProcess(DescriptorKernel()).fit(table, Y)
    np.testing.assert_array_equal(machine.feature_names_in_, ["a", "b"])
    machine.predict(table)
    with pytest.raises(ValueError, match="same order"):
        machine.predict(table[["b", "a"]])


def test_signs_of_missing_targets() -> None:
    kernel = WLSubtreeKernel(1)
    values = [*VALUES[:-1], np.nan]
    expected = GaussianProcess(kernel).fit(SMILES, values).predict(SMILES)
    for missing in (None, pd.NA):
        for y in ([*values[:-1], missing], np.array([*values[:-1], missing], dtype=object)):
            np.testing.assert_array_equal(GaussianProcess(kernel).fit(SMILES, y).predict(SMILES), expected)
    with pytest.raises(TypeError, match="real numbers, got complex"):
        GaussianProcess(kernel).fit(SMILES, VALUES + 1j)


@pytest.mark.parametrize("factor", [1e160, 1e-170])
def test_targets_whose_squares_are_no_floats_are_refused(factor: float) -> None:
    with pytest.raises(ValueError, match="beyond float64: scale them"):
        GaussianProcess(RBF()).fit(X, Y * factor)


def test_groups_have_numbers_or_names() -> None:
    machine = GaussianProcess(RBF()).fit(X, Y)
    number = np.arange(60) // 2
    expected = machine.leave_one_out(number)
    mixed = [str(i) if i % 2 else i - 1 for i in number.tolist()]  # 1 and "1" are two names
    for names in ([f"group {i}" for i in number], pd.Categorical(number), number.astype(float), mixed):
        np.testing.assert_array_equal(machine.leave_one_out(names), expected)
    with pytest.raises(ValueError, match="groups: row 3 has none"):
        machine.leave_one_out(np.where(np.arange(60) == 3, np.nan, number))


def test_hidden_values_of_masked_arrays_are_missing() -> None:
    hidden = np.arange(60) % 7 == 0
    masked = np.ma.masked_array(np.where(hidden, -9999.0, Y), hidden)
    one, other = (GaussianProcess(RBF()).fit(X, y) for y in (np.where(hidden, np.nan, Y), masked))
    np.testing.assert_array_equal(other.predict(NEW), one.predict(NEW))
    with pytest.raises(ValueError, match="sample_weight: row 0 has nan"):
        GaussianProcess(RBF()).fit(X, Y, np.ma.masked_array(np.ones(60), hidden))
    with pytest.raises(ValueError, match="groups: row 0 has none"):
        one.leave_one_out(np.ma.masked_array(np.arange(60), hidden))


def test_times_are_no_numbers() -> None:
    with pytest.raises(TypeError, match="y must hold real numbers, got timedelta64"):
        GaussianProcess(RBF()).fit(X, np.full(60, np.timedelta64("NaT", "s")))


def test_rows_may_be_lists() -> None:
    machine = GaussianProcess(RBF()).fit(X.tolist(), Y)
    for theirs, ours in zip(
        machine.predict(NEW.tolist(), True), GaussianProcess(RBF()).fit(X, Y).predict(NEW, True), strict=True
    ):
        np.testing.assert_array_equal(theirs, ours)
