"""chemprop's default network, data set and loader, for the speed benchmark, where chemprop is installed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

from wlkernelnn.datasets import PackedGraphs

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


def network(num_tasks: int) -> torch.nn.Module:
    """What ``chemprop train`` makes by default: bond messages of 300 channels, depth 3."""
    from chemprop.models import MPNN
    from chemprop.nn import BondMessagePassing, NormAggregation, RegressionFFN

    return MPNN(BondMessagePassing(), NormAggregation(), RegressionFFN(n_tasks=num_tasks))


def molecules(data: PackedGraphs) -> Any:
    """The molecules as chemprop's data set, all featurized beforehand, as ``chemprop train`` has it."""
    from chemprop.data import MoleculeDatapoint, MoleculeDataset

    rows = zip(data.smiles, data.y.numpy(), strict=True)
    result = MoleculeDataset([MoleculeDatapoint.from_smi(text, y) for text, y in rows])
    result.cache = True
    return result


def loader(dataset: Any, size: int, shuffle: bool) -> Iterable[Any]:
    from chemprop.data import build_dataloader

    return build_dataloader(dataset, size, shuffle=shuffle, drop_last=False)


def outputs_and_targets(net: torch.nn.Module, batch: Any) -> tuple[Tensor, Tensor]:
    graphs, atoms, others, y, *_ = batch
    return net(graphs, atoms, others), y.float()
