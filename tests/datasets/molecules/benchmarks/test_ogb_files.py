from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.inputs.ogb_files import SMILES, write_set
from wlkernelnn.datasets import load_ogb


@pytest.fixture
def esol(tmp_path: Path) -> Path:
    """A set like ogbg-molesol in ``tmp_path``."""
    return write_set(tmp_path, "ogbg-molesol", SMILES, np.linspace(-2, 3, 8)[:, None], ["y"])


def edited(change: Callable[[list[str]], object]) -> Callable[[bytes], bytes]:
    def edit(content: bytes) -> bytes:
        lines = gzip.decompress(content).decode().splitlines()
        change(lines)
        return gzip.compress("\n".join(lines).encode())

    return edit


def put(line: int, text: str) -> Callable[[bytes], bytes]:
    return edited(lambda lines: lines.__setitem__(line - 1, text))


@pytest.mark.parametrize(
    ("file", "change", "message"),
    [
        (
            "raw/node-feat",
            put(3, "5,0,4,5,x,0,2,0,0"),
            "node-feat.csv.gz, line 3: expected numbers .* got '5,0",
        ),
        ("raw/node-feat", put(3, "5,0,4,5"), "line 3: expected 9 values as in line 1, got 4"),
        (
            "raw/node-feat",
            put(3, "5,0,12,5,1,0,2,0,0"),
            "line 3: expected a code of degree, from 0 to 11, got 12",
        ),
        ("raw/node-feat", put(3, "5,0,4.5,5,1,0,2,0,0"), "line 3: expected an integer, got 4.5"),
        (
            "raw/node-feat",
            edited(list.pop),
            r"node-feat.csv.gz: has 28 lines, expected 29, the number of nodes",
        ),
        ("raw/edge", put(2, "1,9"), "edge.csv.gz, line 2: expected a node of its graph, from 0 to 2, got 9"),
        ("raw/edge", put(2, "-1,2"), "edge.csv.gz, line 2: expected a node .* got -1"),
        ("raw/edge-feat", put(4, "0,0,2"), "line 4: expected a code of is_conjugated, from 0 to 1, got 2"),
        ("raw/edge-feat", edited(list.pop), "edge-feat.csv.gz: has .* the number of edges"),
        ("raw/num-node-list", put(1, "-3"), "line 1: expected a number of nodes, at least 1, got -3"),
        ("raw/num-node-list", put(3, "0"), "line 3: expected a number of nodes, at least 1, got 0"),
        ("raw/edge", put(2, "1,1"), "edge.csv.gz, line 2: expected a bond of two atoms, got one of atom 1"),
        ("raw/graph-label", put(5, "-1e300"), "line 5: expected a finite number of 32 bits, .* got -1e"),
        ("raw/num-edge-list", edited(list.pop), "has 7 lines, expected 8, the number of graphs"),
        ("raw/graph-label", put(5, "inf"), "line 5: expected a finite number of 32 bits, .* got inf"),
        (
            "raw/graph-label",
            put(5, "1.0,2.0"),
            "graph-label.csv.gz, line 5: expected 1 values as in line 1, got 2",
        ),
        ("raw/graph-label", lambda content: content[:-9], "graph-label.csv.gz: not a whole gzip file"),
        ("mapping/mol", edited(list.pop), "mol.csv.gz: has 7 rows, expected 8, the number of graphs"),
        ("mapping/mol", put(1, "y,text,mol_id"), "mol.csv.gz: no column 'smiles'"),
        ("mapping/mol", put(1, "mol,smiles,y"), "mol.csv.gz: expected a column for each of 1 target"),
        ("split/scaffold/valid", put(1, "8"), "expected the number of a graph, from 0 to 7, got 8"),
        ("split/scaffold/valid", put(1, "2"), "expected every graph in one part, got graph 1 0 times"),
        ("split/scaffold/valid", put(2, "first"), "valid.csv.gz, line 2: expected numbers .* got 'first'"),
    ],
)
def test_malformed_files(esol: Path, file: str, change: Callable[[bytes], bytes], message: str) -> None:
    path = esol / f"{file}.csv.gz"
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(ValueError, match=message):
        load_ogb("ogbg-molesol", esol.parents[1])


def test_a_class_is_0_or_1(tmp_path: Path) -> None:
    y = np.array([0, 1, 0, 2, 1, 0, 1, 0])[:, None]
    write_set(tmp_path, "ogbg-molbbbp", SMILES, y, ["p_np"])
    with pytest.raises(ValueError, match=r"graph-label\.csv\.gz, line 4: expected 0 or 1, .* got 2"):
        load_ogb("ogbg-molbbbp", tmp_path)


def test_a_file_that_is_missing(esol: Path) -> None:
    (esol / "split" / "scaffold" / "test.csv.gz").unlink()
    with pytest.raises(FileNotFoundError, match=r"test\.csv\.gz: no such file"):
        load_ogb("ogbg-molesol", esol.parents[1])
