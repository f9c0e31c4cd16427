"""What the codes of atoms and bonds mean: three sets of features, and additions to them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from math import prod
from operator import methodcaller
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from rdkit import Chem
from rdkit.Chem import ValenceType

from .additions import COLUMNS, MOST, NUM_PHARMACOPHORES, SIZE, SIZES, descriptor_names

if TYPE_CHECKING:
    from torch import Tensor

Codes = TypeVar("Codes", np.ndarray, "Tensor")

#: The column of nodes with the kind of a ring, 0 for an atom, and how many codes it has: for each
#: size, and larger ones, a ring that is not aromatic and one that is.
RING_NODE, NUM_RING_NODES = "ring_node", 1 + 2 * (len(SIZES) + 1)


@dataclass(frozen=True)
class Column:
    """One property of an atom or a bond as a code.

    Attributes:
        name: Name of the property.
        read: Asks an RDKit atom or bond for the property.
        values: The values, as ``str`` prints them, in the order of their codes. Every other value gets the
            last code, be that a catch-all such as ``"misc"`` or the largest number of a range.
    """

    name: str
    read: Callable[[Any], object]
    values: tuple[str, ...]

    def code(self, item: Any) -> int:
        """The code of an RDKit atom or bond."""
        value = str(self.read(item))
        return self.values.index(value) if value in self.values else len(self.values) - 1


@dataclass(frozen=True)
class Features:
    """The columns of codes that describe atoms (nodes) and bonds (edges).

    The columns of a bond are kept as ONE integer, its edge code: the number whose mixed-radix digits they
    are, the first column being the most significant.

    A column may depend on whatever RDKit stores with the atom or bond itself, on the degree of the atom, and
    on membership in rings, but not on the wider surroundings: :func:`~wlkernelnn.datasets.featurize` asks for
    the columns once per kind of atom and kind of bond.

    Attributes:
        name: Name of the set.
        atom: Columns of an atom.
        bond: Columns of a bond.
        rings: Names of the columns of ring counts that follow those of ``atom``.
        pharmacophores: Names of the column of pharmacophoric features that follows them, if it is wanted.
        ring_nodes: Name of the column that follows them and says what ring a node is, if rings are nodes too.
        num_node_values: Steps of random walks whose encodings follow the codes of an atom, see
            :func:`~wlkernelnn.datasets.walk_encodings`; 0 without.
        graph_values: What describes whole molecules: ``"morgan"``, counts of their fingerprint,
            ``"rdkit"`` or ``"descriptors"``, numbers, or nothing.
        num_graph_values: How many values these are.
        node_columns, node_dims: Names of the columns of node codes, and how many codes each has.
        edge_columns, edge_dims: The same of the columns that an edge code combines.
        num_edge_types: Number of edge codes; where rings are nodes, the last one is of the edges that join a
            ring and its atoms, and reads as one more value of the first column.
        descriptors: Names of these numbers, if they are RDKit's descriptors.
        standardize: Molecules are standardized before, see
            :func:`~wlkernelnn.datasets.chemistry.standardize.standardize_chunk`.
    """

    name: str
    atom: tuple[Column, ...]
    bond: tuple[Column, ...]
    rings: tuple[str, ...] = ()
    pharmacophores: tuple[str, ...] = ()
    ring_nodes: tuple[str, ...] = ()
    num_node_values: int = 0
    graph_values: str = ""
    num_graph_values: int = 0
    descriptors: tuple[str, ...] = ()
    standardize: bool = False

    node_columns: tuple[str, ...] = field(init=False)
    node_dims: tuple[int, ...] = field(init=False)
    edge_columns: tuple[str, ...] = field(init=False)
    edge_dims: tuple[int, ...] = field(init=False)
    num_edge_types: int = field(init=False)

    def __post_init__(self) -> None:
        first, *others = (len(column.values) for column in self.bond)
        of_rings = len(self.ring_nodes)
        added = (*self.rings, *self.pharmacophores, *self.ring_nodes)
        more = [MOST + 1] * len(self.rings) + [NUM_PHARMACOPHORES] * len(self.pharmacophores)
        more += [NUM_RING_NODES] * of_rings
        made = {
            "node_columns": (*(column.name for column in self.atom), *added),
            "node_dims": (*(len(column.values) for column in self.atom), *more),
            "edge_columns": tuple(column.name for column in self.bond),
            "edge_dims": (first + of_rings, *others),
            "num_edge_types": prod((first, *others)) + of_rings,
        }
        self.__dict__.update(made)  # what is frozen is not assigned to

    def atom_codes(self, atom: Any) -> list[int]:
        """The row of node codes of an RDKit atom, without ring counts."""
        return [column.code(atom) for column in self.atom]

    def bond_code(self, bond: Any) -> int:
        """The edge code of an RDKit bond."""
        code = 0
        for column in self.bond:
            code = code * len(column.values) + column.code(bond)
        return code

    @property
    def ring_edge(self) -> int:
        """The edge code of the edges that join a ring and its atoms, where rings are nodes."""
        return self.num_edge_types - 1

    def encode_edge(self, columns: Codes) -> Codes:
        """Columns of bonds ``[..., len(edge_dims)]``, tensor or array, to int64 edge codes ``[...]``.

        Raises:
            ValueError: The last axis has another length, or a value lies outside its column's range.
        """
        dims, strides = self._dims_and_strides(columns)
        if columns.shape[-1:] != dims.shape:
            expected = f"the {len(dims)} edge columns {self.edge_columns} on the last axis"
            raise ValueError(f"features {self.name!r}: expected {expected}, got shape {tuple(columns.shape)}")
        if bool(((columns < 0) | (columns >= dims)).any()):
            problem = f"an edge column lies outside its range {self.edge_dims}"
            raise ValueError(f"features {self.name!r}: {problem}")
        return (columns * strides).sum(-1)

    def decode_edge(self, edge_type: Codes) -> Codes:
        """Edge codes ``[...]``, tensor or array, to int64 columns of bonds ``[..., len(edge_dims)]``.

        Raises:
            ValueError: A code lies outside [0, num_edge_types).
        """
        if bool(((edge_type < 0) | (edge_type >= self.num_edge_types)).any()):
            raise ValueError(f"features {self.name!r}: an edge code lies outside [0, {self.num_edge_types})")
        dims, strides = self._dims_and_strides(edge_type)
        return edge_type[..., None] // strides % dims

    def _dims_and_strides(self, like: Codes) -> tuple[Codes, Codes]:
        """Numbers of codes of an edge's columns, and their places in an edge code, as int64 of a kind."""
        strides = [prod(self.edge_dims[column + 1 :]) for column in range(len(self.edge_dims))]
        if isinstance(like, np.ndarray):
            return np.array(self.edge_dims, np.int64), np.array(strides, np.int64)
        return like.long().new_tensor(self.edge_dims), like.long().new_tensor(strides)


