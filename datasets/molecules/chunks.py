"""Some SMILES to arrays, here or in other processes.

Asking RDKit's Python objects for nine properties of each atom takes twice as long as parsing. But a data set
has few kinds of atoms, so each kind is asked only once: the binary form of a molecule gives, in one call, all
that RDKit stores with its atoms and bonds. Two atoms with the same stored bytes, the same degree and the same
membership in rings are of one kind, two bonds with the same stored bytes and membership likewise.

Other processes get these functions as code: to import our package is to import torch, which takes longer than
featurizing 20,000 molecules.
"""

from __future__ import annotations

import multiprocessing
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from typing import Any

import cloudpickle
import joblib
import numpy as np
from joblib.externals.loky import get_reusable_executor
from rdkit import Chem, rdBase

from wlkernelnn.datasets.chemistry.maps import unmapped
from wlkernelnn.datasets.chemistry.perception import FIXED, Perception
from wlkernelnn.datasets.chemistry.standardize import standardize_chunk
from wlkernelnn.datasets.graphs.random_walks import UNITS, walk_encodings
from wlkernelnn.ops.colours import packed_columns
from wlkernelnn.ops.colours.refine import numbered
from wlkernelnn.ops.spans import bounds_of

from .additions import descriptors, morgan_counts, pharmacophores, ring_counts
from .features import Features
from .rdkit_reader import NO_CONFORMERS, Molecules, read_molecules
from .ring_nodes import with_ring_nodes

Part = dict[str, np.ndarray]


def featurize_chunk(smiles: Sequence[str], features: Features) -> tuple[Part, dict[int, str]]:
    """The arrays of some molecules end to end, and the reason for each position that does not give one.

    ``node_type`` refers to the part's own ``node_table``.
    """
    # The molecules themselves are not kept: the fresh memory that this takes costs too much.
    binaries: list[bytes] = []
    texts: list[str] = []
    per_atom: list[int] = []
    graph_values: list[np.ndarray] = []
    reasons: dict[int, str] = {}
    names = {*features.descriptors}
    # Names and extensions stand behind a blank, and there is none: not to look for them takes less time.
    plain = Chem.SmilesParserParams()
    plain.parseName = plain.allowCXSMILES = False  # type: ignore[assignment]
    with FIXED:
        for position, text in enumerate(smiles):
            read = unmapped(text)
            try:
                molecule = Chem.MolFromSmiles(read, plain)
            except Exception as error:  # Boost.Python lets through whatever RDKit throws
                said = str(error).strip()[:200]
                reasons[position] = f"RDKit fails with {type(error).__name__}: {said}"
                continue
            if molecule is None or not molecule.GetNumAtoms():
                reasons[position] = "no atoms" if molecule is not None else _complaint(text)
                continue
            binaries.append(molecule.ToBinary(NO_CONFORMERS))
            texts.append(read)
            if features.pharmacophores:
                per_atom.extend(pharmacophores(molecule))
            if features.graph_values == "morgan":
                graph_values.append(morgan_counts(molecule))
            elif features.graph_values:
                graph_values.append(descriptors(molecule, names))
        part = _encode(read_molecules(binaries), texts, np.array(per_atom, dtype=np.int64), features)
    dtype = np.uint8 if features.graph_values in ("", "morgan") else np.float32
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
    ring_bond = bond_of_edge[np.searchsorted(key, after * total + around)]
    bond_in_ring = np.zeros(half, dtype=np.int64)
    bond_in_ring[ring_bond] = 1

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
    if features.ring_nodes:
        node_table = np.pad(node_table, ((0, 0), (0, 1)))
    if features.num_node_values:
        walks = walk_encodings(source, target, num_atoms, features.num_node_values)
        node_type, node_table = _with_values(node_type, node_table, walks)
    bond_type, first = numbered(read.bonds * 2 + bond_in_ring)
    bond_table = [features.bond_code(m.GetBondWithIdx(i)) for m, i in examples(first, bond_start)]
    bond_code = np.array(bond_table, dtype=np.int64)[bond_type]
    part = {
        "node_type": node_type,
        "node_table": node_table,
        "source": source - np.repeat(atom_start, 2 * num_bonds),
        "in_degree": degree,
        "edge_type": bond_code[bond_of_edge],
        "num_nodes": num_atoms,
        "num_edges": 2 * num_bonds,
    }
    if features.ring_nodes:
        part = with_ring_nodes(part, features, read, bond_code[ring_bond])
    # Non-negative integers in the smallest type: faster to sort and to send.
    return {name: values.astype(np.min_scalar_type(values.max(initial=0))) for name, values in part.items()}


