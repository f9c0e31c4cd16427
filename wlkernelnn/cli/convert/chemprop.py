"""The options of chemprop's trainings, versions 1 and 2, and their counterparts here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

#: From the words behind an option to the value of ours; ``None`` where that value has no counterpart.
Convert = Callable[[Sequence[str]], Any]


def text(words: Sequence[str]) -> str:
    (word,) = words
    return word


def texts(words: Sequence[str]) -> list[str]:
    return [*words]


def whole(words: Sequence[str]) -> int:
    return int(number(words))  # version 1 has 2.0 epochs


def number(words: Sequence[str]) -> float:
    return float(text(words))


def numbers(words: Sequence[str]) -> list[float]:
    return [*map(float, words)]


def around_median(words: Sequence[str]) -> list[float]:
    """Levels of quantiles: the bounds of an interval that misses so much, and the median."""
    missed = number(words)
    return [missed / 2, 0.5, 1 - missed / 2]


def one_of(**names: Any) -> Convert:
    """By name, whatever its case; names are written with underscores."""
    return lambda words: names.get(words[0].lower().replace("-", "_")) if len(words) == 1 else None


_TASK = one_of(
    regression="regression",
    regression_mve="regression",
    regression_quantile="regression",
    regression_evidential="regression",
    classification="classification",
    classification_dirichlet="classification",
    multiclass="classification",
    multiclass_dirichlet="classification",
)
#: Losses that a type of task brings along.
LOSSES = ("mve", "quantile")
_METRICS = one_of(
    rmse="rmse",
    mae="mae",
    r2="r2",
    auc="roc_auc",
    roc="roc_auc",
    prc="average_precision",
    prc_auc="average_precision",
    accuracy="accuracy",
    f1="f1",
    mcc="mcc",
    binary_mcc="mcc",
    bce="log_loss",
    binary_cross_entropy="log_loss",
    ce="log_loss",
    cross_entropy="log_loss",
)
_FEATURES = one_of(
    morgan="ogb+morgan",
    morgan_count="ogb+morgan",
    morgan_binary="ogb+morgan",
    rdkit_2d="ogb+rdkit",
    rdkit_2d_normalized="ogb+rdkit",
    v1_rdkit_2d="ogb+rdkit",
    v1_rdkit_2d_normalized="ogb+rdkit",
)
_SPLIT = one_of(
    random="random",
    random_with_repeated_smiles="random",
    scaffold="scaffold",
    scaffold_balanced="scaffold",
)
_POOLING = one_of(mean="mean", sum="sum", norm="sum")

#: Options with a counterpart: ours, how to convert the value, and what differs: of all values, or by value.
COUNTERPARTS: Mapping[str, tuple[str, Convert, str | Mapping[str, str]]] = {
    "data-path": ("data_path", text, ""),
    "smiles-columns": ("smiles_columns", texts, ""),
    "target-columns": ("target_columns", texts, ""),
    "mol-target-columns": ("target_columns", texts, ""),
    "task-type": ("task_type", _TASK, ""),
    "splits-column": ("splits_column", text, ""),
    "split": (
        "split",
        _SPLIT,
        {
            "random": "the same molecule stays in one part",
            "scaffold": "the largest scaffolds are trained on",
            "scaffold_balanced": "the largest scaffolds are trained on",
        },
    ),
    "split-sizes": ("split_sizes", numbers, ""),
    "data-seed": ("data_seed", whole, ""),
    "pytorch-seed": ("seed", whole, ""),
    "output-dir": ("output_dir", text, ""),
    "ensemble-size": ("ensemble_size", whole, ""),
    "epochs": ("epochs", whole, ""),
    "batch-size": ("batch_size", whole, ""),
    "accelerator": ("accelerator", text, ""),
    "message-hidden-dim": ("hidden_channels", whole, "the width of the head too"),
    "depth": ("num_iterations", whole, "an atom sees that many bonds far"),
    "dropout": ("dropout", number, "of the head alone"),
    "aggregation": ("pooling", _POOLING, {"norm": "a norm over the channels follows the sum"}),
    "molecule-featurizers": (
        "features",
        _FEATURES,
        dict.fromkeys(("morgan", "morgan_binary", "morgan_count"), "counts, 2,048 bits, radius 2"),
    ),
    "max-lr": ("lr", number, ""),
    "final-lr": ("lr_min", number, "a cosine leads there, not an exponential"),
    "warmup-epochs": ("warmup_epochs", whole, "the learning rate rises from 0"),
    "patience": ("patience", whole, "counted by the metric, not by the loss"),
    "grad-clip": ("gradient_clip", number, ""),
    "metrics": ("metric", lambda words: _METRICS(words[:1]), "metrics.json has all usual ones besides"),
    "class-balance": ("class_weight", lambda _: "balanced", "by weights in the loss, not by drawing"),
    "loss-function": (
        "loss",
        one_of(
            mse="squared",
            bounded_mse="squared",
            mve="mve",
            quantile="quantile",
            pinball="quantile",
            quantile_interval="quantile",
            bce="squared",
            binary_cross_entropy="squared",
            ce="squared",
            cross_entropy="squared",
        ),
        {
            "bounded_mse": "squared, with the cells that are bounds (censored)",
            **dict.fromkeys(
                ("bce", "ce", "binary_cross_entropy", "cross_entropy"),
                "squared is of numbers; classes have cross-entropy",
            ),
        },
    ),
    "alpha": ("quantiles", around_median, ""),
    "no-cuda": ("accelerator", lambda _: "cpu", ""),
    "gpu": ("accelerator", lambda _: "gpu", ""),
}

#: Options that change nothing of the model: what is done here instead.
NEEDLESS: Mapping[str, str] = {
    "config-path": "",  # has been read
    "num-workers": "batches need no processes here",
    "no-cache": "batches are made of flat arrays; train --no-cache is about the disk",
    "empty-cache": "see --no-cache of train",
    "cache-cutoff": "batches are made of flat arrays",
    "remove-checkpoints": "a finished run keeps the best weights alone",
    "save-smiles-splits": "splits.json has the rows of each part",
    "save-preds": "predictions of all parts are written anyway",
    "show-individual-scores": "metrics.json has each target",
    "quiet": "",
    "v": "",
    "no-batch-norm": "there is none",
    "logfile": "",
    "log-frequency": "",
    "extra-metrics": "metrics.json has all usual ones",
    "ignore-columns": "the columns of targets are named",
    "ignore-nan-metrics": "missing targets are left out",
    "multiclass-num-classes": "classes are those of the column",
    "mpn-shared": "rows have one molecule",
    "use-cuikmolmaker-featurization": "",
}

#: Values, in small letters, with which an option without a counterpart asks for what is done here.
SAME: Mapping[str, tuple[str, ...]] = {
    "activation": ("relu",),
    "depth-solvent": ("3",),
    "devices": ("auto", "1"),
    "frzn-ffn-layers": ("0",),
    "hidden-size-solvent": ("300",),
    "num-folds": ("1",),
    "num-replicates": ("1",),
    "number-of-molecules": ("1",),
    "rxn-mode": ("reac_diff",),
    "spectra-activation": ("exp",),
    "spectra-target-floor": ("1e-08",),
    "split-key-molecule": ("0",),
    "tracking-metric": ("val_loss",),
    "v-kl": ("0", "0.0"),
    "weights-ffn-num-layers": ("2",),
}

#: Other names of an option: of its other version, or short ones.
ALIASES: Mapping[str, str] = {
    "i": "data-path",
    "o": "output-dir",
    "s": "smiles-columns",
    "r": "reaction-columns",
    "n": "num-workers",
    "b": "batch-size",
    "w": "weight-column",
    "t": "task-type",
    "l": "loss-function",
    "k": "num-folds",
    "q": "quiet",
    "log": "logfile",
    "verbose": "v",
    "save-dir": "output-dir",
    "smiles-column": "smiles-columns",
    "dataset-type": "task-type",
    "split-type": "split",
    "seed": "data-seed",
    "metric": "metrics",
    "agg": "aggregation",
    "hidden-size": "message-hidden-dim",
    "ffn-hidden-size": "ffn-hidden-dim",
    "bias": "message-bias",
    "features-generator": "molecule-featurizers",
    "features-generators": "molecule-featurizers",
    "no-cache-mol": "no-cache",
    "reaction-mode": "rxn-mode",
    "evidential-regularization": "v-kl",
    "explicit-h": "keep-h",
    "adding-h": "add-h",
    "target-weights": "task-weights",
    "quantile-loss-alpha": "alpha",
}

_WITHOUT = """
    reaction-columns no-header-row devices rxn-mode multi-hot-atom-featurizer-mode keep-h add-h ignore-stereo
    reorder-atoms descriptors-path descriptors-columns no-descriptor-scaling no-atom-feature-scaling
    no-atom-descriptor-scaling no-bond-feature-scaling no-bond-descriptor-scaling atom-features-path
    atom-descriptors-path bond-features-path bond-descriptors-path constraints-path constraints-to-targets
    checkpoint freeze-encoder model-frzn frzn-ffn-layers from-foundation message-bias undirected
    aggregation-norm atom-messages activation activation-args ffn-hidden-dim ffn-num-layers batch-norm
    atom-task-weights atom-ffn-hidden-dim atom-ffn-num-layers
    atom-multiclass-num-classes bond-task-weights bond-ffn-hidden-dim bond-ffn-num-layers
    bond-multiclass-num-classes atom-constrainer-ffn-hidden-dim atom-constrainer-ffn-num-layers
    bond-constrainer-ffn-hidden-dim bond-constrainer-ffn-num-layers weight-column
    atom-target-columns bond-target-columns v-kl eps tracking-metric
    task-weights init-lr split-key-molecule num-replicates num-folds splits-file

    number-of-molecules checkpoint-dir checkpoint-path checkpoint-paths features-path phase-features-path
    no-features-scaling max-data-size atom-descriptors bond-descriptors separate-val-path separate-test-path
    spectra-phase-mask-path data-weights-path folds-file val-fold-index test-fold-index crossval-index-dir
    crossval-index-file checkpoint-frzn test resume-experiment bias-solvent hidden-size-solvent
    depth-solvent features-only separate-val-features-path separate-test-features-path
    separate-val-phase-features-path separate-test-phase-features-path separate-val-atom-descriptors-path
    separate-test-atom-descriptors-path separate-val-bond-descriptors-path
    separate-test-bond-descriptors-path separate-val-constraints-path separate-test-constraints-path
    reaction reaction-solvent keeping-atom-map is-atom-bond-targets no-shared-atom-bond-ffn
    weights-ffn-num-layers no-adding-bond-types overwrite-default-atom-features
    overwrite-default-bond-features freeze-first-only spectra-activation spectra-target-floor
"""
#: What the args.json of version 1 holds beside options: it follows from them, or from the data.
DERIVED: frozenset[str] = frozenset(
    """
    adding-bond-types atom-constraints atom-descriptor-scaling atom-descriptors-size atom-features-size
    atom-targets bond-constraints bond-descriptor-scaling bond-descriptors-size bond-features-size
    bond-targets crossval-index-sets cuda device features-scaling features-size minimize-score num-lrs
    num-tasks reproducibility shared-atom-bond-ffn task-names train-data-size use-input-features
    """.split()  # noqa: SIM905
)
#: What to do instead of some of them.
INSTEAD: Mapping[str, str] = dict.fromkeys(
    ("num-folds", "num-replicates"), "train --cv 5 scores models by 5-fold cross-validation, and keeps none"
)
#: Options without a counterpart.
WITHOUT: frozenset[str] = frozenset(_WITHOUT.split())
