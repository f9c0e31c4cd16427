"""What RDKit knows of molecules, read from their binary form, all of them at the same time.

One call gives all that RDKit stores with a molecule's atoms and bonds, as bytes; asking its Python objects
takes ten times as long. Processes that featurize have this code without our package, and without torch.
"""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Sequence
from itertools import chain, count
from operator import methodcaller
from typing import NamedTuple

import numpy as np
import pandas as pd
from rdkit import Chem
from rdkit.Chem import ValenceType

from wlkernelnn.ops.spans import bounds_of, places_of


class Molecules(NamedTuple):
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

    def take(self, index: np.ndarray) -> Molecules:
        """Some of the molecules, in another order."""
        counts = [count[index] for count in self[:4]]
        flats = [
            flat[places_of(bounds_of(count)[index], bounds_of(count[index]))]
            for flat, count in zip(
                (self.atoms, self.bonds, self.ends.reshape(-1, 2), self.ring_sizes, self.members),
                (self.num_atoms, self.num_bonds, self.num_bonds, self.num_rings, self.num_members),
                strict=True,
            )
        ]
        flats[2] = flats[2].reshape(-1)
        return Molecules(*counts, *flats)


def read_molecules(binaries: Sequence[bytes]) -> Molecules:
    """Read molecules from RDKit's binary form, directly or, what is rare in it, through RDKit's objects."""
    molecules, rare = read_binaries(binaries)
    if not rare.any():
        return molecules
    others = read_objects([Chem.Mol(binaries[number]) for number in np.flatnonzero(rare).tolist()])  # type: ignore[call-overload]
    # Kinds that were numbered apart stay apart: each is then asked for its codes.
    others = others._replace(
        atoms=others.atoms + molecules.atoms.max(initial=0) + 1,
        bonds=others.bonds + molecules.bonds.max(initial=0) + 1,
    )
    place = np.arange(len(binaries))
    place[rare] = len(binaries) + np.arange(rare.sum())
    both = Molecules(*(np.concatenate(pair) for pair in zip(molecules, others, strict=True)))
    return both.take(place)


# All that RDKit stores with an atom or a bond and that a column of codes could depend on.
_OF_ATOM = (
    *(
        methodcaller(f"Get{name}")
        for name in (
            *("AtomicNum", "IsAromatic", "NoImplicit", "FormalCharge", "ChiralTag", "Hybridization"),
            *("Isotope", "NumExplicitHs", "NumImplicitHs", "NumRadicalElectrons"),
        )
    ),
    methodcaller("GetValence", ValenceType.EXPLICIT),
)
_OF_BOND = tuple(
    methodcaller(f"Get{name}") for name in ("BondType", "IsAromatic", "IsConjugated", "BondDir", "Stereo")
)


def read_objects(molecules: Sequence[Chem.Mol]) -> Molecules:
    """Read any molecules through RDKit's objects."""
    numbers: dict[Hashable, int] = defaultdict(count().__next__)
    atoms = [[numbers[tuple(fact(a) for fact in _OF_ATOM)] for a in m.GetAtoms()] for m in molecules]
    bonds = [[numbers[tuple(fact(b) for fact in _OF_BOND)] for b in m.GetBonds()] for m in molecules]
    ends = [[i for b in m.GetBonds() for i in (b.GetBeginAtomIdx(), b.GetEndAtomIdx())] for m in molecules]
    rings = [m.GetRingInfo().AtomRings() for m in molecules]
    return Molecules(
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
NO_CONFORMERS = int(Chem.PropertyPickleOptions.NoConformers)
_NUM_BITS = np.array([value.bit_count() for value in range(256)])
# The first 0, 1, … 8 of the 8 bytes of an integer.
_FIRST_BYTES = np.array([2 ** (8 * length) - 1 for length in range(8)] + [-1])
# Behind the last molecule, for those who look ahead.
_PADDING = bytes(32)


def read_binaries(binaries: Sequence[bytes]) -> tuple[Molecules, np.ndarray]:
    """Read molecules from RDKit's binary form, ten times as fast as from its objects.

    All are read at the same time: first the first atom of each, then the second of each that has one, …

    Returns:
        The molecules, and for each whether it holds what is rare (more than 255 atoms, dummy atoms, queries)
        or is of the format of another version of RDKit: then what was read of it means nothing.
    """
    rare = np.array([binary[:20] not in _HEADERS for binary in binaries], dtype=bool)
    length = np.fromiter(map(len, binaries), dtype=np.int64)
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
    members = text[places_of(ring_at + 1, bounds_of(ring_sizes)).clip(max=beyond)]

    low, high = (pd.factorize(half)[0] for half in atoms)
    kinds = low * (high.max(initial=0) + 1) + high
    molecules = Molecules(
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
