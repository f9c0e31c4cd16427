"""Options of models of strings: their networks, and how to train them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from .options import DecayOptions, check_weights

StringModelName = Literal[
    "kernel",
    "lstm",
    "rkm_lstm",
    "rkm_cifg",
    "linear_gated",
    "linear",
    "gated_cnn",
    "cnn",
    "ran",
    "ran_tanh",
]
TextModelName = Literal["auto", "spectrum", StringModelName]


def text_model(model: TextModelName, task: str, embeddings: bool) -> str:
    """What ``"auto"`` is: without word vectors a machine tells texts apart, all else is for networks."""
    if model != "auto":
        return model
    return "kernel" if embeddings or task == "language" else "spectrum"


@dataclass
class StringNetworkOptions:
    """The network of strings.

    Args:
        model: "kernel" are string kernel layers (Lei et al. 2017), all others the cells of Liang et al. 2019
            by the names of their Table 1, from "lstm" over "rkm_lstm", "rkm_cifg", "linear_gated" and
            "linear" to "gated_cnn" and "cnn", and recurrent additive networks, "ran" and "ran_tanh".
        hidden_channels: Width of every layer; in a language model of the vectors of tokens too.
        num_layers: Number of layers.
        bidirectional: Of classifiers: each layer reads strings from both ends, and writes twice as many
            values.
        ngram: Length of the patterns; of "spectrum", of the longest run of words.
        dropout: Probability that a value between layers and before the output is dropped.
        decay: Of "kernel": λ, the factor of every token in between: a number from 0 to 1, "learned", or
            "gated" (computed from the token).
        feedback: Of "kernel": the gate sees the layer's own state too; takes more time.
    """

    model: StringModelName = "kernel"
    hidden_channels: int = 128
    num_layers: int = 1
    bidirectional: bool = False
    ngram: int = 2
    dropout: float = 0.3
    decay: float | str = "gated"
    feedback: bool = False


@dataclass
class ClassifierOptions(DecayOptions):
    """Options of :func:`~wlkernelnn.training.fit_classifier`.

    Args:
        batch_size: Strings in a batch.
        lr: Learning rate of Adam.
        l2: Factor of the sum of all squared weights in the loss; frozen weights have no part in it.
        clip: What ``gradient_clip`` bounds: the ``"norm"`` of the gradient, or the size of every ``"value"``.
        steps_per_epoch: Batches in an epoch, which goes on where the one before stopped; 0 for all strings
            once.
        group_by_length: Batches hold strings of similar length, in a random order. Networks that read token
            by token, as those with ``feedback``, take fewer steps.
        balance: Weight the strings in the loss so that all classes count alike.
        class_weight: ``"balanced"``, which is ``balance``, or a weight of each class, in their sorted order.

    The other options are those of :class:`DecayOptions`.
    """

    batch_size: int = 32
    l2: float = 0.0
    clip: Literal["norm", "value"] = "norm"
    steps_per_epoch: int = 0
    group_by_length: bool = False
    balance: bool = False
    class_weight: Literal["balanced"] | list[float] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_weights(self.class_weight)
        if self.balance and self.class_weight is not None:
            raise ValueError(f"balance and class_weight={self.class_weight!r} are two weights: give one")
        if self.group_by_length and self.steps_per_epoch:
            raise ValueError("group_by_length sorts whole epochs: give it without steps_per_epoch")


@dataclass
class LanguageOptions(DecayOptions):
    """Options of :func:`~wlkernelnn.training.fit_language_model`; the defaults are those of Lei et al. (2017,
    section 6.1).

    Args:
        batch_size: Streams that the text is cut into.
        bptt: Tokens of each stream that gradients go back through. The loss is summed over them and averaged
            over the streams.
        lr: Learning rate of SGD.
        cuda_graphs: On a GPU, record the kernels of a stretch once and replay them, which starts them much
            faster; not for models in which anything waits for the GPU, nor under mixed precision.

    The other options are those of :class:`DecayOptions`.
    """

    batch_size: int = 32
    bptt: int = 35
    lr: float = 1.0
    lr_decay: float = 0.9
    decay_from: int = 20
    cuda_graphs: bool = False
