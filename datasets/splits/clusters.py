"""Splits by clusters of similar molecules."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from rdkit import Chem
from rdkit.Chem.rdFingerprintGenerator import GetMorganGenerator
from scipy.sparse import csr_array

from wlkernelnn.datasets.chemistry.perception import FIXED

from .parts import Sizes, SplitIndex, check_sizes, largest_first

#: Tanimoto similarity to the centre of a cluster, at least; as a distance 0.6, that of DeepChem's splitter.
SIMILARITY = 0.4
_BITS, _ROWS = 2048, 512
# Time grows with the square of their number; a pair of neighbours takes about 25 bytes.
_MOST_MOLECULES, _MOST_PAIRS = 100_000, 10**8


def butina_clusters(smiles: Sequence[str], similarity: float = SIMILARITY) -> np.ndarray:
    """The Taylor-Butina cluster of every molecule, int64 ``[n]``, numbered in the order they are found.

    The molecule with most neighbours (of equal ones the last) is a centre, and takes them all; so does the
    next that is not taken yet, with those of its neighbours that are free. Neighbours have Morgan
    fingerprints (radius 2, 2048 bits) of at least this Tanimoto similarity. Equals RDKit's
    ``Butina.ClusterData`` without its list of all distances.

    References:
        Butina 1999 (Journal of Chemical Information and Computer Sciences 39, 747); Taylor 1995 (35, 59).

    Raises:
        ValueError: ``similarity`` is not above 0 and at most 1, there are more than 100,000 molecules, or
            more than 100 million pairs of neighbours.
    """
    if not 0 < similarity <= 1:
        raise ValueError(f"similarity: expected a number above 0 and at most 1, got {similarity!r}")
    if len(smiles) > _MOST_MOLECULES:
        raise ValueError(
            f"butina clusters: expected at most {_MOST_MOLECULES:,} molecules, got {len(smiles):,}, whose "
            "pairs would take too long: split them by scaffold"
        )
    bits = _fingerprints(smiles)
    counts = bits.sum(axis=1)
    pairs: list[np.ndarray] = []
    total = 0
    for begin in range(0, len(smiles), _ROWS):
        end = min(begin + _ROWS, len(smiles))
        both = (bits[begin:end] @ bits[:end].T).toarray().astype(np.float64)  # ties are neighbours
        near = both >= similarity * (counts[begin:end, None] + counts[:end] - both)
        pairs.append(np.argwhere(near).astype(np.int32) + np.array([begin, 0], np.int32))
        total += len(pairs[-1])
        if total > _MOST_PAIRS:
            raise ValueError(
                f"butina clusters: more than {_MOST_PAIRS:,} pairs of {len(smiles):,} molecules have a "
                f"similarity of {similarity:g}, too many for memory: split them by scaffold"
            )
    one, other = np.concatenate([np.empty((0, 2), np.int32), *pairs]).T
    half = csr_array((np.ones(total, dtype=bool), (one, other)), shape=(len(smiles), len(smiles)))
    neighbours = csr_array(half + half.T)
    sizes = np.diff(neighbours.indptr)
    cluster, number = np.full(len(smiles), -1, dtype=np.int64), 0
    for centre in np.lexsort([np.arange(len(sizes)), sizes])[::-1].tolist():
        if cluster[centre] < 0:
            near = neighbours.indices[neighbours.indptr[centre] : neighbours.indptr[centre + 1]]
            cluster[near[cluster[near] < 0]] = number
            number += 1
    return cluster


def butina_split(
    smiles: Sequence[str], sizes: Sizes = (0.8, 0.1, 0.1), similarity: float = SIMILARITY
) -> SplitIndex:
    """Split molecules so that no cluster (:func:`butina_clusters`) lies in two parts.

    The largest clusters fill train, then valid: molecules with few relatives are tested on. Nothing about it
    is random.

    Returns and raises as :func:`random_split` and :func:`butina_clusters`; parts far from their sizes are
    told, with the largest cluster.
    """
    check_sizes(sizes)
    cluster = butina_clusters(smiles, similarity)
    order = np.argsort(cluster, kind="stable")
    groups = np.split(order, np.flatnonzero(np.diff(cluster[order])) + 1) if len(order) else []
    first = smiles[max(groups, key=len)[0]] if groups else ""
    return largest_first([group.tolist() for group in groups], sizes, "butina", f"that of {first}")


def _fingerprints(smiles: Sequence[str]) -> csr_array:
    """Morgan fingerprints, float32 ``[n, bits]``; none of a text that RDKit cannot read."""
    generator = GetMorganGenerator(radius=2, fpSize=_BITS)
    found: list[list[int]] = []
    with FIXED:
        for text in smiles:
            molecule = Chem.MolFromSmiles(text)
            found.append([] if molecule is None else list(generator.GetFingerprint(molecule).GetOnBits()))
    start = np.cumsum([0, *map(len, found)])
    place = np.fromiter((bit for bits in found for bit in bits), np.int32, start[-1])
    return csr_array((np.ones(len(place), np.float32), place, start), shape=(len(found), _BITS))
