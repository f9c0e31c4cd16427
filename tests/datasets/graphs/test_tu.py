from __future__ import annotations

import logging
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch_geometric.io import read_tu_data

from wlkernelnn.datasets import PackedGraphs, PackedLoader, load_tu
from wlkernelnn.datasets.graphs import tu
from wlkernelnn.models import GraphKernelNetwork

# A path of three nodes and an edge; the nodes of the graphs are not sorted.
TINY = {
    "graph_indicator": "1\n1\n2\n1\n2\n",
    "A": "1, 2\n2, 1\n3, 5\n5, 3\n2, 4\n",
    "graph_labels": "7\n-1\n",
    "node_labels": "6, 0\n8, 1\n6, 0\n-3, 1\n8, 0\n",
    "edge_labels": "4\n4\n0\n0\n9\n",
}


def write(folder: Path, name: str = "TINY", **parts: str | None) -> Path:
    """Write the tiny set, with other contents for some files (``None``: without it)."""
    folder.mkdir(parents=True, exist_ok=True)
    for part, text in (TINY | parts).items():
        if text is not None:
            (folder / f"{name}_{part}.txt").write_bytes(text.encode())
    return folder


def flat(data: PackedGraphs) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """x, edge_index over all graphs, and edge_type, through the loader."""
    batch = next(iter(PackedLoader(data, len(data))))
    return batch.x.numpy(), batch.edge_index.as_tensor().numpy(), batch.edge_type.numpy()


@pytest.mark.parametrize(
    ("name", "graphs", "nodes", "edges", "classes", "node_labels", "edge_labels"),
    [
        ("MUTAG", 188, 17.93, 19.79, (63, 125), 7, 4),
        ("NCI1", 4110, 29.87, 32.30, (2053, 2057), 37, 0),
        ("PROTEINS", 1113, 39.06, 72.82, (663, 450), 3, 0),
        ("ENZYMES", 600, 32.63, 62.14, (100,) * 6, 3, 0),
    ],
)
def test_published_counts_and_pyg(
    data_root: Path,
    name: str,
    graphs: int,
    nodes: float,
    edges: float,
    classes: tuple[int, ...],
    node_labels: int,
    edge_labels: int,
) -> None:
    data = load_tu(name, data_root)
    about = data.description
    assert len(data) == graphs
    assert data.num_nodes_per_graph.mean() == pytest.approx(nodes, abs=0.005)
    # Published are edges of undirected graphs.
    assert data.arrays.source.numel() / 2 / graphs == pytest.approx(edges, abs=0.005)
    assert about.is_undirected
    assert tuple(np.bincount(data.y.numpy()[:, 0].astype(int))) == classes
    assert (about.node_dims, about.num_edge_types) == ((node_labels,), edge_labels)
    assert about.task == ("multiclass" if len(classes) > 2 else "classification")

    theirs, slices, sizes = read_tu_data(str(data_root / "tu" / name), name)
    x, edge_index, edge_type = flat(data)
    labels = theirs.x[:, sizes["num_node_attributes"] :]
    np.testing.assert_array_equal(x[:, 0], labels.argmax(1))
    np.testing.assert_array_equal(data.y[:, 0], theirs.y)
    np.testing.assert_array_equal(data.arrays.node_ptr, slices["x"])
    first = slices["x"][:-1].repeat_interleave(slices["edge_index"].diff())
    pairs = (theirs.edge_index + first).numpy()
    # Theirs are sorted by source and hold every edge once.
    order = np.lexsort(edge_index[::-1])
    np.testing.assert_array_equal(edge_index[:, order], pairs)
    if edge_labels:
        np.testing.assert_array_equal(edge_type[order], theirs.edge_attr.argmax(1))


def test_codes_edges_and_targets_of_a_tiny_set(tmp_path: Path) -> None:
    data = load_tu("TINY", write(tmp_path))
    about = data.description
    assert len(data) == 2
    assert (about.name, about.node_dims, about.num_edge_types) == ("TINY", (3, 2), 3)
    assert (about.task, about.metric, about.target_names) == ("classification", "accuracy", ("class",))
    assert about.classes == ("-1", "7")
    assert not about.is_undirected  # 2, 4 has no way back
    assert data.y.tolist() == [[1.0], [0.0]]
    # Nodes 1, 2, 4 are the first graph, 3 and 5 the second; -3, 6, 8 are 0, 1, 2.
    first, second = data[0], data[1]
    assert first.x.tolist() == [[1, 0], [2, 1], [0, 1]]
    assert second.x.tolist() == [[1, 0], [2, 0]]
    edges = {(s, t): e for s, t, e in zip(*first.edge_index.tolist(), first.edge_type.tolist(), strict=True)}
    assert edges == {(0, 1): 1, (1, 0): 1, (1, 2): 2}
    assert second.edge_index.tolist() == [[1, 0], [0, 1]]
    assert second.edge_type.tolist() == [0, 0]


