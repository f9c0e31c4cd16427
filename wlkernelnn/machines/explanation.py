"""What a Gaussian process on counts predicts, as an exact sum over atoms: its mean is linear in kernels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from sklearn.gaussian_process.kernels import Kernel
from sklearn.utils.validation import check_is_fitted

from wlkernelnn.kernels import CountKernel, DescriptorKernel, MoleculeKernel
from wlkernelnn.kernels.flat_graphs import FlatGraphs, flat_graphs, paired
from wlkernelnn.kernels.graphs.codings import FEATURES
from wlkernelnn.kernels.ring_nodes import atom_shares
from wlkernelnn.utils.checks import check_count

from .classifier import GaussianProcessClassifier
from .gaussian_process import GaussianProcess
from .linear import LinearMachine
from .molecules import MoleculeMachine
from .substructures import largest, substructures

Explainable = GaussianProcess | GaussianProcessClassifier | MoleculeMachine | LinearMachine


@dataclass(frozen=True)
class Explanation:
    r"""Predictions as sums: atoms + descriptors + mean.

    Attributes:
        atoms: What each atom (node) adds, float64 ``[ΣV, T]``, those of all graphs end to end; where rings
            are nodes, the atoms of a ring have equal shares of what its node adds.
        ptr: Where the atoms of each graph begin and end, ``[n+1]``.
        descriptors: What the kernel of descriptors adds, ``[n, T]``; 0 without one.
        mean: The mean of the training targets, ``[T]``.
        substructures: Those that add or take most, largest first, of each graph and target: columns
            ``graph``, ``target``, ``kernel``, ``coding``, ``radius``, ``contribution`` and ``atoms``, a tuple
            for each time that the substructure occurs, counted within the graph.
        nearest: Rows of the nearest training structures ``[n, neighbours]``, nearest first.
        similarity: The mean of the kernels of counts with these, of a :class:`MoleculeMachine` of all eight.
    """

    atoms: np.ndarray
    ptr: np.ndarray
    descriptors: np.ndarray
    mean: np.ndarray
    substructures: pd.DataFrame
    nearest: np.ndarray
    similarity: np.ndarray

    @property
    def prediction(self) -> np.ndarray:
        """The sum, ``[n, T]``."""
        return np.add.reduceat(self.atoms, self.ptr[:-1], axis=0) + self.descriptors + self.mean


def explain(machine: Explainable, graphs: Any, *, most: int = 10, neighbours: int = 5) -> Explanation:
    r"""Say what each atom, the descriptors and the mean add to the predictions of a machine: exactly.

    The posterior mean is a sum over training graphs :math:`G_i`, a min-max kernel one over substructures j:

    .. math::
        \mu(G) = \mu + s \sum_p a_p \sum_i \alpha_i K_p(G, G_i), \qquad
        K_p(G, G_i) = \sum_j \frac{\min(\phi_j(G), \phi_j(G_i))}{D_i}, \qquad
        D_i = \sum_j \max(\phi_j(G), \phi_j(G_i))

    (without ``normalize``, and with ``"cosine"``, the terms are those of the inner product). The times that j
    occurs in G have equal shares of its terms, and so have the atoms of each; a Weisfeiler-Lehman colour
    belongs to the atom whose colour it is. What two graphs without any substructure share, which have K = 1,
    all atoms of G have in equal parts.

    Of a classifier the log-odds of the second class are explained; of more than two classes those of each,
    against all others, from which probabilities come when they are divided by their sum.

    >>> from wlkernelnn.kernels import MoleculeKernel
    >>> from wlkernelnn.machines import GaussianProcess, explain
    >>> machine = GaussianProcess(MoleculeKernel()).fit(["CCO", "CCCO", "CCN", "CCCN"], [1, 1, 3, 3])
    >>> explanation = explain(machine, ["CCCCN"])
    >>> int(explanation.atoms[:, 0].argmax()), explanation.nearest[0, 0].item()
    (4, 3)

    Args:
        machine: Fitted, a :class:`MoleculeMachine`, a :class:`LinearMachine` (each colour adds its weight; no
            training structures are named), or on a kernel of counts,
            :class:`~wlkernelnn.kernels.MoleculeKernel`, :class:`~wlkernelnn.kernels.DescriptorKernel` or a
            sum of such.
        graphs: As of ``predict``, n of them.
        most: Substructures of each graph and target.
        neighbours: Training structures that are named for each graph.

    Takes 8 n bytes for each training structure, and more.

    Raises:
        NotFittedError: The machine is not fitted.
        TypeError: It has a kernel of another kind, or graphs are not as the kernel takes them.
        ValueError: A graph has no nodes, or graphs do not go together.
    """
    check_is_fitted(machine)
    check_count("most", most, least=0)
    check_count("neighbours", neighbours, least=0)
    if isinstance(machine, LinearMachine):
        return _of_linear(machine, graphs, most)
    if not isinstance(machine, Explainable):
        hint = ": of an estimator give machine_, and packed molecules" if hasattr(machine, "machine_") else ""
        raise TypeError(f"machine must be a machine on kernels, got {type(machine).__name__}{hint}")
    process, slope, intercept = _process(machine)
    targets = process.targets_
    parts = targets[0].kernels
    kernels = [kernel for part in parts for kernel, _ in _count_kernels(part)]
    features = FEATURES if not kernels or any(kernel.coding for kernel in kernels) else "ogb"
    new, known = paired(graphs, process.X_train_, features)
    assert known is not None
    _check_nodes(new)
    weights = slope * _weights(process)
    atoms = np.zeros((int(new.node_ptr[-1]), len(targets)))
    descriptors = np.zeros((len(new), len(targets)))
    similarity = np.zeros((len(new), len(known)))
    counting = sum(bool(_count_kernels(part)) for part in parts)
    found = []
    for p, part in enumerate(parts):
        weight = weights * [target.amplitudes[p] for target in targets]
        if isinstance(part, DescriptorKernel):
            for t, target in enumerate(targets):
                gram = target.kernels[p](graphs, process.X_train_)
                descriptors[:, t] += gram @ weight[:, t]
            if not counting:
                similarity = machine.similarity(graphs) if isinstance(machine, MoleculeMachine) else gram
        for kernel, factor in _count_kernels(part):
            each = substructures(kernel, new, known, factor * weight)
            similarity += factor * each.gram / counting
            atoms += each.of_nodes(new.sizes)
            found.append(each)
    shares, atom_ptr = atom_shares(new)
    nearest = np.argsort(-similarity, axis=1, kind="stable")[:, :neighbours]
    return Explanation(
        atoms=shares @ atoms,
        ptr=atom_ptr,
        descriptors=descriptors,
        mean=slope * [target.mean for target in targets] + intercept,
        substructures=largest(found, new, most),
        nearest=nearest,
        similarity=np.take_along_axis(similarity, nearest, axis=1),
    )


def _check_nodes(graphs: FlatGraphs) -> None:
    if (graphs.sizes == 0).any():
        raise ValueError(f"graph {np.argmin(graphs.sizes)} has no nodes, to which nothing can be attributed")


def _of_linear(machine: LinearMachine, data: Any, most: int) -> Explanation:
    graphs = flat_graphs(data)
    _check_nodes(graphs)
    found = machine.substructures(data)
    shares, atom_ptr = atom_shares(graphs)
    nobody = np.zeros((len(data), 0))
    return Explanation(
        atoms=shares @ found.of_nodes(graphs.sizes),
        ptr=atom_ptr,
        descriptors=np.zeros_like(found.alike),
        mean=machine.intercept_,
        substructures=largest([found], graphs, most),
        nearest=nobody.astype(np.int64),
        similarity=nobody,
    )


def _process(machine: Explainable) -> tuple[GaussianProcess, np.ndarray, np.ndarray]:
    """The process of a machine; slope and intercept that make of its means values that are explained."""
    if isinstance(machine, GaussianProcessClassifier):
        return machine.machine_, machine.slope_, machine.intercept_
    if isinstance(machine, MoleculeMachine):
        process, scaling = machine.process_, machine.scaling_
        return (process, *scaling) if scaling is not None else (process, np.ones(1), np.zeros(1))
    return machine, np.ones(1), np.zeros(1)


def _count_kernels(part: Kernel) -> list[tuple[CountKernel, float]]:
    """The kernels of counts of a part, each with its factor."""
    if isinstance(part, MoleculeKernel):
        return [(kernel, 1 / len(part.parts)) for kernel in part.parts]
    if isinstance(part, CountKernel):
        return [(part, 1.0)]
    if isinstance(part, DescriptorKernel):
        return []
    raise TypeError(
        "only kernels of counts, MoleculeKernel, DescriptorKernel and their sums are explained exactly, got "
        f"{part!r}"
    )


def _weights(machine: GaussianProcess) -> np.ndarray:
    """s α of each training row ``[n, T]``: 0 where it has no target, or is not a landmark."""
    weights = np.zeros((len(machine.X_train_), machine.n_targets_))
    for column, target in zip(weights.T, machine.targets_, strict=True):
        rows = target.rows if machine.landmarks_ is None else machine.landmarks_
        column[rows] = target.scale * target.posterior.alpha
    return weights
