from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from tests.inputs.edited import edit
from tests.inputs.molecules import assert_same_weights, classification_set, regression_set, small_network
from wlkernelnn.datasets import Vocabulary
from wlkernelnn.models import GraphKernelNetwork, KernelStackNetwork
from wlkernelnn.sequence import (
    RKM,
    RRNN,
    RRNNGRU,
    LanguageModel,
    PolynomialKernel,
    RecurrentKernelMachine,
    Stack,
    StringKernelConv,
    StringKernelNetwork,
    StringNetwork,
    TextNetwork,
    WeightDrop,
)
from wlkernelnn.training import load_checkpoint, predict, save_checkpoint
from wlkernelnn.training.checkpoint import load_vocabulary
from wlkernelnn.utils.files import write_tensors

ABOUT = {"features": "ogb", "target_names": ["Größe [µm]"], "unit": None, "nested": {"a": [1, 2.5]}}


@pytest.fixture
def net() -> GraphKernelNetwork:
    return small_network(regression_set())


@pytest.fixture
def folder(net: GraphKernelNetwork, tmp_path: Path) -> Path:
    save_checkpoint(tmp_path / "deep" / "folder", net, ABOUT)
    return tmp_path / "deep" / "folder"


def change(folder: Path, **entries: Any) -> None:
    """Overwrite entries of the config; ``None`` takes one away."""
    path = folder / "config.json"
    config = json.loads(path.read_text())
    for name, value in entries.items():
        place, _, key = name.rpartition("__")
        section = config[place] if place else config
        section[key] = value
        if value is None:
            del section[key]
    path.write_text(json.dumps(config))
    edit(path, {})


@pytest.mark.parametrize(
    "kwargs",
    [{}, {"decay": 0.25, "pooling": "mean", "norm": False, "readout": "cat"}],
    ids=["default", "other"],
)
@pytest.mark.parametrize("make", [regression_set, classification_set])
def test_the_same_network_comes_back(make: Any, kwargs: dict[str, Any], tmp_path: Path) -> None:
    data = make()
    net = small_network(data, **kwargs).train()
    save_checkpoint(tmp_path, net, ABOUT)
    loaded, about = load_checkpoint(tmp_path)
    assert about == ABOUT
    assert loaded.config == net.config
    assert not loaded.training
    assert_same_weights(loaded, net)
    np.testing.assert_array_equal(predict(loaded, data), predict(net, data))


def test_two_files_and_nothing_pickled(net: GraphKernelNetwork, folder: Path) -> None:
    assert sorted(path.name for path in folder.iterdir()) == ["config.json", "model.safetensors"]
    assert load_file(folder / "model.safetensors").keys() == net.state_dict().keys()
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    assert config == {
        "format": "wlkernelnn.checkpoint/1",
        "kind": "GraphKernelNetwork",
        "network": net.config,
        "about": ABOUT,
        "files": config["files"],
        "digest": config["digest"],
    }


def test_saving_again_replaces(folder: Path) -> None:
    other = small_network(regression_set(), seed=1, hidden_channels=6)
    save_checkpoint(folder, other)
    loaded, about = load_checkpoint(folder)
    assert about == {}
    assert_same_weights(loaded, other)


@pytest.mark.parametrize("name", ["config.json", "model.safetensors"])
def test_missing_file(folder: Path, name: str) -> None:
    (folder / name).unlink()
    with pytest.raises(FileNotFoundError, match=rf"folder/{name}: no such file"):
        load_checkpoint(folder)


@pytest.mark.parametrize("share", [0.0, 0.999])
def test_truncated_weights(folder: Path, share: float) -> None:
    path = folder / "model.safetensors"
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    with pytest.raises(ValueError, match=r"folder/model\.safetensors: .*cut short"):
        load_checkpoint(folder)