def test_files_may_be_missing_or_empty_and_edges_repeated(tmp_path: Path) -> None:
    data = load_tu("TINY", write(tmp_path / "bare", node_labels=None, edge_labels=None))
    assert (data.description.node_dims, data.description.num_edge_types) == ((1,), 0)
    assert (flat(data)[0] == 0).all()
    data = load_tu("TINY", write(tmp_path / "edgeless", A="", edge_labels=""))
    assert data.num_nodes_per_graph.tolist() == [3, 2]
    assert data.arrays.source.numel() == 0
    repeated = "1, 2\n1, 2\n4, 4\n"
    data = load_tu("TINY", write(tmp_path / "repeated", A=repeated, edge_labels="1, 5\n1, 4\n0, 5\n"))
    _, edge_index, edge_type = flat(data)
    assert edge_index.tolist() == [[0, 0, 2], [1, 1, 2]]
    assert sorted(edge_type[:2]) == [1, 2]
    assert edge_type[2] == 0
    # A graph without nodes between others.
    data = load_tu("TINY", write(tmp_path / "hole", graph_indicator="1\n1\n3\n1\n3", graph_labels="1\n1\n2"))
    assert data.num_nodes_per_graph.tolist() == [3, 0, 2]


def test_numbers_may_be_written_in_several_ways(tmp_path: Path) -> None:
    plain = load_tu("TINY", write(tmp_path / "plain"))
    other = load_tu(
        "TINY",
        write(
            tmp_path / "other",
            A="1,2\r\n2,1\r\n 3 ,  5\r\n5,3\r\n2,4",
            graph_labels="7.0\n-1e0\n\n\n",
            edge_labels=" 4.000\n 4.000\n 0.000\n 0.000\n 9.000\n",
        ),
    )
    for name, tensor in vars(plain.arrays).items():
        assert tensor.equal(getattr(other.arrays, name)), name


def test_graph_attributes_are_targets_of_a_regression(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    values = "0.25, -1e-3\n nan, 4\n"
    data = load_tu("TINY", write(tmp_path, graph_labels=None, graph_attributes=values))
    np.testing.assert_array_equal(data.y, np.float32([[0.25, -1e-3], [np.nan, 4]]))
    about = data.description
    assert (about.task, about.metric, about.target_names) == (
        "regression",
        "mae",
        ("attribute_1", "attribute_2"),
    )
    assert not caplog.records
    data = load_tu("TINY", write(tmp_path, graph_attributes=values))
    assert data.task == "regression"
    assert "TINY_graph_labels.txt: left out" in caplog.text


def test_attributes_are_left_out_with_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    attributes = {"node_attributes": "0.5\n" * 5, "edge_attributes": "1.5, 2\n" * 5}
    data = load_tu("TINY", write(tmp_path, **attributes))
    warnings = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert len(warnings) == 2
    for part, message in zip(attributes, warnings, strict=True):
        assert str(tmp_path / f"TINY_{part}.txt") in message
        assert ("use_node_attr=True" if part == "node_attributes" else "TUDataset has them") in message
    assert data.description.node_dims == (3, 2)


def test_attributes_of_nodes_are_features(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    plain = load_tu("TINY", write(tmp_path))
    values = np.float32([[0.5, -1], [2, 3], [0.25, 0], [1e-3, 7], [8, 9]])
    write(tmp_path, node_attributes="".join(f"{a}, {b}\n" for a, b in values))
    data = load_tu("TINY", tmp_path, use_node_attr=True)
    assert not caplog.records
    assert (data.description.num_node_features, data.description.node_dims) == (2 + 3 + 2, ())
    for graph, codes in zip(data, plain, strict=True):
        assert graph.x.dtype == torch.float32
        one_hot = [torch.eye(dim)[column] for dim, column in zip((3, 2), codes.x.T, strict=True)]
        torch.testing.assert_close(graph.x[:, 2:], torch.cat(one_hot, dim=1))
        torch.testing.assert_close(graph.edge_index, codes.edge_index)
    found = torch.cat([graph.x[:, :2] for graph in data])
    assert sorted(found.tolist()) == sorted(values.tolist())
    net = GraphKernelNetwork.from_data(data, hidden_channels=4)
    assert net.config["in_channels"] == 7

    both = {"node_attributes": "1\n" * 5, "node_labels": None}
    data = load_tu("TINY", write(tmp_path / "attributes", **both), use_node_attr=True)
    assert data.description.num_node_features == 1


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("1\n2\nnan\n4\n5\n", ValueError, "txt, line 3: expected a finite number of 32 bits, got nan"),
        ("1\n", ValueError, "txt: has 1 lines, expected 5, the number of nodes"),
        (None, FileNotFoundError, "txt: no such file, expected the attributes of nodes"),
    ],
)
def test_wrong_attributes_of_nodes(
    tmp_path: Path, text: str | None, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=f"TINY_node_attributes.{message}"):
        load_tu("TINY", write(tmp_path, node_attributes=text), use_node_attr=True)


