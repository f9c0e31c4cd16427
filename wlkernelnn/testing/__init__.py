"""Theorems and laws as assertions, for anybody who writes a layer or a kernel."""

from .colours import assert_colours_decide, assert_tells_apart
from .containment import assert_in_rkhs, rkhs_norm
from .invariance import assert_batching_invariant, assert_permutation_equivariant
from .kernel_layers import assert_matches_kernel, reference_walks
from .psd import assert_psd
from .series import ACTIVATIONS, PowerSeries, norms

__all__ = [
    "ACTIVATIONS",
    "PowerSeries",
    "assert_batching_invariant",
    "assert_colours_decide",
    "assert_in_rkhs",
    "assert_matches_kernel",
    "assert_permutation_equivariant",
    "assert_psd",
    "assert_tells_apart",
    "norms",
    "reference_walks",
    "rkhs_norm",
]
