"""Files with single bits or bytes changed: the same result, or an error that names the file."""

from __future__ import annotations

import json
import os
import shutil
import struct
import warnings
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.inputs.edited import edit
from tests.inputs.molecules import assert_same_weights, quick, regression_set, small_network
from wlkernelnn.datasets import PackedGraphs
from wlkernelnn.datasets.graphs.store_cache import cached_store
from wlkernelnn.training import fit, load_checkpoint, save_checkpoint
from wlkernelnn.utils.files import read_json, write_tensors

ABOUT = {"features": "ogb", "target_names": ["Act"], "task": "regression", "metric": "rmse"}
# The long version is run by pytest -m slow.
COUNTS = [pytest.param(60, id="some"), pytest.param(2000, id="many", marks=pytest.mark.slow)]


def mutated(content: bytes, random: np.random.Generator) -> bytes:
    """With a bit flipped, a byte replaced, some bytes taken away or put in, or cut."""
    place, kind = int(random.integers(len(content))), random.integers(5)
    before, byte, after = content[:place], content[place], content[place + 1 :]
    if kind == 0:
        return before + bytes([byte ^ 1 << int(random.integers(8))]) + after
    if kind == 1:
        return before + bytes([int(random.choice([*b'0123456789[]{}",:-.e \n', 0, 255]))]) + after
    if kind == 2:
        return before + after[int(random.integers(8)) :]
    return before if kind == 3 else before + random.bytes(int(random.integers(1, 8))) + content[place:]


def check_mutations(path: Path, count: int, load: Callable[[], Any], check: Callable[[Any], None]) -> int:
    """Load after each of ``count`` mutations of a file; how many were refused."""
    content, random, refused = path.read_bytes(), np.random.default_rng(0), 0
    for _ in range(count):
        path.write_bytes(mutated(content, random))
        try:
            result = load()
        except (ValueError, FileNotFoundError) as error:
            message = str(error)
        else:
            check(result)
            continue
        assert str(path.parent) in message
        assert len(message) < 3000
        refused += 1
    path.write_bytes(content)
    return refused


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    save_checkpoint(tmp_path, small_network(regression_set()), ABOUT)
    return tmp_path


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("name", ["config.json", "model.safetensors"])
def test_mutated_checkpoints(folder: Path, name: str, count: int) -> None:
    net = small_network(regression_set())

    def check(loaded: tuple[Any, dict[str, Any]]) -> None:
        assert_same_weights(loaded[0], net)
        assert (loaded[0].config, loaded[1]) == (net.config, ABOUT)

    assert check_mutations(folder / name, count, lambda: load_checkpoint(folder), check) > 0.8 * count


@pytest.mark.parametrize("count", COUNTS)
def test_mutated_configs_without_a_digest(folder: Path, count: int) -> None:
    """As those of earlier versions: what is loaded may be another network, but no error is a traceback."""
    edit(folder / "config.json", {})
    check_mutations(folder / "config.json", count, lambda: load_checkpoint(folder), lambda loaded: None)


@pytest.mark.parametrize("count", COUNTS)
def test_mutated_stores(tmp_path: Path, count: int) -> None:
    data, path = regression_set(), tmp_path / "data.safetensors"
    data.save(path)

    def check(loaded: PackedGraphs) -> None:
        assert loaded.digest() == data.digest()
        assert asdict(loaded.description) == asdict(data.description)
        assert (loaded.smiles, loaded.rejects) == (data.smiles, data.rejects)

    assert check_mutations(path, count, lambda: PackedGraphs.load(path), check) > 0.9 * count


def test_a_damaged_or_exchanged_cache_is_built_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WLKERNELNN_CACHE", str(tmp_path))
    data = regression_set()
    cached_store("one", lambda: data)
    cached_store("two", lambda: data[:7].compact())
    one, two = (tmp_path / "packed" / f"{name}.safetensors" for name in ("one", "two"))
    content = one.read_bytes()
    place = content.index(data.arrays.y.numpy().tobytes())

    def again() -> PackedGraphs:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            return cached_store("one", lambda: pytest.fail("built again"))

    assert again().digest() == data.digest()
    for damage in (content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :], two.read_bytes()):
        one.write_bytes(damage)
        with pytest.warns(UserWarning, match=r"damaged cache, built again: .*one\.safetensors") as told:
            assert cached_store("one", lambda: data).digest() == data.digest()
        assert len(told) == 1
        assert again().digest() == data.digest()


