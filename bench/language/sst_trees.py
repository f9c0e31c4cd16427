"""Sentiment of sentences, read as strings and along their parse trees by the same layers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from torch_geometric.data import Batch, Data
from torch_geometric.loader import DataLoader

from wlkernelnn.bench.harness import cells
from wlkernelnn.bench.harness.cells import Record
from wlkernelnn.bench.harness.experiment import Experiment, Page, Row, Trial
from wlkernelnn.bench.harness.provenance import digest_of_strings
from wlkernelnn.bench.harness.runs import Table, on_same_data
from wlkernelnn.bench.harness.trained import TrainedOptions, chosen, glove_file
from wlkernelnn.datasets import LabelledStrings, WordVectors, load_glove, load_sst, load_sst_trees
from wlkernelnn.datasets.graphs import EpochLoader
from wlkernelnn.sequence import StringKernelNetwork, TextNetwork, decayed_sum
from wlkernelnn.training import ClassifierOptions, FitResult, accuracy, fit_classifier
from wlkernelnn.training.loop import train_module
from wlkernelnn.training.module import TrainedModule
from wlkernelnn.utils.modes import evaluating

CHANNELS, LAYERS, DROPOUT, RNN_DROPOUT = 100, 2, 0.3, 0.2
RECIPE: dict[str, Any] = {"epochs": 60, "patience": 10, "lr_decay": 0.95, "l2": 1e-6, "gradient_clip": 0.0}
QUICK = 300  # strings, or trees
EVALUATION_BATCH = 128

MODELS = {
    "string": Row("along the string"),
    "tree": Row("along the tree"),
}

LEGEND = f"""* Test accuracy in per cent of the five classes of whole sentences, mean and standard deviation
  over the seeds. The weights are those of the epoch with the best accuracy on the validation sentences.
* Both rows have the same encoder: {LAYERS} string kernel layers of {CHANNELS}, n = 2, c_1 + c_2, ReLU,
  normalised, gated by x and h, side by side, and one linear layer; dropout {DROPOUT}, variational dropout
  {RNN_DROPOUT}, Adam 1e-3, times 0.95 every epoch, batches of 32. Word vectors are divided by their norms and
  fixed; tokens without one are 0.
* "along the string" reads tokens from left to right and takes the mean over them; it is trained on all
  distinct phrases of the training trees.
* "along the tree" goes from children to parents: a node sees the sum over its children as a token sees the
  one before, and reads the mean of the word vectors below it. It is trained on all nodes of the training
  trees; the root's class is that of the sentence.
* "epochs" are those that were trained, "stopped" whether the recipe's own end was reached (no better
  validation accuracy for {RECIPE["patience"]} epochs). **A row that was not stopped by the recipe is not a
  result yet.**
"""


@dataclass
class SSTTreesOptions(TrainedOptions):
    """What is trained, and where results go.

    Args:
        models: Which rows: string, tree; by default both. An epoch of trees takes about 40 seconds of one
            core, one of strings several minutes.
        glove: File of word vectors in GloVe's format, of any width.
    """

    run_dir: Path = Path("runs/sst-trees")
    glove: Path | None = None


class TreeClassifier(torch.nn.Module):
    """Means of the word vectors below each node, a sequence model along the trees, and a linear layer.

    Args:
        vectors: Fixed vectors ``[V, d]`` of the tokens.
        encoder: Reads acyclic graphs, with ``in_channels`` d.
        num_classes: Number of classes.
        dropout: Probability of dropping a value before the encoder and the linear layer.
    """

    def __init__(
        self, vectors: Tensor, encoder: StringKernelNetwork, num_classes: int, dropout: float = DROPOUT
    ) -> None:
        super().__init__()
        self.embedding = torch.nn.Embedding.from_pretrained(vectors, freeze=True)
        self.encoder = encoder
        self.dropout = torch.nn.Dropout(dropout)
        self.head = torch.nn.Linear(encoder.out_channels, num_classes)

    def forward(self, trees: Data) -> Tensor:
        """Logits of all nodes ``[N, num_classes]``; inner nodes have the token −1."""
        has_token = (trees.x >= 0).unsqueeze(1).to(self.embedding.weight.dtype)
        vectors = self.embedding(trees.x.clamp(min=0)) * has_token
        below = decayed_sum(torch.cat([vectors, has_token], 1), trees, decay=1.0)
        read = trees.clone()
        read.x = self.dropout(below[:, :-1] / below[:, -1:])
        h, _ = self.encoder(read)
        return self.head(self.dropout(h))


class _TreeModule(TrainedModule):
    def __init__(self, model: TreeClassifier, options: ClassifierOptions) -> None:
        super().__init__(model, options, "accuracy", maximize=True)
        self.right: list[Tensor] = []

    def training_step(self, batch: Data, batch_idx: int) -> Tensor:
        loss = cross_entropy(self.model(batch), batch.node_y)
        self.log_loss(loss, len(batch.node_y))
        return loss

    def validation_step(self, batch: Data, batch_idx: int) -> None:
        self.right.append(_right(self.model, batch))

    def on_validation_epoch_end(self) -> None:
        self.log_score(float(torch.cat(self.right).double().mean()))
        self.right.clear()

    def configure_optimizers(self) -> Any:
        weights = [parameter for parameter in self.parameters() if parameter.requires_grad]
        optimizer = self.adam(weights, weight_decay=2 * self.options.l2)
        return [optimizer], [torch.optim.lr_scheduler.LambdaLR(optimizer, self.options.lr_factor)]


class _TreeLoader(EpochLoader):
    """Batches of trees; their order depends on the seed and the epoch, so a resumed run reads the same."""

    data: list[Data]

    def _batches(self, positions: np.ndarray, bounds: np.ndarray) -> Iterator[Data]:
        for first, end in pairwise(bounds):
            yield Batch.from_data_list([self.data[place] for place in positions[first:end]])


def _right(model: TreeClassifier, trees: Data) -> Tensor:
    """Whether each sentence's class is the root's, the last node's."""
    return model(trees)[trees.ptr[1:] - 1].argmax(1) == trees.y