@pytest.mark.parametrize("content", [b'{"format": ', b"\x93\x00\xff"])
def test_config_that_is_not_json(folder: Path, content: bytes) -> None:
    (folder / "config.json").write_bytes(content)
    with pytest.raises(ValueError, match=r"folder/config\.json: not JSON \("):
        load_checkpoint(folder)


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"network__heads": 3}, "network: .* unexpected keyword argument 'heads'"),
        ({"about": None}, "expected an object with format, kind, network and about"),
        ({"network__node_dims": None}, r"network: x holds codes \(node_dims\)"),
        ({"network": [1]}, "network: .* must be a mapping, not list"),
        ({"kind": "Transformer"}, "network: kind must be one of GraphKernelNetwork, .*, got 'Transformer'"),
        ({"kind": []}, r"network: kind must be one of GraphKernelNetwork, .*, got \[\]"),
        ({"about": []}, r"expected about to be an object, got \[\]"),
        ({"format": "wlkernelnn.checkpoint/9"}, "expected format wlkernelnn.checkpoint/1, got '.*/9'"),
        ({"network__pooling": "max"}, "network: pooling must be .* got 'max'"),
        ({"network__hidden_channels": "8"}, "network: hidden_channels must be an integer .* got '8'"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_config_with_wrong_content(folder: Path, entries: dict[str, Any], message: str) -> None:
    change(folder, **entries)
    with pytest.raises(ValueError, match=rf"folder/config\.json: {message}"):
        load_checkpoint(folder)


def test_config_that_is_no_object(folder: Path) -> None:
    (folder / "config.json").write_text("[]")
    with pytest.raises(ValueError, match=r"config\.json: expected a JSON object, got \[\]"):
        load_checkpoint(folder)


def test_keys_with_defaults_may_be_missing(net: GraphKernelNetwork, folder: Path) -> None:
    """What a later version adds does not shut out what an earlier one wrote."""
    change(folder, network__dropout=None)
    assert_same_weights(load_checkpoint(folder)[0], net)


def test_checkpoints_from_before_there_were_kinds(net: GraphKernelNetwork, folder: Path) -> None:
    change(folder, kind=None)
    assert_same_weights(load_checkpoint(folder)[0], net)


def test_a_config_of_an_earlier_version(tmp_path: Path) -> None:
    """As the first version with stacks wrote it, key for key."""
    network = {
        "node_dims": [119, 5],
        "num_edge_types": 60,
        "num_tasks": 1,
        "task": "regression",
        "hidden_channels": 8,
        "num_layers": 2,
        "walk_length": 2,
        "decay": "gated",
        "compose": "mul",
        "jumping": "cat",
        "virtual_node": False,
        "layer_dropout": 0.0,
        "residual": True,
        "layer_norm": True,
        "pooling": "sum",
        "norm": True,
        "dropout": 0.0,
        "num_node_values": 0,
        "num_graph_values": 0,
        "quotient": "auto",
    }
    net = KernelStackNetwork(**network)
    assert net.config == network | {
        "in_channels": 0,
        "loss": "squared",
        "quantiles": None,
        "edge_values": [],
    }
    config = {"format": "wlkernelnn.checkpoint/1", "kind": "KernelStackNetwork", "network": network}
    (tmp_path / "config.json").write_text(json.dumps(config | {"about": ABOUT}))
    write_tensors(tmp_path / "model.safetensors", net.state_dict(), {"format": config["format"]})
    again, about = load_checkpoint(tmp_path)
    assert isinstance(again, KernelStackNetwork)
    assert about == ABOUT
    assert_same_weights(again, net)


TOKENS, VECTORS = torch.tensor([0, 1, 2, 3, 4]), torch.linspace(-1, 1, 40).reshape(5, 8)
STRINGS: dict[str, tuple[Any, torch.Tensor]] = {
    "layers": (lambda: LanguageModel(7, StringKernelNetwork(8, 8, num_layers=2, feedback=True)), TOKENS),
    "lazy": (lambda: LanguageModel(7, Stack([RKM(8, 8), RKM(-1, 8)]), dropout=(0.1, 0.2)), TOKENS),
    "dropped weight": (lambda: LanguageModel(7, WeightDrop(RKM(8, 8), "lin_h.weight", 0.5)), TOKENS),
    "trees": (lambda: LanguageModel(7, RRNN(8, 8, rounds=2)), TOKENS),
    "tree of GRU": (lambda: RRNNGRU(8, 8), VECTORS),
    "text": (lambda: TextNetwork(torch.nn.Embedding(7, 8), RKM(-1, 8), 3), TOKENS),
    "classes": (lambda: StringNetwork(StringKernelConv(8, 8), 3, hidden_channels=5), VECTORS),
    "machine": (lambda: RecurrentKernelMachine(8, 8, kernel=PolynomialKernel(2)), VECTORS),
}


@pytest.mark.parametrize("name", STRINGS)
def test_models_of_strings_come_back(name: str, tmp_path: Path) -> None:
    make, x = STRINGS[name]
    ptr = torch.tensor([0, 2, 5])
    model = make().eval()
    expected = model(x, ptr)
    save_checkpoint(tmp_path, model, ABOUT)
    again, about = load_checkpoint(tmp_path)
    assert about == ABOUT
    assert type(again) is type(model)
    torch.testing.assert_close(again(x, ptr), expected, rtol=0, atol=0)


def test_what_no_config_can_say(tmp_path: Path) -> None:
    act = StringKernelConv(8, 8, act=torch.nn.Softplus())
    with pytest.raises(ValueError, match=r"StringKernelConv cannot be saved: .*Softplus is not JSON"):
        save_checkpoint(tmp_path, act)
    layer = RKM(8, 8)
    torch.nn.utils.parametrizations.weight_norm(layer.lin_h)
    with pytest.raises(ValueError, match="RKM cannot be saved: it has other weights"):
        save_checkpoint(tmp_path, layer)


def test_other_networks_are_refused(tmp_path: Path) -> None:
    class Mine(KernelStackNetwork):
        pass

    with pytest.raises(ValueError, match=r"expected a model of GraphKernelNetwork, KernelStack.*got Mine"):
        save_checkpoint(tmp_path, Mine([3]))


def test_weights_that_do_not_fit(folder: Path) -> None:
    change(folder, network__hidden_channels=9)
    with pytest.raises(
        ValueError, match=r"model\.safetensors: the weights don't fit .*config\.json: .*size mis"
    ):
        load_checkpoint(folder)


def test_weights_that_are_missing(net: GraphKernelNetwork, folder: Path) -> None:
    weights = net.state_dict()
    del weights["target_mean"]
    write_tensors(folder / "model.safetensors", weights, {})
    with pytest.raises(ValueError, match=r"don't fit .*Missing key.*target_mean") as caught:
        load_checkpoint(folder)
    assert "\n" not in str(caught.value)


def test_a_vocabulary_beside_a_model(tmp_path: Path) -> None:
    vocabulary = Vocabulary(["<unk>", "a", "ß"], unknown="<unk>")
    model = LanguageModel(3, RKM(4, 4))
    save_checkpoint(tmp_path, model, vocabulary=vocabulary)
    assert Vocabulary.load(tmp_path / "vocabulary.json") == vocabulary
    assert load_vocabulary(tmp_path, load_checkpoint(tmp_path)[0]) == vocabulary
    with pytest.raises(ValueError, match="a vocabulary of 3 tokens, but the model reads 4"):
        save_checkpoint(tmp_path / "other", LanguageModel(4, RKM(4, 4)), vocabulary=vocabulary)
    with pytest.raises(ValueError, match="but the model reads 0"):
        save_checkpoint(tmp_path / "other", RKM(4, 4), vocabulary=vocabulary)
    assert not (tmp_path / "other").exists()
    Vocabulary(["<unk>", "ß", "a"], unknown="<unk>").save(tmp_path / "vocabulary.json")
    with pytest.raises(ValueError, match=r"vocabulary\.json: damaged, or another file than the one written"):
        load_vocabulary(tmp_path, model)
    edit(tmp_path / "config.json", {"files": {}})
    Vocabulary(["a"]).save(tmp_path / "vocabulary.json")
    with pytest.raises(ValueError, match=r"vocabulary\.json: a vocabulary of 1 tokens"):
        load_vocabulary(tmp_path, model)


def test_embeddings_come_back_as_they_were(tmp_path: Path) -> None:
    embedding = torch.nn.Embedding(5, 4, padding_idx=0, max_norm=0.1, _freeze=True)
    network = TextNetwork(embedding, RKM(4, 3), 2)
    expected = network(torch.arange(5), [0, 3, 5])
    save_checkpoint(tmp_path, network)
    again, _ = load_checkpoint(tmp_path)
    assert not again.embedding.weight.requires_grad
    assert all(parameter.requires_grad for parameter in again.encoder.parameters())
    assert (again.embedding.max_norm, again.embedding.padding_idx) == (0.1, 0)
    assert torch.equal(again.embedding.weight, embedding.weight)
    # A call scales rows to max_norm once more, which may round otherwise.
    torch.testing.assert_close(again(torch.arange(5), [0, 3, 5]), expected)