def test_files_of_two_checkpoints(folder: Path, tmp_path: Path) -> None:
    """Weights and config belong together, though both are whole."""
    save_checkpoint(tmp_path / "other", small_network(regression_set(), seed=1), ABOUT)
    shutil.copy(tmp_path / "other" / "model.safetensors", folder)
    with pytest.raises(ValueError, match=r"model\.safetensors: another file than the one that was written"):
        load_checkpoint(folder)


def test_files_of_earlier_versions_have_no_digests(folder: Path) -> None:
    net = small_network(regression_set())
    path = folder / "model.safetensors"
    weights = {name: tensor.clone() for name, tensor in net.state_dict().items()}
    write_tensors(path, weights, {})
    content = path.read_bytes()
    (size,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8 : 8 + size])
    del header["__metadata__"]["digest"]
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + content[8 + size :])
    edit(folder / "config.json", {"files": {}})
    assert_same_weights(load_checkpoint(folder)[0], net)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"node_dims": [10**12]}, "size mismatch"),
        ({"hidden_channels": 10**9}, "size mismatch"),
        ({"num_tasks": 10**12}, "size mismatch"),
        ({"walk_length": 10**6}, "walk_length must be at most 1,000 in a file, got 1,000,000"),
        ({"num_iterations": 10**6}, "num_iterations must be at most 1,000 in a file"),
        (
            {"num_iterations": 1000, "share_walk_weights": False, "readout": "sum"},
            r"make more than [\d,]+ parts",
        ),
        ({"node_dims": list(range(1, 100_000))}, "node_dims|size mismatch|parts"),
    ],
)
def test_hostile_sizes(folder: Path, change: dict[str, Any], message: str) -> None:
    """Nothing of such a size is made: this test has neither the memory nor the time."""
    config = read_json(folder / "config.json")
    edit(folder / "config.json", {"network": config["network"] | change})
    with pytest.raises(ValueError, match=message):
        load_checkpoint(folder)


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 100_000, "[" * 100_000 + "]" * 100_000])
def test_deep_json(folder: Path, text: str) -> None:
    (folder / "config.json").write_text(text)
    with pytest.raises(ValueError, match=r"config\.json: not JSON"):
        load_checkpoint(folder)


def test_metadata_that_are_a_list(folder: Path) -> None:
    write_tensors(folder / "model.safetensors", {}, [1])  # type: ignore[arg-type]
    edit(folder / "config.json", {"files": {}})
    with pytest.raises(ValueError, match=r"model\.safetensors"):
        load_checkpoint(folder)
    with pytest.raises(ValueError, match=r"model\.safetensors: .*header: expected an object, got \[1\]"):
        PackedGraphs.load(folder / "model.safetensors")


def test_loading_draws_nothing(folder: Path) -> None:
    state = torch.get_rng_state()
    load_checkpoint(folder)
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_weights_that_are_not_finite(folder: Path, value: float) -> None:
    net = small_network(regression_set())
    with torch.no_grad():
        next(net.parameters())[0, 0] = value
    with pytest.raises(ValueError, match=r"cannot be saved: encoder\S+ has values that are not finite"):
        save_checkpoint(folder, net, ABOUT)
    write_tensors(folder / "model.safetensors", net.state_dict(), {})
    edit(folder / "config.json", {"files": {}})
    with pytest.raises(ValueError, match=r"model\.safetensors: encoder\S+ has values that are not finite"):
        load_checkpoint(folder)


class Command:
    """Makes a folder when it is unpickled."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, ("unpickled",)


@pytest.mark.parametrize("name", ["last.ckpt", "best.ckpt"])
def test_a_planted_pickle_does_not_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The checkpoints of an unfinished training are Lightning's, which are pickled."""
    data = regression_set()
    train = partial(fit, small_network(data), data[:40], data[40:], progress=False, directory=tmp_path)
    train(quick(epochs=1))
    monkeypatch.chdir(tmp_path)
    torch.save({"state_dict": Command()}, tmp_path / name)
    with pytest.raises(ValueError, match=f"{name}: missing or not a whole checkpoint; delete"):
        train(quick(epochs=2), resume=True)
    assert not Path("unpickled").exists()
