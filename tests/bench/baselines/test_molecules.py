from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import torch
from rdkit import Chem
from rdkit.Chem.rdMolDescriptors import CalcNumRings

from tests.inputs.molecules import regression_set, whole_set
from wlkernelnn.bench.baselines import molecules as baselines
from wlkernelnn.bench.harness.timing import torch_settings
from wlkernelnn.datasets import PackedGraphs, PackedLoader, load_molecules
from wlkernelnn.models import GraphNetwork
from wlkernelnn.training import FitOptions

MOLECULES = ["CCO", "c1ccccc1O", "CC(=O)NC", "CCO", "OCC#N", "C"]


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Networks this small are slower on more, and very slow where other processes want the same cores."""
    with torch_settings(1):
        yield


@pytest.fixture(scope="module")
def data() -> PackedGraphs:
    """Molecules whose target is a number that their fingerprints know: rings times two, plus one."""
    data = whole_set()
    y = [2.0 * CalcNumRings(Chem.MolFromSmiles(text)) + 1.0 for text in data.smiles]
    return data.with_targets(np.array(y))


@pytest.fixture(scope="module")
def parts(data: PackedGraphs) -> tuple[PackedGraphs, PackedGraphs, PackedGraphs]:
    order = np.random.default_rng(0).permutation(len(data))
    return data[order[:200]], data[order[200:250]], data[order[250:300]]


def two_tasks(part: PackedGraphs) -> PackedGraphs:
    """Many rings or few, with missing labels; and a label that is always 1."""
    y = np.column_stack([part.y[:, 0] > 9, np.ones(len(part))]).astype(np.float32)
    y[::7, 0] = np.nan
    about = {"task": "classification", "metric": "roc_auc", "target_names": ("many", "one")}
    return part.compact().with_targets(y, **about)


def rmse(result: baselines.Result, test: PackedGraphs) -> float:
    return float(np.sqrt(np.mean((result.prediction - test.y.numpy()) ** 2)))


def test_mean_predictor(parts: tuple[PackedGraphs, ...]) -> None:
    train, _, test = parts
    result = baselines.mean_predictor(train, test)
    np.testing.assert_allclose(result.prediction, np.full((50, 1), train.y.mean()), rtol=1e-6)
    assert result.parameters == 1
    result = baselines.mean_predictor(two_tasks(train), two_tasks(test))
    known = two_tasks(train).y[:, 0]
    np.testing.assert_allclose(result.prediction[:, 0], known[~known.isnan()].mean(), rtol=1e-6)
    np.testing.assert_allclose(result.prediction[:, 1], 1.0)


def test_regression_baselines_learn(parts: tuple[PackedGraphs, ...]) -> None:
    train, valid, test = parts
    mean = rmse(baselines.mean_predictor(train, test), test)
    forest = baselines.random_forest(train, test, num_trees=50)
    ridge = baselines.ridge(train, valid, test)
    assert rmse(forest, test) < 0.6 * mean
    assert rmse(ridge, test) < 0.6 * mean
    assert forest.prediction.shape == ridge.prediction.shape == (50, 1)
    assert forest.parameters > 50
    assert ridge.parameters == 2049
    again = baselines.random_forest(train, test, num_trees=50)
    np.testing.assert_array_equal(again.prediction, forest.prediction)


def test_ridge_takes_the_penalty_that_is_best_on_valid(parts: tuple[PackedGraphs, ...]) -> None:
    train, valid = parts[0][:80], parts[1]
    chosen = baselines.ridge(train, valid, valid)
    with pytest.MonkeyPatch.context() as patch:
        scores = []
        for alpha in baselines.ALPHAS:
            patch.setattr(baselines, "ALPHAS", (alpha,))
            scores.append(rmse(baselines.ridge(train, valid, valid), valid))
    assert rmse(chosen, valid) == pytest.approx(min(scores))
    assert max(scores) > 1.1 * min(scores)


def test_classification_baselines_give_probabilities(parts: tuple[PackedGraphs, ...]) -> None:
    train, valid, test = map(two_tasks, parts)
    truth = parts[2].y[:, 0].numpy() > 9
    for result in (
        baselines.random_forest(train, test, num_trees=50),
        baselines.ridge(train, valid, test),
    ):
        assert result.prediction.shape == (50, 2)
        assert ((result.prediction >= 0) & (result.prediction <= 1)).all()
        assert np.mean((result.prediction[:, 0] > 0.5) == truth) > 0.8
        np.testing.assert_allclose(result.prediction[:, 1], 1.0)


def test_gine_has_about_as_many_parameters(parts: tuple[PackedGraphs, ...]) -> None:
    parameters = 311_345

    def make(width: int) -> baselines.GINENetwork:
        return baselines.GINENetwork.from_data(parts[0], hidden_channels=width)

    width = baselines.width_for(make, parameters)
    errors = [abs(baselines.count_parameters(make(width + more)) - parameters) for more in (-1, 0, 1)]
    assert errors[1] == min(errors)
    assert errors[1] / parameters < 0.03


def test_gine_network_has_the_interface_of_ours(parts: tuple[PackedGraphs, ...]) -> None:
    train = parts[0]
    net = baselines.GINENetwork.from_data(train, hidden_channels=8, pooling="mean", dropout=0.1)
    assert isinstance(net, GraphNetwork)
    assert net.task == "regression"
    assert net.config["num_tasks"] == 1
    torch.testing.assert_close(net.target_mean, train.y.mean(0))
    again = baselines.GINENetwork(**net.config)
    again.load_state_dict(net.state_dict())
    batch = next(iter(PackedLoader(train, 7)))
    torch.testing.assert_close(again.eval()(batch), net.eval()(batch))
    torch.testing.assert_close(net.predict(batch), net(batch))
    with pytest.raises(ValueError, match="edge codes"):
        baselines.GINENetwork([3])
    with pytest.raises(ValueError, match="layer_dropout"):
        baselines.GINENetwork([3], num_edge_types=2, layer_dropout=1.5)


def test_gine_reads_edge_codes_and_trains_on_a_single_atom() -> None:
    data = load_molecules(["CC", "C=C", "C"], y=[1.0, 2.0, 3.0], cache=False)
    torch.manual_seed(0)
    net = baselines.GINENetwork.from_data(data, hidden_channels=8).eval()
    single = next(iter(PackedLoader(data[:1], 1)))
    other = single.clone()
    other.edge_type = other.edge_type + 1
    assert not torch.allclose(net(single), net(other))
    atom = next(iter(PackedLoader(data[2:], 1)))
    assert net.train()(atom).isfinite().all()


OF_LAYERS = {"none": {}, "residual": {"residual": True}, "virtual node": {"virtual_node": True}}


@pytest.mark.parametrize("more", OF_LAYERS.values(), ids=OF_LAYERS)
def test_gine_layers_drop_only_in_training(more: dict[str, bool]) -> None:
    torch.manual_seed(0)
    data = regression_set()
    net = baselines.GINENetwork.from_data(data, hidden_channels=8, num_layers=3, layer_dropout=0.5, **more)
    batch = next(iter(PackedLoader(data, 5)))
    out = net(batch)
    assert out.shape == (5, 1)
    assert not torch.equal(out, net(batch))
    out.sum().backward()
    assert all(weight.grad is not None and weight.grad.isfinite().all() for weight in net.parameters())
    net.eval()
    torch.testing.assert_close(net(batch), net(batch), rtol=0, atol=0)


def test_gine_adds_what_was_before_a_layer() -> None:
    data = regression_set()
    net = baselines.GINENetwork.from_data(data, hidden_channels=8, num_layers=1, residual=True).eval()
    batch = next(iter(PackedLoader(data, 5)))
    whole = net.states(batch.x, batch)
    net.residual = False
    torch.testing.assert_close(whole - net.states(batch.x, batch), net.encoder(batch.x))


ROWS_OF_LAYERS = {
    "plain": (MOLECULES, {}),
    "residual": (MOLECULES, {"residual": True}),
    # More layers blow rounding up: the variance is 0.
    "one colour": (["CC", "CC", "CC"], {"num_layers": 1, "norm": False}),
    "one node": (["C"], {}),
}


@pytest.mark.parametrize(("smiles", "more"), ROWS_OF_LAYERS.values(), ids=ROWS_OF_LAYERS)
@pytest.mark.parametrize("depth", [2, 3], ids=["depth", "deeper"])
def test_gine_by_colours_trains_and_predicts_as_by_nodes(smiles: list[str], more: Any, depth: int) -> None:
    data = load_molecules(smiles, y=np.arange(float(len(smiles))), cache=False)
    torch.manual_seed(0)
    nets = [
        baselines.GINENetwork.from_data(data, hidden_channels=8, quotient=way, **{"num_layers": 2, **more})
        for way in (False, True)
    ]
    nets[1].load_state_dict(nets[0].state_dict())
    by_nodes, by_colours = (net.double() for net in nets)
    batch = next(iter(PackedLoader(data, len(data), quotient=depth)))
    for training in (True, True, False):
        outputs = []
        for net in nets:
            net.train(training).zero_grad()
            out = net(batch)
            (out.square().sum() + out.sum()).backward()
            outputs.append(out)
        torch.testing.assert_close(outputs[1], outputs[0], rtol=1e-10, atol=1e-10)
        for one, other in zip(by_nodes.parameters(), by_colours.parameters(), strict=True):
            torch.testing.assert_close(other.grad, one.grad, rtol=1e-10, atol=1e-10)
        assert by_nodes.state_dict().keys() == by_colours.state_dict().keys()
        for name, value in by_nodes.state_dict().items():
            torch.testing.assert_close(by_colours.state_dict()[name], value, rtol=1e-10, atol=1e-10)


def test_gine_computes_each_colour_once() -> None:
    data = load_molecules(["CCO", "CCO", "CCO"], y=[1.0, 2.0, 3.0], cache=False)
    net = baselines.GINENetwork.from_data(data, hidden_channels=8, num_layers=1)
    batch = next(iter(PackedLoader(data, 3, quotient=net.quotient_depth)))
    with patch.object(net, "states", wraps=net.states) as states:
        net(batch)
    assert states.call_args.args[0].size(0) < batch.x.size(0)


@pytest.mark.parametrize("more", [{"virtual_node": True}, {"layer_dropout": 0.1}])
def test_gine_goes_by_nodes_where_colours_decide_nothing(more: Any) -> None:
    assert baselines.GINENetwork([3], num_edge_types=2, **more).quotient_depth is None
    with pytest.raises(ValueError, match="not colours decide"):
        baselines.GINENetwork([3], num_edge_types=2, quotient=True, **more)


def test_gine_virtual_node_joins_all_atoms() -> None:
    data = load_molecules(["CCCCCCCC", "CCCCCCCO"], y=[1.0, 2.0], cache=False)
    batch = next(iter(PackedLoader(data, 2)))
    for virtual_node in (False, True):
        torch.manual_seed(0)
        net = baselines.GINENetwork.from_data(
            data, hidden_channels=8, num_layers=2, virtual_node=virtual_node
        ).eval()
        h = net.states(batch.x, batch)
        # The first atoms of both are seven bonds away from the difference.
        assert torch.allclose(h[0], h[8], atol=1e-6) != virtual_node
    # A norm of 2 · 8 and a map of 8 · 9 between two layers.
    plain = baselines.GINENetwork.from_data(data, hidden_channels=8, num_layers=2)
    assert baselines.count_parameters(net) - baselines.count_parameters(plain) == 2 * 8 + 8 * 9


def test_gine_is_trained_by_the_same_recipe(parts: tuple[PackedGraphs, ...]) -> None:
    train, valid, test = parts
    options = FitOptions(epochs=12, lr=5e-3, ema_decay=0.9, batch_size=32)
    result = baselines.gine(train, valid, test, 20_000, options)
    assert result.prediction.shape == (50, 1)
    assert abs(result.parameters / 20_000 - 1) < 0.03
    assert rmse(result, test) < 0.7 * rmse(baselines.mean_predictor(train, test), test)


def test_random_walk_network_is_its_layer() -> None:
    data = regression_set()
    net = baselines.RandomWalkNetwork.from_data(
        data, hidden_channels=8, walk_length=3, decay=0.5, all_lengths=False
    )
    batch = next(iter(PackedLoader(data, 5)))
    h = net.encoder(batch.x).relu()
    first, second, third = (lin.weight for lin in net.conv.lins)
    source, target = batch.edge_index.as_subclass(torch.Tensor)
    c = h @ first.T
    for step, weight in enumerate((second, third)):
        message = c[source] * net.conv.edge_factors[step].table[batch.edge_type]
        c = 0.5 * torch.zeros_like(c).index_add(0, target, message) * (h @ weight.T)
    torch.testing.assert_close(net.states(batch.x, batch), c)


def test_random_walk_network_by_colours() -> None:
    data = regression_set()
    net = baselines.RandomWalkNetwork.from_data(data, hidden_channels=8)
    assert net.quotient_depth == 4
    plain = baselines.RandomWalkNetwork(**net.config | {"quotient": False})
    plain.load_state_dict(net.state_dict())
    batch = next(iter(PackedLoader(data, 30, quotient=4)))
    torch.testing.assert_close(net(batch), plain(batch), rtol=1e-4, atol=1e-5)
