"""Walks of every length at once: the geometric random walk kernel, exact for every pair of graphs."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import splu

from wlkernelnn.kernels.base import Values, cut

from .pairs import PairSide, segment_sums

# λρ this close to 1 is no different from 1 in floating point.
_MARGIN = 1e-12
# Steps of walks after which a bound of ρ that is still too large gives way to eigenvalues.
_STEPS = 64
# Nodes of a side that are solved for at once.
_NODES = 160


@dataclass(frozen=True)
class SpectralSide(PairSide):
    """Undirected graphs whose nodes and edges are all alike, by their eigenvalues.

    Attributes:
        eigenvalues: μ of every graph's adjacency matrix, ``[N]``.
        weights: (Σ_v U_vi)² of their eigenvectors, ``[N]``.
    """

    eigenvalues: np.ndarray
    weights: np.ndarray

    def part(self, begin: int, end: int) -> SpectralSide:
        nodes = slice(self.node_ptr[begin], self.node_ptr[end])
        part = super().part(begin, end)
        return replace(part, eigenvalues=self.eigenvalues[nodes], weights=self.weights[nodes])


def is_plain(side: PairSide) -> bool:
    """Whether nodes and edges are alike and edges go both ways: then the kernel is one of eigenvalues."""
    if side.labels is not None or side.x is not None or len(side.adjacency) != 1:
        return False
    return abs(side.adjacency[0] - side.adjacency[0].T).max() == 0 if side.num_nodes else True


def spectral(side: PairSide) -> SpectralSide:
    """The eigenvalues of every graph, and what of 1 lies along their eigenvectors."""
    eigenvalues, weights = np.zeros(side.num_nodes), np.zeros(side.num_nodes)
    (adjacency,) = side.adjacency
    for first, last in zip(side.node_ptr[:-1], side.node_ptr[1:], strict=True):
        if first < last:
            nodes = slice(first, last)
            eigenvalues[nodes], vectors = np.linalg.eigh(adjacency[nodes, nodes].toarray())
            weights[nodes] = vectors.sum(0) ** 2
    return SpectralSide(**vars(side), eigenvalues=eigenvalues, weights=weights)


def check_spectral(a: SpectralSide, b: SpectralSide, decay: float) -> None:
    """Whether the walks of all pairs sum up: ρ of a product is the product of both ρ."""
    radius = abs(a.eigenvalues).max(initial=0.0) * abs(b.eigenvalues).max(initial=0.0)
    if decay * radius >= 1 - _MARGIN:
        raise ValueError(
            _refusal(decay, radius, "of the product of the two graphs with the largest eigenvalues")
        )


def spectral_sums(a: SpectralSide, b: SpectralSide, decay: float, gradient: bool) -> Values:
    """The kernel of undirected graphs whose nodes are all alike: Σ_ij w_i w'_j / (1 − λ μ_i μ'_j)."""
    # Of the whole sides this is known already, but normalising compares each of them with itself.
    check_spectral(a, b, decay)
    products = decay * np.outer(a.eigenvalues, b.eigenvalues)
    terms = np.outer(a.weights, b.weights) / (1 - products)
    return a.pool(b, terms), a.pool(b, terms * products / (1 - products)) if gradient else None


def product_sums(a: PairSide, b: PairSide, decay: float, gradient: bool) -> Values:
    """The kernel of any graphs, by solving (I − λ A×D) z = 1 on the pairs of nodes with D ≠ 0."""
    values = np.empty((len(a.sizes), len(b.sizes)))
    slopes = np.empty_like(values) if gradient else None
    for rows in cut(a.sizes, _NODES):
        for columns in cut(b.sizes, _NODES):
            place = slice(*rows), slice(*columns)
            value, slope = _solve(a.part(*rows), b.part(*columns), decay, gradient)
            values[place] = value
            if slopes is not None and slope is not None:
                slopes[place] = slope
    return values, slopes


def _solve(a: PairSide, b: PairSide, decay: float, gradient: bool) -> Values:
    shape = len(a.sizes), len(b.sizes)
    similarity = a.similarity(b)
    # Pairs of nodes with D ≠ 0, in the order of their pairs of graphs: each pair of graphs is a range.
    v, w = np.nonzero(similarity)
    graph_a, graph_b = (np.repeat(np.arange(len(side.sizes)), side.sizes) for side in (a, b))
    owner = graph_a[v] * shape[1] + graph_b[w]
    order = np.argsort(owner, kind="stable")
    v, w, owner = v[order], w[order], owner[order]
    ptr = np.searchsorted(owner, np.arange(shape[0] * shape[1] + 1))

    steps = _product(a, b, similarity, v, w)
    _check_radius(a, b, steps, ptr, decay)
    # What each pair of nodes sends: D times the edges that leave it, in both graphs at once.
    leaving = sum(
        (np.outer(here.sum(0), there.sum(0)) for here, there in zip(a.adjacency, b.adjacency, strict=True)),
        np.zeros_like(similarity),
    )
    sent = decay * (similarity * leaving)[v, w]
    solver = splu(sparse.csc_array(sparse.eye_array(len(v)) - decay * steps)) if len(v) else None
    z = solver.solve(np.ones(len(v))) if solver else np.ones(0)
    # 1ᵀz over all pairs of nodes: z = 1 + λ A×D z where D = 0 as well.
    starts = np.outer(a.sizes, b.sizes)
    value = starts + segment_sums(sent * z, ptr).reshape(shape)
    if not gradient:
        return value, None
    dz = solver.solve(z - 1) if solver else z
    return value, segment_sums(sent * (z + dz), ptr).reshape(shape)


def _product(
    a: PairSide, b: PairSide, similarity: np.ndarray, v: np.ndarray, w: np.ndarray
) -> sparse.csr_array:
    """A×D on the pairs of nodes (v[i], w[i])."""
    number = np.full(similarity.shape, -1)
    number[v, w] = np.arange(len(v))
    rows, columns, values = [np.zeros(0, int)], [np.zeros(0, int)], [np.zeros(0)]
    for here, there in zip(a.adjacency, b.adjacency, strict=True):
        first, second = here.tocoo(), there.tocoo()
        to = number[np.ix_(first.row, second.row)]
        come = number[np.ix_(first.col, second.col)]
        valid = (to >= 0) & (come >= 0)
        rows.append(to[valid])
        columns.append(come[valid])
        weight = np.outer(first.data, second.data) * similarity[np.ix_(first.col, second.col)]
        values.append(weight[valid])
    place = np.concatenate(rows), np.concatenate(columns)
    return sparse.csr_array((np.concatenate(values), place), shape=(len(v), len(v)))


def _check_radius(a: PairSide, b: PairSide, steps: sparse.csr_array, ptr: np.ndarray, decay: float) -> None:
    """Refuse λ ≥ 1/ρ of any pair of graphs."""
    if decay == 0:
        return
    # For x > 0, max (|M|x)_i / x_i ≥ ρ (Collatz and Wielandt), and it falls as x becomes |M|ᵏ1. Where |M|ᵏ1
    # is 0, a pair of nodes begins no walk of k steps: it lies on no cycle and adds nothing to ρ.
    positive = abs(steps)
    x = np.ones(steps.shape[0])
    open_pairs = np.arange(len(ptr) - 1)
    for _ in range(_STEPS):
        new = positive @ x
        ratio = np.divide(new, x, out=np.zeros_like(x), where=x > 0)
        bound = np.array([ratio[slice(*ptr[pair : pair + 2])].max(initial=0.0) for pair in open_pairs])
        open_pairs = open_pairs[decay * bound >= 1 - _MARGIN]
        if not len(open_pairs):
            return
        x = new / max(new.max(), 1e-300)
    for pair in open_pairs:
        nodes = slice(*ptr[pair : pair + 2])
        radius = _spectral_radius(steps[nodes, nodes])
        if decay * radius >= 1 - _MARGIN:
            i, j = divmod(int(pair), len(b.sizes))
            pair_of = f"of the product of two graphs with {a.sizes[i]} and {b.sizes[j]} nodes"
            raise ValueError(_refusal(decay, radius, pair_of))


def _spectral_radius(matrix: sparse.csr_array) -> float:
    """The largest |eigenvalue| of the strongly connected parts; 0 where there is no cycle."""
    _, component = connected_components(matrix, connection="strong")
    order = np.argsort(component, kind="stable")
    radius = 0.0
    for nodes in np.split(order, np.flatnonzero(np.diff(component[order])) + 1):
        inside = matrix[nodes][:, nodes]
        if inside.nnz:
            radius = max(radius, float(abs(np.linalg.eigvals(inside.toarray())).max()))
    return radius


def _refusal(decay: float, radius: float, of: str) -> str:
    return (
        f"decay={decay:g} is too large for walks of every length: their sum exists below 1/ρ = "
        f"{1 / radius:.6g} only, ρ = {radius:.6g} being the spectral radius {of} (in a Gaussian process, "
        'decay_bounds must end below that, or be "fixed")'
    )
