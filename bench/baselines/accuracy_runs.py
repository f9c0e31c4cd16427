"""Training until an error is reached: networks that go on where they stood, and who takes part."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch.optim.swa_utils import AveragedModel

from wlkernelnn.bench.baselines import chemprop
from wlkernelnn.bench.baselines.molecules import GINENetwork
from wlkernelnn.bench.harness.molecule_runs import Split
from wlkernelnn.bench.harness.parameters import width_for
from wlkernelnn.bench.harness.trained import chosen
from wlkernelnn.datasets import PackedGraphs, PackedLoader
from wlkernelnn.datasets.graphs.epochs import EpochLoader
from wlkernelnn.models import GraphKernelNetwork, GraphNetwork, KernelStackNetwork
from wlkernelnn.training import score
from wlkernelnn.training.molecules.module import masked_loss
from wlkernelnn.utils.files import atomic_path
from wlkernelnn.utils.modes import evaluating

PARAMETERS = 260_000
DROPOUT = 0.15  # of the head's inputs, as in the table of CEP by our recipe
WARM_UP = 12_800  # molecules
MEMORY = 24_000  # molecules that the mean of the weights goes back
EVALUATION_BATCH = 512
# By batch size: those that are tried.
RATES = {128: (1e-3, 3e-3), 1024: (1e-3, 3e-3, 8e-3)}


@dataclass(frozen=True)
class Contestant:
    """A network, with the batch sizes and learning rates that are tried."""

    title: str
    make: Callable[[PackedGraphs], torch.nn.Module]  # for a training part
    rates: dict[int, tuple[float, ...]] = field(default_factory=lambda: dict(RATES))
    turn: float = 1.0  # seconds of a first turn, in units of the others'
    cap: float = 1.0  # seconds of a training at most, in such units
    loader: Callable[..., EpochLoader] | None = None  # of a part, if it is not of ours

    def batches(self, net: torch.nn.Module, part: PackedGraphs, size: int, shuffle: bool) -> EpochLoader:
        if self.loader is not None:
            return self.loader(part, size, shuffle)
        assert isinstance(net, GraphNetwork)
        return PackedLoader(part, size, shuffle, quotient=net.quotient_depth)


def of_size(network: type[GraphNetwork], train: PackedGraphs, **arguments: Any) -> GraphNetwork:
    """A network of about ``PARAMETERS`` parameters."""
    make = partial(network.from_data, train, dropout=DROPOUT, **arguments)
    return make(hidden_channels=width_for(lambda width: make(hidden_channels=width), PARAMETERS))


def chemprop_of_size(train: PackedGraphs) -> torch.nn.Module:
    make = partial(chemprop.ChempropNetwork, y=train.y)

    def on_cpu(width: int) -> torch.nn.Module:
        with torch.device("cpu"):  # chemprop's are not to be had without memory
            return make(width)

    return make(width_for(on_cpu, PARAMETERS))


class ChempropBatches:
    """Loaders of parts that are featurized once."""

    def __init__(self) -> None:
        self.known: dict[str, Any] = {}

    def __call__(self, part: PackedGraphs, size: int, shuffle: bool) -> EpochLoader:
        key = part.digest()
        if key not in self.known:
            self.known[key] = chemprop.molecules(part)
        return chemprop.ChempropLoader(self.known[key], size, shuffle)


CONTESTANTS = {
    "wl": Contestant("WL kernel network", partial(of_size, GraphKernelNetwork)),
    "stack": Contestant("deep kernel stack", partial(of_size, KernelStackNetwork, compose="add")),
    "gine": Contestant("GINE by colours", partial(of_size, GINENetwork)),
    "chemprop": Contestant(
        "chemprop",
        chemprop_of_size,
        {chemprop.DEFAULT_BATCH: (5e-4, 1e-3, 3e-3), 128: (1e-3, 3e-3)},
        turn=3.0,
        cap=7.0,
        loader=ChempropBatches(),
    ),
}
# The same function, computed for every node: it takes the same steps.
BY_NODES = Contestant("GINE by nodes", partial(of_size, GINENetwork, quotient=False))


def taking_part(wanted: list[str] | None) -> list[str]:
    """The names of who trains; by default all that there are here."""
    there = [name for name in CONTESTANTS if name != "chemprop" or chemprop.installed()]
    return chosen("contestants", wanted, there)


def titles_and_sizes(names: Sequence[str]) -> list[tuple[str, int]]:
    """What is trained by these: titles and batch sizes, those of GINE by nodes as well."""
    all_of_them = [*(CONTESTANTS[name] for name in names), *([BY_NODES] if "gine" in names else [])]
    return [(who.title, size) for who in all_of_them for size in who.rates]


class Training:
    """A network that trains with one batch size and learning rate.

    Adam, squared errors in units of the targets' standard deviation, and a constant learning rate after
    ``WARM_UP`` molecules. Scores are of the mean of the weights over about ``MEMORY`` molecules.

    Args:
        contestant: Who trains.
        split: Data and parts.
        metric: The error.
        batch_size: Molecules in a batch.
        lr: Learning rate.
        path: File that keeps the training, and from which it goes on; ``None``: nowhere.

    Raises:
        ValueError: The file keeps a training on other molecules, or of another split.
    """

    def __init__(
        self,
        contestant: Contestant,
        split: Split,
        metric: str,
        batch_size: int,
        lr: float,
        path: Path | None = None,
    ) -> None:
        torch.manual_seed(0)
        self.split, self.metric, self.batch_size, self.lr, self.path = split, metric, batch_size, lr, path
        self.trained_on = {"content": split.data.digest(), "split_sha256": split.sha256}
        self.net = contestant.make(split["train"])
        keep = partial(contestant.batches, self.net)
        self.loader = keep(split["train"], batch_size, True)
        self.parts = {part: keep(split[part], EVALUATION_BATCH, False) for part in ("valid", "test")}
        self.optimizer = torch.optim.Adam(self.net.parameters(), lr)
        self.mean = AveragedModel(self.net, multi_avg_fn=self._average, use_buffers=True)
        #: Molecules so far, seconds of the processor for them, and the error on the validation part.
        self.checks: list[tuple[int, float, float]] = []
        self.molecules, self.seconds = 0, 0.0
        self._batches = self._endless()
        if path is not None and path.is_file():
            self._load(torch.load(path, weights_only=True))

    def _average(self, averaged: Any, current: Any, number: Any) -> None:
        """Weights and the statistics of batch norm; counts stay what they are."""
        share = max(self.batch_size / MEMORY, 9 / (10 + int(number)))
        if averaged[0].is_floating_point():
            torch._foreach_lerp_(averaged, current, min(share, 1.0))

    def _endless(self) -> Iterator[Any]:
        while True:
            yield from self.loader

    def train(self, molecules: int) -> None:
        """Train on about so many molecules; the time goes to ``seconds``."""
        start, until = time.process_time(), self.molecules + molecules
        while self.molecules < until:
            batch = next(self._batches)
            for group in self.optimizer.param_groups:
                group["lr"] = self.lr * min(1.0, (self.molecules + len(batch.y)) / WARM_UP)
            self.optimizer.zero_grad()
            masked_loss(self.net, self.net(batch), batch.y).backward()  # type: ignore[arg-type]
            self.optimizer.step()
            self.mean.update_parameters(self.net)
            self.molecules += len(batch.y)
        self.seconds += time.process_time() - start

    def advance(self, enough: Callable[[Training], bool], every: int) -> None:
        """Train until it is enough; the error is known after each ``every`` molecules."""
        if not enough(self):
            self.warm_up()
        while not enough(self):
            self.train(every)
            self.checks.append((self.molecules, self.seconds, self.error("valid")))
            self._save()

    def warm_up(self) -> None:
        """Compile what is compiled, on a copy that is thrown away."""
        net = copy.deepcopy(self.net)
        batch = next(iter(self.parts["valid"]))
        net(batch).sum().backward()

    @torch.no_grad()
    def error(self, part: str) -> float:
        """The error of the mean of the weights."""
        with evaluating(self.mean.module):
            pairs = [(batch.y, self.mean.module(batch)) for batch in self.parts[part]]
        truth, prediction = (torch.cat(side).numpy() for side in zip(*pairs, strict=True))
        return score(self.metric, truth, prediction)

    def reached(self, level: float) -> int | None:
        """Molecules until the error was at most ``level``, if it was."""
        return next((molecules for molecules, _, error in self.checks if error <= level), None)

    @property
    def _state(self) -> dict[str, Any]:
        return {"net": self.net, "optimizer": self.optimizer, "mean": self.mean, "loader": self.loader}

    def _save(self) -> None:
        if self.path is None:
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        known = {name: part.state_dict() for name, part in self._state.items()}
        with atomic_path(self.path) as temporary:
            torch.save(known | self.trained_on | {"checks": self.checks}, temporary)

    def _load(self, known: dict[str, Any]) -> None:
        for name, here in self.trained_on.items():
            if (there := known.get(name)) != here:
                raise ValueError(
                    f"{self.path}: holds a training whose {name} is {there}, and this is {here}: delete it, "
                    "or name another --run-dir"
                )
        for name, part in self._state.items():
            part.load_state_dict(known[name])
        self.checks = [(int(molecules), seconds, error) for molecules, seconds, error in known["checks"]]
        self.molecules, self.seconds, _ = self.checks[-1]


def speeds(trainings: Sequence[Training], rounds: int, seconds: float) -> list[list[float]]:
    """Molecules per second of a processor while training, turn by turn: rounds of every training."""
    rates: list[list[float]] = [[] for _ in trainings]
    for training in trainings:
        training.warm_up()
        training.train(training.batch_size)
    for _ in range(rounds):
        for training, own in zip(trainings, rates, strict=True):
            molecules, before = training.molecules, training.seconds
            while training.seconds - before < seconds:
                training.train(training.batch_size)
            own.append((training.molecules - molecules) / (training.seconds - before))
    return rates
