"""The Weisfeiler-Lehman kernel: any graph kernel, summed over iterations of relabelling."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.gaussian_process.kernels import Hyperparameter

from wlkernelnn.kernels.base import Side, StructureKernel, Values, at, normalized
from wlkernelnn.kernels.flat_graphs import end_to_end, paired
from wlkernelnn.kernels.strings.deep_string import DeepStringKernel
from wlkernelnn.kernels.strings.string import StringKernel
from wlkernelnn.utils.checks import check_switch

from .molecules import MoleculeKernel
from .wl_subtree import graph_colours


@dataclass(frozen=True)
class WLSide:
    """One side in the base kernel's form, relabelled 0 … h times.

    Attributes:
        rounds: Sides of the base kernel.
        scales: What the base kernel normalises them with, if it does.
    """

    rounds: tuple[Side, ...]
    scales: tuple[Values, ...] = ()

    @property
    def sizes(self) -> np.ndarray:
        # The same graphs, but a base kernel may go by nodes in one round and by counts in another.
        return np.max([side.sizes for side in self.rounds], axis=0)

    def part(self, begin: int, end: int) -> WLSide:
        return WLSide(
            tuple(side.part(begin, end) for side in self.rounds),
            tuple(at(scale, (begin, end)) for scale in self.scales),
        )


class WLKernel(StructureKernel):
    r"""The Weisfeiler-Lehman kernel of a base kernel: Lei et al. 2017, eq. (11).

    .. math::
        K(G, G') = \sum_{i=0}^{h} K_{base}(r^i(G), r^i(G'))

    where :math:`r^0(G) = G` and :math:`r^i(G)` is G with its nodes' colours after i iterations (see
    :class:`WLSubtreeKernel`) in the place of ``x``; edges keep their features. A base kernel of single nodes,
    ``RandomWalkKernel(walk_length=1)``, makes it the subtree kernel.

    Its hyper-parameters are those of the base kernel, ``base__decay`` for example. The network's layer of L
    iterations corresponds to h = L − 1.

    Args:
        base: A graph kernel of this package. If it normalises, the normalised kernels are summed.
        num_iterations: h ≥ 0.
        edge_labels: Whether edges' features tell neighbours apart, as in :class:`WLSubtreeKernel`.
        normalize: Divide by :math:`\sqrt{K(G,G) K(G',G')}`.

    Takes what the base kernel takes.

    Raises:
        TypeError: ``base`` is not such a kernel.
        ValueError: ``num_iterations < 0``, or as the base kernel.
    """

    def __init__(
        self,
        base: StructureKernel,
        num_iterations: int = 3,
        edge_labels: bool = True,
        normalize: bool = False,
    ) -> None:
        self.base = base
        self.num_iterations = num_iterations
        self.edge_labels = edge_labels
        self.normalize = normalize

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Arguments and, if ``deep``, those of the base kernel as ``base__…``."""
        own = super().get_params(deep=False)
        nested = self.base.get_params() if deep else {}
        return own | {f"base__{name}": value for name, value in nested.items()}

    def set_params(self, **params: Any) -> WLKernel:
        """Set arguments and, as ``base__…``, those of the base kernel: of a new one, if it is among them."""
        own = {name: value for name, value in params.items() if "__" not in name}
        super().set_params(**own)
        return super().set_params(**{name: params[name] for name in params.keys() - own.keys()})

    @property
    def hyperparameters(self) -> list[Hyperparameter]:
        """The base kernel's, named ``base__…``."""
        return [parameter._replace(name=f"base__{parameter.name}") for parameter in self.base.hyperparameters]

    @property
    def theta(self) -> np.ndarray:
        """Logarithms of the base kernel's free hyper-parameters."""
        return self.base.theta

    @theta.setter
    def theta(self, theta: np.ndarray) -> None:
        self.base.theta = theta

    @property
    def bounds(self) -> np.ndarray:
        """Logarithms of their bounds."""
        return self.base.bounds

    @property
    def _budget(self) -> int:  # type: ignore[override]
        return self.base._budget

    @property
    def _diag_budget(self) -> int:  # type: ignore[override]
        return self.base._diag_budget

    def _encode(self, X: Any, Y: Any) -> tuple[WLSide, WLSide | None]:
        strings = isinstance(self.base, StringKernel | DeepStringKernel)
        if strings or not isinstance(self.base, StructureKernel):
            raise TypeError(f"base must be a graph kernel of this package, got {self.base!r}")
        if isinstance(self.base, MoleculeKernel) or getattr(self.base, "coding", None) is not None:
            raise TypeError(f"base must take any colours of nodes, got {self.base!r}, which codes atoms")
        check_switch("edge_labels", self.edge_labels)
        a, b = paired(X, Y)
        both = a if b is None else end_to_end(a, b)
        sides = [self.base._encode(a, b)]
        for colours in graph_colours(both, self.num_iterations, self.edge_labels)[1:]:
            mine, theirs = np.split(colours[:, None], a.node_ptr[-1:])
            sides.append(self.base._encode(replace(a, x=mine), None if b is None else replace(b, x=theirs)))
        first, second = zip(*sides, strict=True)
        return self._side(first), None if b is None else self._side(second)

    def _side(self, rounds: tuple[Any, ...]) -> WLSide:
        if not self.base.normalize:
            return WLSide(rounds)
        return WLSide(rounds, tuple(self.base._scale(side, self.base.n_dims > 0) for side in rounds))

    def _block(self, a: WLSide, b: WLSide, gradient: bool = False) -> Values:
        blocks = [
            self.base._block(first, second, gradient)
            for first, second in zip(a.rounds, b.rounds, strict=True)
        ]
        if a.scales:
            blocks = [
                normalized(*block, *scales) for block, *scales in zip(blocks, a.scales, b.scales, strict=True)
            ]
        values, slopes = zip(*blocks, strict=True)
        return sum(values), sum(slopes) if gradient else None
