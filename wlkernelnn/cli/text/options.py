"""The options of a training on texts."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Literal

from wlkernelnn.cli.options import PositiveInt
from wlkernelnn.training.options import LoopOptions
from wlkernelnn.training.string_options import ClassifierOptions, LanguageOptions, TextModelName


@dataclass
class TextDataOptions:
    """Where texts and labels come from.

    Args:
        data_path: A CSV, TSV or Parquet file of texts and labels; or for a language model a plain text, whose
            beginning is trained on, or a folder of three, whose names say train, valid (or val, dev) and
            test.
        valid_path: Of a language model: a plain text to choose the best epoch on; data_path is then trained
            on as a whole.
        test_path: Of a language model: a plain text to score, beside valid_path.
        text_columns: The column of texts; by default the one called text.
        target_columns: The column of labels, any names; needed for a table.
        task_type: "classification" or "language"; by default what the name of the file says.
        level: Tokens are "words" (lower-cased, with signs apart; of a language model what stands between
            white space, with a token for each line end) or "characters".
        max_length: Read so many tokens of a text; by default all.
        min_count: Tokens that the training texts have less often are unknown; of "spectrum", runs that are in
            fewer of them are left out.
        on_invalid: Rows without a text or a label: "raise" an error, or "skip" them.
    """

    data_path: str
    valid_path: Path | None = None
    test_path: Path | None = None
    text_columns: list[str] | None = None
    target_columns: list[str] | None = None
    task_type: Literal["classification", "language"] | None = None
    level: Literal["words", "characters"] = "words"
    max_length: PositiveInt | None = None
    min_count: PositiveInt = 2
    on_invalid: Literal["raise", "skip"] = "raise"


@dataclass
class TextModelOptions:
    """The model.

    Args:
        model: "spectrum" is logistic regression on the runs of words and of characters that texts share, for
            classes; "kernel" (string kernel layers, Lei et al. 2017) and all others are networks: the cells
            of Liang et al. 2019 by the names of their Table 1, from "lstm" over "rkm_lstm", "rkm_cifg",
            "linear_gated" and "linear" to "gated_cnn" and "cnn", and recurrent additive networks, "ran" and
            "ran_tanh". "auto" is "spectrum" for a table of texts, and "kernel" with embeddings_path and for
            language models.
    """

    model: TextModelName = "auto"


@dataclass
class TextRunOptions:
    """Where results go.

    Args:
        output_dir: The run folder: the model, its vocabulary, predictions, metrics, config and rejected rows.
        ensemble_size: Classifiers to train, with seeds seed, seed + 1, …; they predict by their mean.
        resume: Go on with a training of networks that was interrupted; all other options as they were
            (--config takes the config.yaml of the run folder).
    """

    output_dir: Path
    ensemble_size: int = 1
    resume: bool = False


@dataclass
class VectorOptions:
    """Vectors of tokens, of classifiers.

    Args:
        embeddings_path: A file of word vectors in the text format of GloVe, word2vec or fastText, or .gz of
            it; by default vectors are learned from the training texts alone.
        freeze_embeddings: Vectors of the file stay as they are.
        embedding_channels: Width of vectors that are learned alone.
    """

    embeddings_path: Path | None = None
    freeze_embeddings: bool = False
    embedding_channels: PositiveInt = 100


@dataclass
class TextFitOptions:
    """How to train.

    Args:
        epochs: Passes over the training texts; by default 20, of a language model 40.
        batch_size: Texts in a batch; of a language model streams that the text is cut into.
        group_by_length: Of classifiers: batches hold texts of similar length, in a random order. Networks
            that read token by token, as those with feedback, take fewer steps.
        lr: Learning rate; by default 0.001 (Adam), of a language model 1 (SGD).
        lr_decay: Factor of the learning rate at each decay.
        decay_from: The first epoch, counted from 0, with a decay; each one after it has one too.
        patience: Stop after that many epochs without a better validation score, 0 for never.
        gradient_clip: Largest norm of the gradient, 0 for no bound.
        l2: Of classifiers: factor of the sum of all squared weights in the loss.
        balance: Of classifiers: weight the texts in the loss so that all classes count alike.
        bptt: Of language models: tokens of each stream that gradients go back through.
        seed: Seed of everything that is drawn.
        precision: Lightning's precision: "64-true", "32-true", "bf16-true", "16-mixed" or "bf16-mixed".
        accelerator: Lightning's accelerator: "auto", "cpu", "gpu", …
        devices: Processes on this machine that train together, each on a GPU of its own or on processor
            cores. They share each batch.
        num_nodes: Machines that train together, each with so many devices: torchrun or SLURM's srun starts
            the processes.
        matmul_precision: float32 matrix products: "highest", "high" or "medium"; lower may use bfloat16
            inside and is faster on many processors.
    """

    epochs: PositiveInt | None = None
    batch_size: int = LoopOptions.batch_size // 2
    group_by_length: bool = False
    lr: float | None = None
    lr_decay: float | None = None
    decay_from: int | None = None
    patience: int = 0
    gradient_clip: float = LoopOptions.gradient_clip
    l2: float = 0.0
    balance: bool = False
    bptt: int = LanguageOptions.bptt
    seed: int = 0
    precision: str = LoopOptions.precision
    accelerator: str = LoopOptions.accelerator
    devices: PositiveInt = LoopOptions.devices
    num_nodes: PositiveInt = LoopOptions.num_nodes
    matmul_precision: Literal["highest", "high", "medium"] = "highest"

    def of(self, task: str) -> ClassifierOptions | LanguageOptions:
        """The options of the training."""
        kind = ClassifierOptions if task == "classification" else LanguageOptions
        known = {field.name for field in fields(kind)}
        given = {name: value for name, value in vars(self).items() if value is not None and name in known}
        return kind(**{"epochs": 20 if task == "classification" else 40, **given})