def _with_values(
    node_type: np.ndarray, node_table: np.ndarray, values: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Rows of codes with numbers behind them, each once: which has a node, and these rows."""
    sizes = [len(node_table)] + [UNITS + 1] * values.shape[1]
    row, first = numbered(packed_columns([node_type, *values.T.astype(np.int64)], sizes))
    return row, np.concatenate([node_table[node_type[first]], values[first]], axis=1)


# Of a longer text that is read again, for the reason alone, only the syntax.
_MOST_READ_AGAIN = 1000


def _complaint(smiles: str) -> str:
    """What RDKit logs of a SMILES that it does not read, without times, drawings and stack traces."""
    with FIXED, rdBase.CaptureErrorLog() as log:
        if Chem.MolFromSmiles(smiles, sanitize=len(smiles) <= _MOST_READ_AGAIN) is not None:
            return "valences, rings or aromatic atoms that cannot be"
    lines = (line.partition("] ")[2] if line.startswith("[") else line for line in log.messages.splitlines())
    said = dict.fromkeys(line.strip(" :")[:200] for line in lines if line.strip(" *~^"))
    return "; ".join(list(said)[:2])


# The modules of our package that all of this is in, and a lock for the moment that they count as code.
_PARTS = (
    *(featurize_chunk, Features, Perception, ring_counts, with_ring_nodes, read_molecules),
    *(walk_encodings, packed_columns, bounds_of, standardize_chunk, unmapped),
)
_MODULES = {part.__module__ for part in _PARTS}
_REGISTRY = threading.Lock()


class ByValue:
    """A function that other processes get as code instead of as a name to import."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        modules = [sys.modules[name] for name in sorted(_MODULES)]
        with _REGISTRY:
            for module in modules:
                cloudpickle.register_pickle_by_value(module)
            try:
                self.code = cloudpickle.dumps(function)
            finally:
                for module in modules:
                    cloudpickle.unregister_pickle_by_value(module)

    def __call__(self, *args: Any) -> Any:
        return self.function(*args)

    def __reduce__(self) -> Any:
        return cloudpickle.loads, (self.code,)


def featurize_chunks(
    chunks: Sequence[Sequence[str]], features: Features, num_workers: int
) -> Iterator[tuple[Part, dict[int, str]]]:
    """Featurize the chunks, here or in other processes, and yield the results in order."""
    return each_chunk(partial(featurize_chunk, features=features), chunks, num_workers)


def each_chunk(
    work: Callable[[Sequence[str]], Any], chunks: Sequence[Sequence[str]], num_workers: int
) -> Iterator[Any]:
    """What a function of the modules above says of the chunks, here or in other processes, in order."""
    if num_workers == 0:
        return map(work, chunks)
    # joblib starts its processes afresh (a fork would inherit locks that torch's threads hold), and they do
    # not run the caller's script again as those of multiprocessing do.
    remote = joblib.delayed(ByValue(work))
    parallel = joblib.Parallel(num_workers, backend="loky", return_as="generator", batch_size=1)
    return _then_none_is_left(parallel(remote(chunk) for chunk in chunks))


def _then_none_is_left(results: Iterator[Any]) -> Iterator[Any]:
    """In a child process, end joblib's processes after the results.

    A child waits for its own children before it ends, and these wait five minutes for more work.
    """
    try:
        yield from results
    finally:
        if multiprocessing.parent_process() is not None:
            get_reusable_executor(reuse=True).shutdown()