def _columns(**table: tuple[str, Iterable[object]]) -> tuple[Column, ...]:
    """Columns by their names: the method of RDKit that reads each, and its values."""
    return tuple(
        Column(name, methodcaller(method), tuple(map(str, values)))
        for name, (method, values) in table.items()
    )


_FLAG = (False, True)

# The columns of ogb.utils.features, with its order of values. A bond without a known stereo value does
# not occur: atropisomers, which OGB refuses, cannot be written in plain SMILES.
_CHIRALITY = ("CHI_UNSPECIFIED", "CHI_TETRAHEDRAL_CW", "CHI_TETRAHEDRAL_CCW", "CHI_OTHER", "misc")
_STEREO = ("STEREONONE", "STEREOZ", "STEREOE", "STEREOCIS", "STEREOTRANS", "STEREOANY")
_OGB = Features(
    name="ogb",
    atom=_columns(
        atomic_num=("GetAtomicNum", [*range(1, 119), "misc"]),
        chirality=("GetChiralTag", _CHIRALITY),
        degree=("GetTotalDegree", [*range(11), "misc"]),
        formal_charge=("GetFormalCharge", [*range(-5, 6), "misc"]),
        num_h=("GetTotalNumHs", [*range(9), "misc"]),
        num_radical_electrons=("GetNumRadicalElectrons", [*range(5), "misc"]),
        hybridization=("GetHybridization", ("SP", "SP2", "SP3", "SP3D", "SP3D2", "misc")),
        is_aromatic=("GetIsAromatic", _FLAG),
        is_in_ring=("IsInRing", _FLAG),
    ),
    bond=_columns(
        bond_type=("GetBondType", ("SINGLE", "DOUBLE", "TRIPLE", "AROMATIC", "misc")),
        bond_stereo=("GetStereo", _STEREO),
        is_conjugated=("GetIsConjugated", _FLAG),
    ),
)

_ELEMENTS = (
    "C N O S F Si P Cl Br Mg Na Ca Fe As Al I B V K Tl Yb Sb Sn Ag Pd Co Se Ti Zn H Li Ge Cu Au Ni Cd In Mn "
    "Zr Cr Pt Hg Pb"
)
_MORE_ELEMENTS = "W Ru Nb Re Te Rh Tc Ba Bi Hf Mo U Sm Os Ir Ce Gd Ga Cs"

# The set of the neural fingerprints (Duvenaud et al. 2015) that Lei et al. 2017, section 6.3, use. Larger
# numbers get the last code. The paper's one-hot bond type is all zeros for a bond that is none of the
# four; here such a bond (dative, for example) is "other".
_DUVENAUD = Features(
    name="duvenaud",
    atom=_columns(
        element=("GetSymbol", f"{_ELEMENTS} Unknown".split()),
        degree=("GetDegree", range(6)),
        num_h=("GetTotalNumHs", range(5)),
        implicit_valence=("GetNumImplicitHs", range(6)),
        is_aromatic=("GetIsAromatic", _FLAG),
    ),
    bond=_columns(
        bond_type=("GetBondType", ("SINGLE", "DOUBLE", "TRIPLE", "AROMATIC", "other")),
        is_conjugated=("GetIsConjugated", _FLAG),
        is_in_ring=("IsInRing", _FLAG),
    ),
)