def test_networks_have_a_logit_for_each_of_more_than_two_classes(tmp_path: Path) -> None:
    indicator = {"graph_indicator": "1\n2\n3\n", "A": "", "edge_labels": None, "node_labels": None}
    data = load_tu("TINY", write(tmp_path, **indicator, graph_labels="1\n5\n3\n"))
    assert data.task == "multiclass"
    assert data.y.tolist() == [[0.0], [2.0], [1.0]]
    assert data.classes == ("1", "3", "5")
    net = GraphKernelNetwork.from_data(data, hidden_channels=4)
    assert (net.task, net.num_tasks) == ("multiclass", 3)
    (batch,) = PackedLoader(data)
    torch.testing.assert_close(net.predict(batch), net(batch).softmax(dim=1))


@pytest.mark.parametrize(
    ("part", "text", "message"),
    [
        ("A", "1, 2\n2, x\n3, 5\n5, 3\n2, 4\n", r"A\.txt, line 2: expected numbers .* got '2, x'"),
        ("A", "1, 2\n2, 1\n3\n5, 3\n2, 4\n", r"A\.txt, line 3: expected 2 values as in line 1, got 1"),
        ("A", "1, 2\n2, 1, 1\n3, 5\n5, 3\n2, 4\n", r"A\.txt, line 2: expected 2 values as in line 1, got 3"),
        ("A", "1, 2\n\n3, 5\n5, 3\n2, 4\n", r"A\.txt, line 2: expected numbers .* got ''"),
        ("A", "1, 2,\n2, 1,\n3, 5,\n5, 3,\n2, 4,\n", r"A\.txt, line 1: expected numbers .* got '1, 2,'"),
        ("A", "1\n2\n", r"A\.txt, line 1: expected 2 value\(s\) on a line, got 1"),
        ("A", "1, 2\n2, 1.5\n", r"A\.txt, line 2: expected an integer, got 1\.5"),
        ("A", "1, 2\n2, nan\n", r"A\.txt, line 2: expected an integer, got nan"),
        ("A", "1, 2\n2, inf\n", r"A\.txt, line 2: expected an integer, got inf"),
        ("A", "1, 2\n0, 1\n", r"A\.txt, line 2: expected the number of a node, from 1 to 5, got 0"),
        ("A", "1, 2\n2, 6\n", r"A\.txt, line 2: expected the number of a node, from 1 to 5, got 6"),
        ("A", "1, 2\n2, 3\n", r"A\.txt, line 2: node 2 of graph 1 and node 3 of graph 2 are joined"),
        ("graph_indicator", "1\n1\n0\n1\n2\n", r"indicator\.txt, line 3: expected .* at least 1, got 0"),
        ("graph_indicator", "1\n1\n3\n1\n3\n", r"graph_labels\.txt: has 2 lines, expected 3, .* graphs"),
        ("graph_indicator", "1, 1\n", r"indicator\.txt, line 1: expected 1 value\(s\) on a line, got 2"),
        ("graph_labels", "7\n", r"graph_labels\.txt: has 1 lines, expected 2, the number of graphs"),
        ("graph_labels", "7\n1\n1\n", r"graph_labels\.txt: has 3 lines, expected 2, the number of graphs"),
        ("graph_labels", "7\n0.5\n", r"graph_labels\.txt, line 2: expected an integer, got 0\.5"),
        ("graph_attributes", "7\n", r"graph_attributes\.txt: has 1 lines, expected 2"),
        (
            "graph_attributes",
            "7\n1e300\n",
            r"attributes\.txt, line 2: expected a finite .* 32 bits, .* 1e\+300",
        ),
        ("graph_attributes", "inf\n1\n", r"attributes\.txt, line 1: expected a finite .* or NaN .* got inf"),
        ("node_labels", "1\n" * 4, r"node_labels\.txt: has 4 lines, expected 5, the number of nodes"),
        ("edge_labels", "1\n" * 6, r"edge_labels\.txt: has 6 lines, expected 5, the number of edges"),
    ],
)
def test_what_is_wrong_is_said_with_file_and_line(tmp_path: Path, part: str, text: str, message: str) -> None:
    write(tmp_path, **{part: text})
    with pytest.raises(ValueError, match=f"TINY_.*{message}"):
        load_tu("TINY", tmp_path)


