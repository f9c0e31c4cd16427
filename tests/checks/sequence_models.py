"""Every sequence model, for tests that all of them pass."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from torch import Tensor

from tests.checks.equations import randomize
from tests.inputs.strings import LENGTHS, normal
from wlkernelnn.sequence import (
    RKM,
    RRNN,
    RRNNGRU,
    Bidirectional,
    MergingRRNN,
    RecurrentKernelMachine,
    Stack,
    StringKernelConv,
    StringKernelNetwork,
    StringModel,
    StringRNN,
    WeightDrop,
)

D, K = 3, 4

MODELS: dict[str, Callable[[int], StringModel]] = {
    "string_kernel": lambda width: StringKernelConv(width, K),
    "string_kernel-constant": lambda width: StringKernelConv(
        width, K, 3, 0.6, normalize=False, act="tanh", readout="sum"
    ),
    "string_kernel-learned": lambda width: StringKernelConv(
        width, K, 3, "learned", compose="add", readout="learned"
    ),
    "string_kernel-feedback": lambda width: StringKernelConv(width, K, 2, feedback=True, act="tanh"),
    "kernel_machine": lambda width: RecurrentKernelMachine(width, K, "polynomial"),
    "kernel_machine-feedback": lambda width: RecurrentKernelMachine(
        width, K, "gaussian", ngram=3, feedback=True
    ),
    "rkm": lambda width: RKM(width, K),
    "rkm-lstm": lambda width: RKM(width, K, "lstm", ngram=2, dilation=2, layer_norm=False),
    "rkm-cifg": lambda width: RKM(width, K, "rkm_cifg", ngram=(1, 3, 2, 1), layer_norm="state"),
    "rkm-ran": lambda width: RKM(width, K, "ran_tanh", layer_norm=False, forget_bias=1.0),
    "rkm-linear-at-once": lambda width: RKM(
        width, K, "linear_gated", 3, feedback=False, sigma_i2="learned", sigma_f2="learned"
    ),
    "rkm-linear-state": lambda width: RKM(width, K, "linear", layer_norm="state", feedback=False),
    "rkm-gated_cnn": lambda width: RKM(width, K, "gated_cnn", ngram=3),
    # Without auxiliary vectors every tree has its token.
    "rrnn": lambda width: RRNN(width, K, 2, 2, activations=("tanh", "sigmoid"), auxiliary=()),
    "rrnn-merging": lambda width: MergingRRNN(
        width, K, (2, 1), 2, activations=("tanh", "sigmoid"), auxiliary=()
    ),
    "rrnn-gru": lambda width: RRNNGRU(width, K, 2),
    "stack": lambda width: Stack([StringKernelConv(width, 2, 1), StringKernelConv(2, 3, 2)], jumping="cat"),
    "weight_drop": lambda width: WeightDrop(
        StringKernelConv(width, K, 1, feedback=True), "decay.lins.0.weight", 0.5
    ),
    "network": lambda width: StringKernelNetwork(width, K, 2, ngram=2, feedback=True, act="relu"),
    "rnn": lambda width: StringRNN(RKM(width, K, "rkm_cifg"), 2),
}
# Those that carry their input over: they know its width from the start.
SIZED: dict[str, Callable[[int], StringModel]] = {
    "rkm-sync": lambda width: RKM(width, K, "rkm_lstm", ngram=4, filters="sync"),
    "string_kernel-highway": lambda width: StringKernelConv(width, D, 2, highway=True, dropout=0.3),
    "string_kernel-highway-feedback": lambda width: StringKernelConv(
        width, D, 1, feedback=True, highway=True, act="tanh", readout="learned", dropout=0.3
    ),
}
# Those that read from the right too.
BOTH_WAYS: dict[str, Callable[[int], StringModel]] = {
    "bidirectional": lambda width: Bidirectional(StringKernelConv(width, K, 2), RKM(width, 2)),
    "rnn-bidirectional": lambda width: StringRNN(RKM(width, 2, "lstm", layer_norm=False), 2, True),
}
ONE_WAY = pytest.mark.parametrize("make", (MODELS | SIZED).values(), ids=MODELS | SIZED)
EVERY = MODELS | SIZED | BOTH_WAYS
ALL_MODELS = pytest.mark.parametrize("make", EVERY.values(), ids=EVERY)
LAZY_MODELS = pytest.mark.parametrize("make", (MODELS | BOTH_WAYS).values(), ids=MODELS | BOTH_WAYS)

Make = Callable[[int], StringModel]


def drawn(make: Make) -> StringModel:
    model = make(D)
    randomize(model)
    return model.eval()


def some() -> list[Tensor]:
    return [normal(length, D) for length in LENGTHS["ragged"]]