# The set of the release of Lei et al. 2017, which is not the paper's: more elements, and explicit valences in
# the place of hydrogens; 82 values in all. An atom without bonds has explicit valence 0, which is none of the
# six, and so gets the last code there too.
_element, _degree, _, *_others = _DUVENAUD.atom
_valence = Column("explicit_valence", methodcaller("GetValence", ValenceType.EXPLICIT), tuple("123456"))
_element = replace(_element, values=(*f"{_ELEMENTS} {_MORE_ELEMENTS} unknown".split(),))
_LEI = replace(_DUVENAUD, name="lei", atom=(_element, _degree, _valence, *_others))


def _mass_difference(atom: Any) -> int:
    """Of an isotope, as the connectivity invariants of ECFP have it."""
    return int(atom.GetMass() - Chem.GetPeriodicTable().GetAtomicWeight(atom.GetAtomicNum()))


_MASS_DIFFERENCE = Column("mass_difference", _mass_difference, (*map(str, range(-10, 11)), "misc"))

FEATURES = {features.name: features for features in (_OGB, _DUVENAUD, _LEI)}
MAX_STEPS = 64
_ADDITIONS = re.compile(
    r"(?P<codes>[a-z]+)(?P<invariants>\+invariants)?(?P<rings>\+rings)?(?P<ring_nodes>\+ring_nodes)?"
    r"(\+rw(?P<steps>[1-9][0-9]?))?(\+(?P<graph>morgan|descriptors|rdkit))?"
    r"(?P<standardize>\+standardize)?"
)


def get_features(name: str) -> Features:
    """The feature set of that name.

    Args:
        name: ``"ogb"``, the 9 atom and 3 bond columns of the Open Graph Benchmark, ``"duvenaud"``, the 5 atom
            and 3 bond columns of the neural fingerprints, which Lei et al. 2017 name, or ``"lei"``, those of
            the release of that paper; then, if they are wanted and in this order,
            ``"+invariants"``, 2 atom columns that the codings ``ecfp`` and ``fcfp`` of kernels need
            (difference in mass of an isotope, pharmacophoric features), ``"+rings"``, 7 atom columns that
            count rings by their size, ``"+ring_nodes"``, a node for each ring (see below), ``"+rw16"``,
            random-walk encodings of 1 … 16 steps (any number from 1 to 64), and either ``"+morgan"``, the
            molecule's Morgan fingerprint, ``"+rdkit"``, RDKit's descriptors, or ``"+descriptors"``, those
            that take little time: as in ``"ogb+rw16+morgan"``. Last, ``"+standardize"`` standardizes
            molecules before: RDKit's cleanup, then the largest fragment alone (an organic one if there is
            any), then no charges where hydrogens can take them.

    With ``"+ring_nodes"``, a molecule's graph has a node for each of RDKit's smallest rings behind its atoms,
    joined to the ring's atoms in both directions by edges of a type of their own. The last column of codes,
    ``ring_node``, is 0 of an atom and tells of a ring its size (3 to 8, or more) and whether all of its bonds
    are aromatic; all other columns, and walk encodings, are 0 of a ring, and those of atoms are as they are
    without ring nodes.

    Raises:
        ValueError: There is no such set.
    """
    match = _ADDITIONS.fullmatch(name) if isinstance(name, str) else None
    steps = int(match["steps"] or 0) if match else 0
    if match is None or match["codes"] not in FEATURES or steps > MAX_STEPS:
        raise ValueError(
            f"unknown features {name!r}, expected one of {sorted(FEATURES)}, followed or not by "
            f"'+invariants', '+rings', '+ring_nodes', '+rw1' … '+rw{MAX_STEPS}' and '+morgan', "
            "'+descriptors' or '+rdkit', and '+standardize', as in 'ogb+rings+rw16+morgan'"
        )
    graph_values = match["graph"] or ""
    names = descriptor_names(graph_values) if graph_values in ("rdkit", "descriptors") else ()
    codes, invariants = FEATURES[match["codes"]], bool(match["invariants"])
    return replace(
        codes,
        name=name,
        atom=(*codes.atom, _MASS_DIFFERENCE) if invariants else codes.atom,
        pharmacophores=("pharmacophore",) if invariants else (),
        rings=COLUMNS if match["rings"] else (),
        ring_nodes=(RING_NODE,) if match["ring_nodes"] else (),
        num_node_values=steps,
        graph_values=graph_values,
        num_graph_values=SIZE if graph_values == "morgan" else len(names),
        descriptors=(*names,),
        standardize=bool(match["standardize"]),
    )