@pytest.mark.parametrize("part", ["graph_indicator", "graph_labels"])
def test_a_needed_file_is_missing(tmp_path: Path, part: str) -> None:
    write(tmp_path, **{part: None})
    with pytest.raises(FileNotFoundError, match=rf"TINY_{part}\.txt: no such file"):
        load_tu("TINY", tmp_path)


@pytest.mark.parametrize("place", ["tu/TINY", "TINY", "TINY/raw", "."])
def test_places_in_a_folder(tmp_path: Path, place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / place)
    assert len(load_tu("TINY", tmp_path)) == 2
    monkeypatch.setenv("WLKERNELNN_DATA", str(tmp_path))
    assert len(load_tu("TINY")) == 2


def archive(path: Path, write_into: Callable[[zipfile.ZipFile], None] | None = None) -> Path:
    """A zip file as the publisher's: of the tiny set, or with other contents."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        if write_into is not None:
            write_into(file)
        else:
            for part, text in TINY.items():
                file.writestr(f"TINY/TINY_{part}.txt", text)
            file.writestr("../elsewhere.txt", "not to be written")
    return path


@pytest.fixture
def publisher(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that is downloaded from; the cache is empty."""
    monkeypatch.setattr(tu, "URL", (tmp_path / "publisher").as_uri() + "/{name}.zip")
    monkeypatch.setenv("WLKERNELNN_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("WLKERNELNN_DATA", raising=False)
    return tmp_path / "publisher"


def test_a_download_is_kept_and_read(
    publisher: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    source = archive(publisher / "TINY.zip")
    expected = load_tu("TINY", write(tmp_path / "TINY"))
    data = load_tu("TINY")
    assert "no checksum is known" in caplog.text
    source.unlink()
    again = load_tu("TINY")
    for name, tensor in vars(expected.arrays).items():
        assert tensor.equal(getattr(data.arrays, name)), name
        assert tensor.equal(getattr(again.arrays, name)), name
    assert data.description == expected.description
    kept = tmp_path / "cache" / "data" / "tu"
    assert {path.parent for path in kept.rglob("*.txt")} == {kept / "TINY"}
    assert not list(tmp_path.rglob("elsewhere.txt"))
    # A zip file that lies there is read as it is, and errors inside name it as well.
    shutil.rmtree(kept / "TINY")
    archive(
        kept / "TINY.zip",
        lambda file: [file.writestr(f"TINY/TINY_{k}.txt", v) for k, v in (TINY | {"A": "9"}).items()],
    )
    with pytest.raises(ValueError, match=r"TINY\.zip/TINY/TINY_A\.txt, line 1: expected 2 value"):
        load_tu("TINY")


def test_a_set_that_is_nowhere(publisher: Path) -> None:
    missing = r"TINY: there is no tu/TINY/TINY_A\.txt in .*could not be downl"
    with pytest.raises(FileNotFoundError, match=missing):
        load_tu("TINY")


def test_a_damaged_zip_file_is_named(publisher: Path, tmp_path: Path) -> None:
    path = archive(tmp_path / "cache" / "data" / "tu" / "TINY.zip")
    content = bytearray(path.read_bytes())
    content[60] ^= 0xFF  # inside the first file's data
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"TINY\.zip: not a whole zip file .* delete it"):
        load_tu("TINY")
    path.write_bytes(content[:200])
    with pytest.raises(ValueError, match=r"TINY\.zip: not a whole zip file .* delete it"):
        load_tu("TINY")


@pytest.mark.parametrize("name", ["", "../MUTAG", "tu/MUTAG"])
def test_an_impossible_name(name: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="name must be that of a TU data set"):
        load_tu(name, tmp_path)
