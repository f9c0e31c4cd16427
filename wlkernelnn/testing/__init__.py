"""Theorems and laws as assertions, for anybody who writes a layer or a kernel.

Every assertion returns the largest relative error that it found. It raises an AssertionError where that is
larger than ``rtol``, and a ValueError where there is nothing to check or its arguments do not go together.
"""

from wlkernelnn.sequence import subsequence_graph

from .colours import assert_colours_decide, assert_tells_apart
from .containment import assert_in_rkhs, rkhs_ratios
from .exact import rkhs_norm
from .invariance import assert_batching_invariant, assert_permutation_equivariant
from .kernel_layers import assert_matches_kernel, reference_walks
from .psd import assert_psd
from .series import ACTIVATIONS, PowerSeries, norms
from .string_laws import assert_layouts_agree, assert_resumes, assert_strings_independent
from .string_layers import (
    assert_is_word_cnn,
    assert_matches_string_kernel,
    assert_sums_tokens,
    assert_walks_on_strings,
    reference_strings,
)

__all__ = [
    "ACTIVATIONS",
    "PowerSeries",
    "assert_batching_invariant",
    "assert_colours_decide",
    "assert_in_rkhs",
    "assert_is_word_cnn",
    "assert_layouts_agree",
    "assert_matches_kernel",
    "assert_matches_string_kernel",
    "assert_permutation_equivariant",
    "assert_psd",
    "assert_resumes",
    "assert_strings_independent",
    "assert_sums_tokens",
    "assert_tells_apart",
    "assert_walks_on_strings",
    "norms",
    "reference_strings",
    "reference_walks",
    "rkhs_norm",
    "rkhs_ratios",
    "subsequence_graph",
]
