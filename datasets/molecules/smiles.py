"""SMILES to packed graphs: exact codes, on all cores, and every input accounted for.

Asking RDKit's Python objects for nine properties of each atom takes twice as long as parsing. But a data set
has few kinds of atoms, so each kind is asked only once: the binary form of a molecule gives, in one call, all
that RDKit stores with its atoms and bonds. Two atoms with the same stored bytes, the same degree and the same
membership in rings are of one kind, two bonds with the same stored bytes and membership likewise.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from typing import Any

import cloudpickle
import joblib
import numpy as np
import pandas as pd
import torch
from rdkit import Chem, rdBase
from rich.console import Console
from rich.progress import Progress

from wlkernelnn.datasets.files.rejects import Reject
from wlkernelnn.datasets.graphs.arrays import Arrays, distinct_rows, pack_strings, smallest
from wlkernelnn.datasets.graphs.description import Description
from wlkernelnn.datasets.graphs.packed import PackedGraphs
from wlkernelnn.datasets.graphs.random_walks import UNITS, walk_encodings
from wlkernelnn.ops.colours import packed_columns
from wlkernelnn.ops.colours.refine import numbered
from wlkernelnn.ops.spans import bounds_of

from .additions import descriptors, morgan_counts, pharmacophores, ring_counts
from .features import Features, get_features
from .rdkit_reader import NO_CONFORMERS, Molecules, read_molecules

# Molecules per task: enough to share the kinds of atoms, few enough to keep all processes busy to the end.
CHUNK = 1000
# With fewer molecules the start of processes (0.3 s) takes longer than it saves.
PARALLEL_FROM = 5000


def featurize(
    smiles: Sequence[object],
    *,
    features: str = "ogb",
    rows: Sequence[int] | None = None,
    num_workers: int | None = None,
    progress: bool = False,
) -> tuple[PackedGraphs, list[Reject]]:
    """Turn SMILES into graphs with integer codes.

    Every input becomes either a graph or a :class:`~wlkernelnn.datasets.Reject`; duplicates are kept. The
    result does not depend on the number of processes.

    Args:
        smiles: One SMILES per molecule. Anything else (``None``, NaN, a number, a blank or malformed string,
            a name after the SMILES) is rejected.
        features: Name of the columns of codes, see :func:`~wlkernelnn.datasets.get_features`.
        rows: Row to report for each input, default 0 … n−1.
        num_workers: Processes to start; 0 works in this one. Default: one per core if there are many SMILES.
        progress: Show a progress bar on stderr.

    Returns:
        The graphs with their rows and SMILES (without targets), and the rejects, both in the order of the
        input.

    Raises:
        TypeError: ``smiles`` is a single string.
        ValueError: Unknown ``features``, negative ``num_workers``, or not one row per SMILES.
    """
    columns = get_features(features)
    if isinstance(smiles, str | bytes):
        raise TypeError(f"smiles must be a sequence of SMILES, got one string: {_shown(smiles)}")
    inputs = list(smiles)
    numbers = list(range(len(inputs))) if rows is None else [int(row) for row in rows]
    if len(numbers) != len(inputs):
        raise ValueError(f"rows must have one entry per SMILES, got {len(numbers)} for {len(inputs)} SMILES")
    if num_workers is not None and num_workers < 0:
        raise ValueError(f"num_workers must be at least 0, got {num_workers}")

    reasons = {place: reason for place, value in enumerate(inputs) if (reason := _defect(value))}
    places = [place for place in range(len(inputs)) if place not in reasons]
    texts = [str(inputs[place]).strip() for place in places]
    chunks = [texts[begin : begin + CHUNK] for begin in range(0, len(texts), CHUNK)]
    if num_workers is None:
        num_workers = joblib.cpu_count() if len(texts) >= PARALLEL_FROM else 0

    parts = [_featurize_chunk([], columns)[0]]
    with Progress(console=Console(stderr=True), disable=not progress) as bar:
        task = bar.add_task("Featurizing", total=len(texts))
        work = partial(_featurize_chunk, features=columns)
        num_workers = min(num_workers, len(chunks))
        done = _in_processes(work, chunks, num_workers) if num_workers else map(work, chunks)
        for number, (part, bad) in enumerate(done):
            parts.append(part)
            reasons |= {places[number * CHUNK + position]: reason for position, reason in bad.items()}
            bar.advance(task, len(chunks[number]))

    kept = [(numbers[place], text) for place, text in zip(places, texts, strict=True) if place not in reasons]
    arrays = _merge(parts, [row for row, _ in kept], [text for _, text in kept])
    description = Description(
        features=features,
        node_dims=columns.node_dims,
        num_edge_types=columns.num_edge_types,
        num_node_values=columns.num_node_values,
        num_graph_values=columns.num_graph_values,
        is_undirected=True,
    )
    rejects = [Reject(numbers[place], inputs[place], reasons[place]) for place in sorted(reasons)]
    return PackedGraphs(arrays, description, rejects=rejects), rejects


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _defect(value: Any) -> str:
    """Why ``value`` cannot be the SMILES of one molecule, or ``""`` if it may be.

    RDKit itself stops reading, without a word, at a blank and at any character beyond ASCII.
    """
    if not isinstance(value, str):
        if pd.api.types.is_scalar(value) and pd.isna(value):
            return f"missing ({value})"
        return f"not a string but {type(value).__name__}: {_shown(value)}"
    text = value.strip()
    if not text:
        return "blank" if value else "empty"
    if text.isascii() and text.isprintable() and " " not in text:
        return ""
    word, *rest = text.split(maxsplit=1)
    if rest:
        what = (
            "line break in the SMILES, before" if "\n" in text or "\r" in text else "text after the SMILES:"
        )
        return f"{what} {_shown(rest[0])}"
    place, character = next((i, c) for i, c in enumerate(word, 1) if not (c.isascii() and c.isprintable()))
    return f"character {character!r} at position {place} does not belong in a SMILES"


# Featurizing a chunk. Other processes get these functions without our package (see _ByValue), so that they
# load RDKit and numpy but not torch.

Part = dict[str, np.ndarray]


def _featurize_chunk(smiles: Sequence[str], features: Features) -> tuple[Part, dict[int, str]]:
    """Featurize some SMILES.

    Returns:
        The arrays of the molecules end to end (``node_type`` refers to the part's own ``node_table``), and
        the reason for each position that is no molecule.
    """
    # The molecules themselves are not kept: the fresh memory that this takes costs too much.
    binaries: list[bytes] = []
    texts: list[str] = []
    per_atom: list[int] = []
    graph_values: list[np.ndarray] = []
    reasons: dict[int, str] = {}
    # Names and extensions stand behind a blank, and there is none: not to look for them takes less time.
    plain = Chem.SmilesParserParams()
    plain.parseName = False  # type: ignore[assignment]
    plain.allowCXSMILES = False  # type: ignore[assignment]
    with rdBase.BlockLogs():
        for position, text in enumerate(smiles):
            molecule, reason = _parse(text, plain)
            if molecule is None:
                reasons[position] = reason
                continue
            binaries.append(molecule.ToBinary(NO_CONFORMERS))
            texts.append(text)
            if features.pharmacophores:
                per_atom.extend(pharmacophores(molecule))
            if features.graph_values == "morgan":
                graph_values.append(morgan_counts(molecule))
            elif features.graph_values == "rdkit":
                graph_values.append(descriptors(molecule))
        part = _encode(read_molecules(binaries), texts, np.array(per_atom, dtype=np.int64), features)
    dtype = np.float32 if features.graph_values == "rdkit" else np.uint8
    shape = len(graph_values), features.num_graph_values
    part["graph_x"] = np.array(graph_values, dtype=dtype).reshape(shape)
    return part, reasons


def _encode(read: Molecules, smiles: Sequence[str], per_atom: np.ndarray, features: Features) -> Part:
    """The arrays of some molecules end to end; ``per_atom`` are their pharmacophoric features."""
    num_atoms, num_bonds = read.num_atoms, read.num_bonds
    atom_start, bond_start = np.cumsum(num_atoms) - num_atoms, np.cumsum(num_bonds) - num_bonds
    # From here on atoms are counted through the chunk. Edges: each bond forwards, then each bond backwards.
    total, half = int(num_atoms.sum()), int(num_bonds.sum())
    begin, end = read.ends.reshape(-1, 2).T + np.repeat(atom_start, num_bonds)
    key = np.concatenate([end * total + begin, begin * total + end])
    order = np.argsort(key)
    key = key[order]
    bond_of_edge = order % max(half, 1)
    target, source = np.divmod(key, max(total, 1))
    degree = np.bincount(target, minlength=total)

    around = read.members + np.repeat(atom_start, read.num_members)
    last = np.cumsum(read.ring_sizes) - 1
    after = np.roll(around, -1)
    after[last] = around[last + 1 - read.ring_sizes]
    atom_in_ring = np.zeros(total, dtype=np.int64)
    atom_in_ring[around] = 1
    bond_in_ring = np.zeros(half, dtype=np.int64)
    bond_in_ring[bond_of_edge[np.searchsorted(key, after * total + around)]] = 1

    # One atom and one bond of each kind are asked for their codes.
    molecule = cache(lambda number: Chem.MolFromSmiles(smiles[number]))

    def examples(index: np.ndarray, starts: np.ndarray) -> Iterator[tuple[Chem.Mol, int]]:
        owner = np.searchsorted(starts, index, side="right") - 1
        for number, local in zip(owner.tolist(), (index - starts[owner]).tolist(), strict=True):
            yield molecule(number), local

    kind = read.atoms * (degree.max(initial=0) + 1) + degree
    node_type, first = numbered(kind * 2 + atom_in_ring)
    codes = [features.atom_codes(m.GetAtomWithIdx(i)) for m, i in examples(first, atom_start)]
    node_table = np.array(codes, dtype=np.int64).reshape(-1, len(features.atom))
    if features.rings:
        counts = ring_counts(read.ring_sizes, around, total)
        node_type, node_table = _with_values(node_type, node_table, counts)
    if features.pharmacophores:
        node_type, node_table = _with_values(node_type, node_table, per_atom[:, None])
    if features.num_node_values:
        walks = walk_encodings(source, target, num_atoms, features.num_node_values)
        node_type, node_table = _with_values(node_type, node_table, walks)
    bond_type, first = numbered(read.bonds * 2 + bond_in_ring)
    bond_table = [features.bond_code(m.GetBondWithIdx(i)) for m, i in examples(first, bond_start)]
    part = {
        "node_type": node_type,
        "node_table": node_table,
        "source": source - np.repeat(atom_start, 2 * num_bonds),
        "in_degree": degree,
        "edge_type": np.array(bond_table, dtype=np.int64)[bond_type[bond_of_edge]],
        "num_nodes": num_atoms,
        "num_edges": 2 * num_bonds,
    }
    # Non-negative integers in the smallest type: faster to sort and to send.
    return {name: values.astype(np.min_scalar_type(values.max(initial=0))) for name, values in part.items()}


def _with_values(
    node_type: np.ndarray, node_table: np.ndarray, values: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Rows of codes with numbers behind them, each once: which has a node, and these rows."""
    sizes = [len(node_table)] + [UNITS + 1] * values.shape[1]
    row, first = numbered(packed_columns([node_type, *values.T.astype(np.int64)], sizes))
    return row, np.concatenate([node_table[node_type[first]], values[first]], axis=1)


def _parse(smiles: str, params: Chem.SmilesParserParams) -> tuple[Chem.Mol | None, str]:
    """The molecule, or ``None`` and the reason."""
    try:
        molecule = Chem.MolFromSmiles(smiles, params)
    except Exception as error:  # Boost.Python lets through whatever RDKit throws
        return None, f"RDKit fails with {type(error).__name__}: {str(error).strip()[:200]}"
    if molecule is not None:
        return (molecule, "") if molecule.GetNumAtoms() else (None, "no atoms")
    with rdBase.CaptureErrorLog() as log:
        Chem.MolFromSmiles(smiles)
    # Without times, drawings and stack traces.
    lines = (line.partition("] ")[2] if line.startswith("[") else line for line in log.messages.splitlines())
    said = dict.fromkeys(line.strip(" :")[:200] for line in lines if line.strip(" *~^"))
    return None, "; ".join(list(said)[:2])


# The modules of our package that all of this is in.
_MODULES = sorted(
    {
        part.__module__
        for part in (
            _featurize_chunk,
            Features,
            ring_counts,
            read_molecules,
            walk_encodings,
            packed_columns,
            bounds_of,
        )
    }
)


# From chunks to the whole.


class _ByValue:
    """A function that other processes get as code instead of as a name to import.

    To import our package is to import torch, which takes longer than featurizing 20,000 molecules.
    """

    _registry = threading.Lock()

    def __init__(self, function: Callable[..., Any], modules: Sequence[str]) -> None:
        self.function = function
        with self._registry:
            for name in modules:
                cloudpickle.register_pickle_by_value(sys.modules[name])
            try:
                self.code = cloudpickle.dumps(function)
            finally:
                for name in modules:
                    cloudpickle.unregister_pickle_by_value(sys.modules[name])

    def __call__(self, *args: Any) -> Any:
        return self.function(*args)

    def __reduce__(self) -> Any:
        return cloudpickle.loads, (self.code,)


def _in_processes(
    work: Callable[[Sequence[str]], tuple[Part, dict[int, str]]], chunks: Sequence[Sequence[str]], number: int
) -> Iterator[tuple[Part, dict[int, str]]]:
    """Featurize the chunks in other processes, and yield the results in order."""
    # joblib starts its processes afresh (a fork would inherit locks that torch's threads hold), and they do
    # not run the caller's script again as those of multiprocessing do.
    remote = joblib.delayed(_ByValue(work, _MODULES))
    parallel = joblib.Parallel(number, backend="loky", return_as="generator", batch_size=1)
    yield from parallel(remote(chunk) for chunk in chunks)


def _merge(parts: Sequence[Part], rows: Sequence[int], smiles: Sequence[str]) -> Arrays:
    """The arrays of all parts, with one table of node codes, sorted as :meth:`PackedGraphs.pack` does."""
    whole = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    table, place = distinct_rows(whole["node_table"])
    shift = np.cumsum([0, *(len(part["node_table"]) for part in parts[:-1])])
    kind = whole["node_type"] + np.repeat(shift, [len(part["node_type"]) for part in parts])
    text, text_ptr = pack_strings(smiles)
    return Arrays(
        node_type=smallest(place[kind]),
        node_table=smallest(table),
        source=smallest(whole["source"]),
        in_degree=smallest(whole["in_degree"]),
        edge_type=smallest(whole["edge_type"]),
        node_ptr=torch.from_numpy(bounds_of(whole["num_nodes"])),
        edge_ptr=torch.from_numpy(bounds_of(whole["num_edges"])),
        y=torch.zeros((len(rows), 0)),
        row=torch.tensor(rows, dtype=torch.int64),
        smiles=text,
        smiles_ptr=text_ptr,
        graph_x=torch.from_numpy(whole["graph_x"]),
    )
