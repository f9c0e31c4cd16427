"""SMILES to packed graphs: exact codes, on all cores, and every input accounted for.

Asking RDKit's Python objects for nine properties of each atom takes twice as long as parsing. But a data set
has few kinds of atoms, so each kind is asked only once: the binary form of a molecule gives, in one call, all
that RDKit stores with its atoms and bonds. Two atoms with the same stored bytes, the same degree and the same
membership in rings are of one kind, two bonds with the same stored bytes and membership likewise.
"""

from __future__ import annotations

import struct
import sys
import threading
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from functools import cache, partial
from itertools import chain, count
from operator import methodcaller
from typing import Any, NamedTuple

import cloudpickle
import joblib
import numpy as np
import pandas as pd
import torch
from rdkit import Chem, rdBase
from rich.console import Console
from rich.progress import Progress

from .features import Features, get_features
from .packed import Arrays, Description, PackedGraphs, Reject, pack_strings, smallest

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
        features: Name of the columns of codes, see :func:`~wlkernelnn.datasets.features.get_features`.
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
        for number, (part, bad) in enumerate(_run(chunks, columns, min(num_workers, len(chunks)))):
            parts.append(part)
            reasons |= {places[number * CHUNK + position]: reason for position, reason in bad.items()}
            bar.advance(task, len(chunks[number]))

    kept = [(numbers[place], text) for place, text in zip(places, texts, strict=True) if place not in reasons]
    arrays = _merge(parts, [row for row, _ in kept], [text for _, text in kept])
    description = Description(
        features=features,
        node_dims=columns.node_dims,
        num_edge_types=columns.num_edge_types,
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


class _Molecules(NamedTuple):
    """Molecules as they are read, end to end.

    Attributes:
        num_atoms, num_bonds, num_rings, num_members: ``[G]``: of each molecule; members are the atoms around
            its rings, ring by ring.
        atoms, bonds: Numbers of their kinds.
        ends: The two atoms of each bond, counted inside the molecule.
        ring_sizes, members: Of each ring, the number of its atoms; these, counted inside the molecule.
    """

    num_atoms: np.ndarray
    num_bonds: np.ndarray
    num_rings: np.ndarray
    num_members: np.ndarray
    atoms: np.ndarray
    bonds: np.ndarray
    ends: np.ndarray
    ring_sizes: np.ndarray
    members: np.ndarray

    def take(self, index: np.ndarray) -> _Molecules:
        """Some of the molecules, in another order."""
        counts = [count[index] for count in self[:4]]
        flats = [
            flat[_spans(np.cumsum(count) - count, count, index)]
            for flat, count in zip(
                (self.atoms, self.bonds, self.ends.reshape(-1, 2), self.ring_sizes, self.members),
                (self.num_atoms, self.num_bonds, self.num_bonds, self.num_rings, self.num_members),
                strict=True,
            )
        ]
        flats[2] = flats[2].reshape(-1)
        return _Molecules(*counts, *flats)


def _spans(start: np.ndarray, length: np.ndarray, index: np.ndarray) -> np.ndarray:
    """Positions of some spans, end to end."""
    start, length = start[index], length[index]
    return np.repeat(start - (np.cumsum(length) - length), length) + np.arange(length.sum())


def _featurize_chunk(smiles: Sequence[str], features: Features) -> tuple[Part, dict[int, str]]:
    """Featurize some SMILES.

    Returns:
        The arrays of the molecules end to end (``node_type`` refers to the part's own ``node_table``), and
        the reason for each position that is no molecule.
    """
    # The molecules themselves are not kept: the fresh memory that this takes costs too much.
    binaries: list[bytes] = []
    texts: list[str] = []
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
            binaries.append(molecule.ToBinary(_NO_CONFORMERS))
            texts.append(text)
        return _encode(_read(binaries), texts, features), reasons


def _read(binaries: Sequence[bytes]) -> _Molecules:
    """Read molecules from RDKit's binary form, directly or, what is rare in it, through RDKit's objects."""
    molecules, rare = _read_binaries(binaries)
    if not rare.any():
        return molecules
    others = _read_objects([Chem.Mol(binaries[number]) for number in np.flatnonzero(rare).tolist()])  # type: ignore[call-overload]
    # Kinds that were numbered apart stay apart: each is then asked for its codes.
    others = others._replace(
        atoms=others.atoms + molecules.atoms.max(initial=0) + 1,
        bonds=others.bonds + molecules.bonds.max(initial=0) + 1,
    )
    place = np.arange(len(binaries))
    place[rare] = len(binaries) + np.arange(rare.sum())
    both = _Molecules(*(np.concatenate(pair) for pair in zip(molecules, others, strict=True)))
    return both.take(place)


def _encode(read: _Molecules, smiles: Sequence[str], features: Features) -> Part:
    """The arrays of some molecules end to end, from what was read of them and their SMILES."""
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
    node_type, first = _numbered(kind * 2 + atom_in_ring)
    node_table = [features.atom_codes(m.GetAtomWithIdx(i)) for m, i in examples(first, atom_start)]
    bond_type, first = _numbered(read.bonds * 2 + bond_in_ring)
    bond_table = [features.bond_code(m.GetBondWithIdx(i)) for m, i in examples(first, bond_start)]
    part = {
        "node_type": node_type,
        "node_table": np.array(node_table, dtype=np.int64).reshape(-1, len(features.atom)),
        "source": source - np.repeat(atom_start, 2 * num_bonds),
        "in_degree": degree,
        "edge_type": np.array(bond_table, dtype=np.int64)[bond_type[bond_of_edge]],
        "num_nodes": num_atoms,
        "num_edges": 2 * num_bonds,
    }
    return {name: _small(values) for name, values in part.items()}


def _numbered(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Values numbered in the order in which they occur, and where each occurs first."""
    number, distinct = pd.factorize(values)
    first = np.empty(len(distinct), dtype=np.int64)
    # Written from the end: what remains is the first.
    first[number[::-1]] = np.arange(len(values) - 1, -1, -1)
    return number, first


def _small(values: np.ndarray) -> np.ndarray:
    """Non-negative integers in the smallest type: faster to sort and to send."""
    return values.astype(np.min_scalar_type(values.max(initial=0)))


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


# All that RDKit stores with an atom or a bond and that a column of codes could depend on.
_OF_ATOM = tuple(
    methodcaller(f"Get{name}")
    for name in (
        *("AtomicNum", "IsAromatic", "NoImplicit", "FormalCharge", "ChiralTag", "Hybridization", "Isotope"),
        *("NumExplicitHs", "NumImplicitHs", "NumRadicalElectrons"),
    )
)
_OF_BOND = tuple(
    methodcaller(f"Get{name}") for name in ("BondType", "IsAromatic", "IsConjugated", "BondDir", "Stereo")
)


def _read_objects(molecules: Sequence[Chem.Mol]) -> _Molecules:
    """Read any molecules through RDKit's objects."""
    numbers: dict[Hashable, int] = defaultdict(count().__next__)
    atoms = [[numbers[tuple(fact(a) for fact in _OF_ATOM)] for a in m.GetAtoms()] for m in molecules]
    bonds = [[numbers[tuple(fact(b) for fact in _OF_BOND)] for b in m.GetBonds()] for m in molecules]
    ends = [[i for b in m.GetBonds() for i in (b.GetBeginAtomIdx(), b.GetEndAtomIdx())] for m in molecules]
    rings = [m.GetRingInfo().AtomRings() for m in molecules]
    return _Molecules(
        _integers(map(len, atoms)),
        _integers(map(len, bonds)),
        _integers(map(len, rings)),
        _integers(sum(map(len, each)) for each in rings),
        _integers(chain.from_iterable(atoms)),
        _integers(chain.from_iterable(bonds)),
        _integers(chain.from_iterable(ends)),
        _integers(map(len, chain.from_iterable(rings))),
        _integers(chain.from_iterable(chain.from_iterable(rings))),
    )


def _integers(values: Iterable[int]) -> np.ndarray:
    return np.fromiter(values, dtype=np.int64)


# How a binary molecule begins: byte order, a tag, then format 16.3 (RDKit 2026.03) or 16.4 (RDKit 2026.09).
_HEADERS = tuple(struct.pack("<5I", 0xDEADBEEF, 0, 16, minor, 0) for minor in (3, 4))
_BEGIN_ATOM, _BEGIN_BOND, _BEGIN_RINGS, _END = 1, 11, 66, 22
_NO_CONFORMERS = int(Chem.PropertyPickleOptions.NoConformers)
_NUM_BITS = np.array([value.bit_count() for value in range(256)])
# The first 0, 1, … 8 of the 8 bytes of an integer.
_FIRST_BYTES = np.array([2 ** (8 * length) - 1 for length in range(8)] + [-1])
# Behind the last molecule, for those who look ahead.
_PADDING = bytes(32)


def _read_binaries(binaries: Sequence[bytes]) -> tuple[_Molecules, np.ndarray]:
    """Read molecules from RDKit's binary form, ten times as fast as from its objects.

    All are read at the same time: first the first atom of each, then the second of each that has one, …

    Returns:
        The molecules, and for each whether it holds what is rare (more than 255 atoms, dummy atoms, queries)
        or is of the format of another version of RDKit: then what was read of it means nothing.
    """
    rare = np.array([binary[:20] not in _HEADERS for binary in binaries], dtype=bool)
    length = _integers(map(len, binaries))
    end = np.cumsum(length)
    text = np.frombuffer(b"".join([*binaries, _PADDING]), dtype=np.uint8)
    beyond = len(text) - len(_PADDING)
    # The 8 bytes from any place on, as an integer.
    words = np.ndarray(len(text) - 7, dtype="<i8", buffer=text, strides=(1,))

    def steps(number: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """For 0, 1, …: the molecules that have more things than that, and the places of these among all."""
        start = np.cumsum(number) - number
        for step in range(number.max(initial=0)):
            going = np.flatnonzero(number > step)
            yield going, start[going] + step

    def count_of(number: np.ndarray) -> np.ndarray:
        """How many things to read; none of what is rare, where the number may be anything."""
        np.logical_or(rare, (number < 0) | (number > 255), out=rare)
        return np.where(rare, 0, number)

    at = np.minimum(end - length, beyond)
    np.logical_or(rare, text[at + 29] != _BEGIN_ATOM, out=rare)
    sizes = words[at + 20]
    num_atoms = count_of(sizes & 0xFFFFFFFF)
    at = np.minimum(at + 30, beyond)
    atoms = np.empty((2, num_atoms.sum()), dtype=np.int64)
    for going, place in steps(num_atoms):
        # Element, flags, four bytes that say what follows: one byte each for charge, chirality, hybridization
        # (other than SP3), hydrogens, two valences and radicals, four bytes for an isotope.
        here = at[going]
        head = words[here]
        flags = head >> 8
        size = 6 + _NUM_BITS[head >> 16 & 255] + 4 * (head >> 24 & 255)
        # More than "aromatic", "no implicit hydrogens" and "atom map".
        rare[going] |= (flags & 0b10010111 != 0) | (size > 16)
        # The third and fourth byte tell the size: no kind is the beginning of another.
        atoms[0, place] = head & _FIRST_BYTES[np.minimum(size, 8)]
        atoms[1, place] = words[here + 8] & _FIRST_BYTES[np.clip(size - 8, 0, 8)]
        stop = np.minimum(here + size, beyond)
        # A tag and the number in the atom map, which is no part of the kind.
        mapped = flags & 0b1000 != 0
        if mapped.any():
            stop += np.where(mapped, np.where(text[stop + 1] == 255, 6, 2), 0)
        at[going] = np.minimum(stop, beyond)

    np.logical_or(rare, text[at] != _BEGIN_BOND, out=rare)
    num_bonds = count_of(sizes >> 32)
    at = np.minimum(at + 1, beyond)
    bonds = np.empty(num_bonds.sum(), dtype=np.int64)
    ends = np.empty((num_bonds.sum(), 2), dtype=np.int64)
    for going, place in steps(num_bonds):
        # Two ends, flags, one byte each for the type (other than single), direction and stereo; with stereo
        # come the atoms that it refers to, which are no part of the kind.
        here = at[going]
        head = words[here]
        flags = head >> 16
        rare[going] |= (
            flags & 0b10010001 != 0
        )  # more than "aromatic", "conjugated", which of the three there are
        ends[place, 0] = head & 255
        ends[place, 1] = head >> 8 & 255
        size = 1 + _NUM_BITS[flags & 0b1110]
        bonds[place] = flags & _FIRST_BYTES[size]
        stop = np.minimum(here + 2 + size, beyond)
        at[going] = np.minimum(np.where(flags & 0b10, stop + 1 + text[stop], stop), beyond)

    np.logical_or(rare, text[at] != _BEGIN_RINGS, out=rare)
    num_rings = count_of(words[at + 1] & 0xFFFFFFFF)
    at = np.minimum(at + 5, beyond)
    ring_at = np.empty(num_rings.sum(), dtype=np.int64)
    for going, place in steps(num_rings):
        ring_at[place] = here = at[going]
        at[going] = np.minimum(here + 1 + text[here], beyond)
    np.logical_or(rare, (text[at] != _END) | (at + 1 != end), out=rare)
    ring_sizes = text[ring_at].astype(np.int64)
    num_members = np.bincount(np.repeat(np.arange(len(rare)), num_rings), ring_sizes, len(rare))
    members = text[_spans(ring_at + 1, ring_sizes, np.arange(len(ring_at))).clip(max=beyond)]

    low, high = (pd.factorize(half)[0] for half in atoms)
    kinds = low * (high.max(initial=0) + 1) + high
    molecules = _Molecules(
        num_atoms,
        num_bonds,
        num_rings,
        num_members.astype(np.int64),
        kinds,
        pd.factorize(bonds)[0],
        ends.reshape(-1),
        ring_sizes,
        members.astype(np.int64),
    )
    return molecules, rare


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


def _run(
    chunks: Sequence[Sequence[str]], features: Features, num_workers: int
) -> Iterator[tuple[Part, dict[int, str]]]:
    """Featurize the chunks, here or in other processes, and yield the results in order."""
    work = partial(_featurize_chunk, features=features)
    if num_workers == 0:
        yield from map(work, chunks)
        return
    # joblib starts its processes afresh (a fork would inherit locks that torch's threads hold), and they do
    # not run the caller's script again as those of multiprocessing do.
    remote = joblib.delayed(_ByValue(work, [__name__, Features.__module__]))
    parallel = joblib.Parallel(num_workers, backend="loky", return_as="generator", batch_size=1)
    yield from parallel(remote(chunk) for chunk in chunks)


def _merge(parts: Sequence[Part], rows: Sequence[int], smiles: Sequence[str]) -> Arrays:
    """The arrays of all parts, with one table of node codes, sorted as :meth:`PackedGraphs.pack` does."""
    whole = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    table, place = np.unique(whole["node_table"], axis=0, return_inverse=True)
    shift = np.cumsum([0, *(len(part["node_table"]) for part in parts[:-1])])
    kind = whole["node_type"] + np.repeat(shift, [len(part["node_type"]) for part in parts])
    text, text_ptr = pack_strings(smiles)
    return Arrays(
        node_type=smallest(place.reshape(-1)[kind]),
        node_table=smallest(table),
        source=smallest(whole["source"]),
        in_degree=smallest(whole["in_degree"]),
        edge_type=smallest(whole["edge_type"]),
        node_ptr=_pointers(whole["num_nodes"]),
        edge_ptr=_pointers(whole["num_edges"]),
        y=torch.zeros((len(rows), 0)),
        row=torch.tensor(rows, dtype=torch.int64),
        smiles=text,
        smiles_ptr=text_ptr,
    )


def _pointers(lengths: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]))