def fit_trees(
    model: TreeClassifier,
    trees: dict[str, list[Data]],
    content: str,
    recipe: ClassifierOptions,
    **where: Any,
) -> FitResult:
    """Train on all nodes of the training trees; see :func:`~wlkernelnn.training.fit_classifier`."""
    return train_module(
        _TreeModule(model, recipe),
        _TreeLoader(trees["train"], recipe.batch_size, shuffle=True, seed=recipe.seed),
        DataLoader(trees["valid"], EVALUATION_BATCH),
        origin={"trees": content},
        progress=True,
        **where,
    )


@torch.no_grad()
def tree_accuracy(model: TreeClassifier, trees: list[Data]) -> float:
    """Fraction of sentences whose class the root has."""
    device = next(model.parameters()).device
    with evaluating(model):
        right = [_right(model, batch.to(device)) for batch in DataLoader(trees, EVALUATION_BATCH)]
    return float(torch.cat(right).double().mean())


def pages(options: SSTTreesOptions) -> Iterator[Page]:
    data, trees = load_sst(options.root), load_sst_trees(options.root)
    if options.quick:
        data = LabelledStrings(
            data.train[:QUICK], data.valid, data.test, data.vocabulary, data.classes, data.name
        )
        trees = trees | {"train": trees["train"][:QUICK]}
    vectors = load_glove(options.glove or glove_file(options.root), data.vocabulary, unit_norm=True)
    content = digest_of_strings(data, vectors.weight)
    trials = (
        trial(name, seed, data, trees, vectors, content, options)
        for seed in options.all_seeds
        for name in chosen("models", options.models, MODELS)
    )
    yield Page(TABLE, trials, same_data=on_same_data("task", {"fine": content}))


def build(name: str, vectors: WordVectors, num_classes: int) -> torch.nn.Module:
    """The network of a row."""
    width = vectors.weight.size(1)
    encoder = StringKernelNetwork(
        width,
        CHANNELS,
        LAYERS,
        dropout=DROPOUT,
        rnn_dropout=RNN_DROPOUT,
        jumping="cat",
        ngram=2,
        readout="sum",
        act="relu",
        feedback=True,
    )
    if name == "tree":
        return TreeClassifier(vectors.weight, encoder, num_classes)
    embedding = torch.nn.Embedding.from_pretrained(vectors.weight, freeze=True)
    return TextNetwork(embedding, encoder, num_classes, DROPOUT)


def trial(
    name: str,
    seed: int,
    data: LabelledStrings,
    trees: dict[str, list[Data]],
    vectors: WordVectors,
    content: str,
    options: SSTTreesOptions,
) -> Trial:
    def fit(model: Any, recipe: ClassifierOptions, **where: Any) -> FitResult:
        if name == "tree":
            return fit_trees(model, trees, content, recipe, **where)
        return fit_classifier(model, data.train, data.valid, recipe, **where)

    def score(model: Any, fitted: FitResult) -> Record:
        test = tree_accuracy(model, trees["test"]) if name == "tree" else accuracy(model, data.test)
        return {"valid_accuracy": fitted.score, "test_accuracy": test}

    return Trial(
        (f"{options.matmul_precision}_{content}", name, f"seed_{seed}"),
        ClassifierOptions(**RECIPE, **options.of_run(seed)),
        partial(build, name, vectors, len(data.classes)),
        fit,
        score,
        {"model": name, "task": "fine", "content": content, "embedding_dim": vectors.weight.size(1)},
    )


TABLE = Table(
    "Stanford Sentiment Treebank, strings and trees",
    [
        ("model", lambda runs: MODELS[runs[0]["model"]].title),
        ("parameters", cells.thousands("parameters")),
        ("seeds", cells.seeds(SSTTreesOptions.seeds)),
        ("epochs", lambda runs: ", ".join(dict.fromkeys(str(run["epochs"]) for run in runs))),
        ("stopped", lambda runs: f"{sum(run['stopped'] for run in runs)} of {len(runs)}"),
        ("valid", cells.scored("valid_accuracy", 100)),
        ("test", cells.scored("test_accuracy", 100)),
        ("s / epoch", cells.seconds_per_epoch),
    ],
    lambda run: (list(MODELS).index(run["model"]),),
    lambda runs: LEGEND + f"* word vectors: {runs[0]['embedding_dim']}-dimensional\n",
)
main = Experiment("sst-trees", __doc__, SSTTreesOptions, pages).main
