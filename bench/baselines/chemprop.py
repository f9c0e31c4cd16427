"""chemprop, where it is installed: its defaults, and its network trained by the recipe of the CEP table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from wlkernelnn.bench.harness.molecule_runs import Fitted, Split
from wlkernelnn.bench.harness.parameters import count_parameters, width_for
from wlkernelnn.datasets import BucketResampler, PackedGraphs
from wlkernelnn.datasets.graphs.epochs import EpochLoader
from wlkernelnn.datasets.splits.parts import PARTS
from wlkernelnn.models.base.outputs import Values
from wlkernelnn.training import FitOptions
from wlkernelnn.training.loop import train_module
from wlkernelnn.training.molecules.fitting import EVALUATION_BATCH
from wlkernelnn.training.molecules.module import NetworkModule

DEFAULT_BATCH = 64


def installed() -> bool:
    return find_spec("chemprop") is not None


def featurize_all(smiles: Sequence[str]) -> None:
    """SMILES to chemprop's graphs."""
    from chemprop.data import MoleculeDatapoint
    from chemprop.featurizers import SimpleMoleculeMolGraphFeaturizer

    featurizer = SimpleMoleculeMolGraphFeaturizer()
    for text in smiles:
        featurizer(MoleculeDatapoint.from_smi(text).mol)


def default_network(num_tasks: int, width: int = 300) -> torch.nn.Module:
    """The network that ``chemprop train`` makes by default: bond messages, depth 3, all widths the same."""
    from chemprop.models import MPNN
    from chemprop.nn import BondMessagePassing, NormAggregation, RegressionFFN

    head = RegressionFFN(n_tasks=num_tasks, input_dim=width, hidden_dim=width)
    return MPNN(BondMessagePassing(d_h=width), NormAggregation(), head)


def molecules(data: PackedGraphs) -> Any:
    """The molecules as chemprop's data set, all featurized beforehand, as for ``chemprop train``."""
    from chemprop.data import MoleculeDatapoint, MoleculeDataset

    rows = zip(data.smiles, data.y.numpy(), strict=True)
    result = MoleculeDataset([MoleculeDatapoint.from_smi(text, y) for text, y in rows])
    result.cache = True
    return result


def default_loader(dataset: Any, size: int, shuffle: bool) -> Iterable[Any]:
    from chemprop.data import build_dataloader

    return build_dataloader(dataset, size, shuffle=shuffle, drop_last=False)


def outputs_and_targets(net: torch.nn.Module, batch: Any) -> tuple[Tensor, Tensor]:
    graphs, atoms, others, y, *_ = batch
    return net(graphs, atoms, others), y.float()


class Batch(NamedTuple):
    """chemprop's graphs, and targets ``[B, 1]``."""

    graphs: Any
    y: Tensor


class ChempropLoader(EpochLoader):
    """Batches of chemprop's data sets in the order of :class:`~wlkernelnn.datasets.PackedLoader`."""

    data: Any

    def _batches(self, positions: np.ndarray, bounds: np.ndarray) -> Iterator[Any]:
        from chemprop.data import collate_batch

        for begin, end in pairwise(bounds.tolist()):
            batch = collate_batch([self.data[int(i)] for i in positions[begin:end]])
            yield Batch(batch.bmg, batch.Y)


class ChempropNetwork(torch.nn.Module):
    """chemprop's default network (Yang et al. 2019), scaled by the training targets ``y [G, 1]``."""

    task = "regression"
    target_mean: Tensor
    target_std: Tensor

    def __init__(self, width: int, y: Tensor) -> None:
        super().__init__()
        self.mpnn = default_network(1, width)
        self.target = Values()
        self.register_buffer("target_mean", y.mean(0))
        self.register_buffer("target_std", y.std(0, correction=0))

    def forward(self, batch: Batch) -> Tensor:
        return self.target(self.mpnn(batch.graphs), self.target_mean, self.target_std)

    def predictions(self, out: Tensor) -> Tensor:
        return self.target.predictions(out)


def fit_chemprop(split: Split, options: FitOptions, parameters: int, directory: Path) -> Fitted:
    """Train chemprop's network of about so many parameters on molecules with one target.

    Of the options batches, epochs, learning rate, weight decay, resampling and seed are read. An interrupted
    run goes on from its checkpoints in the folder.
    """
    data = {part: molecules(split[part]) for part in PARTS}
    y = split["train"].y

    def make(width: int) -> ChempropNetwork:
        with torch.device("cpu"):  # chemprop's are not to be had without memory
            return ChempropNetwork(width, y)

    width = width_for(make, parameters)
    torch.manual_seed(options.seed)
    net = ChempropNetwork(width, y)
    resample = None
    if options.bucket_width:
        resample = BucketResampler(y.numpy(), width=options.bucket_width, seed=options.seed)
    loader = ChempropLoader(
        data["train"], options.batch_size, resample is None, False, options.seed, resample
    )
    in_order = {part: ChempropLoader(data[part], EVALUATION_BATCH, False, False, 0, None) for part in PARTS}
    done = train_module(
        NetworkModule(net, options, split.metric, len(loader.positions())),  # type: ignore[arg-type]  # all that it asks for
        loader,
        in_order["valid"],
        origin={"data": split.data},
        directory=directory,
        resume=True,
        progress=True,
    )
    with torch.no_grad():
        predictions = {
            part: torch.cat([net(batch) for batch in batches]).numpy() for part, batches in in_order.items()
        }
    return Fitted(
        predictions,
        count_parameters(net),
        sum(done.epoch_seconds),
        len(done.history),
        {"best_epoch": done.epoch, "history": done.history, "width": width},
    )
