from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from wlkernelnn.datasets import PackedStrings, StringLoader, draw_snippets
from wlkernelnn.sequence import RRNN, RRNNGRU, StringKernelConv, StringModel
from wlkernelnn.sequence.rrnn import TreeLoss, tree_counts, tuple_choices
from wlkernelnn.training import TreeFit, TreeOptions, fit_trees, score_strings
from wlkernelnn.training.text.trees import _TreeModule

NUM_TOKENS, WIDTH = 4, 6


class Net(torch.nn.Module):
    """Embeddings, a cell, and logits at all tokens or at the last one."""

    def __init__(self, encoder: StringModel, last: bool = False) -> None:
        super().__init__()
        self.embedding = torch.nn.Embedding(NUM_TOKENS, WIDTH)
        self.embedding.weight.requires_grad_(False)
        self.encoder = encoder
        self.head = torch.nn.Linear(WIDTH, NUM_TOKENS)
        self.last = last

    def forward(self, tokens: Tensor, ptr: Tensor) -> Tensor:
        h, _ = self.encoder(self.embedding(tokens), ptr)
        return self.head(h[ptr[1:] - 1] if self.last else h)


def net(kind: str = "rrnn", **options: Any) -> Net:
    torch.manual_seed(0)
    if kind == "rrnn":
        return Net(RRNN(WIDTH, WIDTH, 2, choice="straight_through", temperature=0.1), **options)
    if kind == "rrnn_gru":
        return Net(RRNNGRU(WIDTH, WIDTH, choice="straight_through", hidden_channels=8), **options)
    return Net(StringKernelConv(WIDTH, WIDTH, 1), **options)


def cycles(*sizes: int) -> list[PackedStrings]:
    """0 1 2 3 0 1 2 3 …, with a jump now and then."""
    jumps = np.random.default_rng(0).random(2_000) < 0.05
    return draw_snippets(torch.from_numpy((np.arange(2_000) + np.cumsum(jumps)) % NUM_TOKENS), 6, sizes)


OPTIONS = TreeOptions(epochs=3, batch_size=8, lr=1e-2, weights=(1.0, 1e-3, 1e-3, 1e-5))


def fitted(
    kind: str, network: Net, directory: Path | None = None, sizes: Sequence[int] = (40, 20), **options: Any
) -> TreeFit:
    return fit_trees(
        network,
        *cycles(*sizes),
        "bpc",
        replace(OPTIONS, **options),
        directory=directory,
        resume=directory is not None,
        progress=False,
    )


@pytest.mark.parametrize(
    "kind", [*(pytest.param(kind, marks=pytest.mark.slow) for kind in ("rrnn", "rrnn_gru")), "no_trees"]
)
def test_training_learns_what_follows(kind: str) -> None:
    network = net(kind)
    before = network.embedding.weight.clone()
    result = fitted(kind, network, epochs=12, alternate=1, lr=0.03)
    (test,) = cycles(60)
    assert score_strings(network, test, "accuracy") > 0.5  # one of four by chance
    assert result.score == min(epoch["valid_bpc"] for epoch in result.history)
    assert not network.training
    torch.testing.assert_close(network.embedding.weight, before, rtol=0, atol=0)
    assert all(p.requires_grad for n, p in network.named_parameters() if not n.startswith("embedding"))


@pytest.mark.parametrize("kind", ["rrnn", "no_trees"])
def test_one_step_by_hand(kind: str) -> None:
    """Loss (6), or what is left of it, summed over the tokens and mean over the strings."""
    train, valid = cycles(8, 4)
    options = replace(OPTIONS, epochs=1, weights=(0.7, 0.01, 0.1, 0.3), gradient_clip=0.0)
    network, by_hand = net(kind), net(kind)
    fit_trees(network, train, valid, "bpc", options, progress=False)
    learned = [p for p in by_hand.parameters() if p.requires_grad]
    (batch,) = StringLoader(train, 8)
    if kind == "rrnn":
        by_hand.encoder.keep_trees = True  # type: ignore[assignment]
    nll = torch.nn.functional.cross_entropy(
        by_hand(batch.x, batch.ptr).view(8, 5, NUM_TOKENS).transpose(1, 2), batch.y, reduction="none"
    )
    loss = nll.sum(1).mean()
    squares = sum((p**2).sum() for p in learned)
    total = 0.7 * loss + 0.3 * squares
    if kind == "rrnn":
        total = TreeLoss("gru", options.weights)(loss, by_hand.encoder, learned).total  # type: ignore[arg-type]
    total.backward()
    torch.optim.Adam(learned, lr=options.lr).step()
    for name, parameter in by_hand.named_parameters():
        torch.testing.assert_close(network.get_parameter(name), parameter, rtol=1e-4, atol=1e-5)


def test_tuples_and_scorer_take_turns(tmp_path: Path) -> None:
    weights = []
    for epochs in (1, 2, 3):
        network = net("rrnn_gru")
        fit_trees(
            network,
            *cycles(8, 4),
            "bpc",
            replace(OPTIONS, epochs=epochs, alternate=1),
            directory=tmp_path,
            resume=True,
            progress=False,
        )
        last = torch.load(tmp_path / "last.ckpt", weights_only=True)["state_dict"]
        weights.append(
            [
                last[f"model.{name}"]
                for name in ("encoder.tuples.weight", "encoder.scorer.lin.weight", "head.weight")
            ]
        )
    first = net("rrnn_gru")
    before = [first.encoder.tuples.weight, first.encoder.scorer.lin.weight, first.head.weight]
    moved = []
    for after in weights:
        moved.append([not torch.equal(one, other) for one, other in zip(before, after, strict=True)])
        before = after
    assert moved == [[True, False, True], [False, True, True], [True, False, True]]


@pytest.mark.slow
def test_a_warm_start_imitates_the_target(tmp_path: Path) -> None:
    """Both network and scorer learn, neither waits for its turn, and then trees are free."""

    def trained(epochs: int, alternate: int, directory: str) -> list[dict[str, float]]:
        torch.manual_seed(0)
        network = Net(RRNN(WIDTH, WIDTH, 8, 3, choice="straight_through", temperature=0.1, bias_std=2.0))
        options = {"lr": 0.02, "batch_size": 4, "imitation": 0.3, "warm_start": 4, "alternate": alternate}
        history = fitted("rrnn", network, tmp_path / directory, epochs=epochs, **options).history
        assert network.encoder.cell is None
        return history

    trained(2, 0, "one")
    history = trained(5, 0, "one")
    *warm, free = history
    assert trained(4, 1, "other") == warm
    assert warm[-1]["imitation"] < 0.6 * warm[0]["imitation"]
    assert warm[-1]["train_loss"] < warm[0]["train_loss"]
    assert [epoch["tree_distance"] for epoch in warm] == pytest.approx([0.0] * 4, abs=1e-6)
    assert free["imitation"] < warm[0]["imitation"]
    assert free["tree_distance"] > 1e-3


def test_a_warm_start_where_the_first_strings_are_empty() -> None:
    """Of them no trees of the network's own are grown; the target's are imitated all the same."""

    class OfStrings(Net):
        def forward(self, tokens: Tensor, ptr: Tensor) -> Tensor:
            h, _ = self.encoder(self.embedding(tokens), ptr)
            return self.head(torch.segment_reduce(h, "sum", lengths=ptr.diff(), initial=0.0))

    torch.manual_seed(0)
    network = OfStrings(RRNN(WIDTH, WIDTH, 8, 3, bias_std=2.0))
    lengths = torch.tensor([0, 0, 4, 0, 0, 6])
    ptr = torch.cat([lengths.new_zeros(1), lengths.cumsum(0)])
    strings = PackedStrings(torch.arange(10) % NUM_TOKENS, ptr, torch.tensor([0, 0, 1, 0, 0, 2]))
    # Batches of three: in the order of this seed, two empty strings come first in some of them.
    options = replace(OPTIONS, epochs=3, lr=0.02, batch_size=3, imitation=0.3, warm_start=3, seed=1)
    history = fit_trees(network, strings, strings, "accuracy", options, progress=False).history
    assert all(math.isfinite(epoch["train_loss"]) for epoch in history)
    assert history[-1]["imitation"] < history[0]["imitation"]


def test_validation_is_with_the_networks_own_trees() -> None:
    """Also where the last strings of training, by the target's trees, are empty."""
    torch.manual_seed(0)
    network = Net(RRNN(WIDTH, WIDTH, 8, 3, bias_std=2.0))
    module = _TreeModule(network, "bpc", replace(OPTIONS, imitation=0.3, warm_start=1))
    network.encoder.cell = module.criterion.cell
    module.on_validation_epoch_start()
    assert network.encoder.cell is None


def test_what_was_frozen_stays_frozen() -> None:
    network = net()
    network.encoder.scorer.requires_grad_(False)
    before = [parameter.requires_grad for parameter in network.parameters()]
    fitted("rrnn", network, sizes=(16, 8), epochs=2, alternate=1)
    assert [parameter.requires_grad for parameter in network.parameters()] == before


@pytest.mark.parametrize(
    ("kind", "error"),
    [
        ("rrnn_gru", r"imitation=0\.3 needs a network with an RRNN, got RRNNGRU"),
        ("no_trees", r"imitation=0\.3 needs a network with an RRNN, got Net"),
        ("rrnn", r"a cell whose states end after \(2,\) nodes, got \(8,\)"),
    ],
)
def test_imitation_needs_trees_of_the_target(kind: str, error: str) -> None:
    with pytest.raises(ValueError, match=error):
        fitted(kind, net(kind), imitation=0.3)


@pytest.mark.slow
def test_trees_of_every_epoch(tmp_path: Path) -> None:
    """N_e and the most common trees, by reading the validation strings with the weights of each epoch."""
    _, valid = cycles(40, 20)
    result = fitted("rrnn_gru", net("rrnn_gru"), alternate=1)
    choices = []
    for epochs in (1, 2, 3):
        network = net("rrnn_gru")
        fitted("rrnn_gru", network, tmp_path, epochs=epochs, alternate=1)
        last = torch.load(tmp_path / "last.ckpt", weights_only=True)["state_dict"]
        network.load_state_dict({name.removeprefix("model."): value for name, value in last.items()})
        (batch,) = StringLoader(valid, 20)
        assert not network.encoder.keep_trees
        network.encoder.keep_trees = True
        network(batch.x, batch.ptr)
        record = network.encoder.last_trees
        choices.append(tuple_choices(record))
        most = tree_counts(record).most_common(3)
        expected = [share for _, share in result.common[epochs - 1]]
        assert [count / 100 for _, count in most] == pytest.approx(expected)
        assert result.common[epochs - 1][0][0] in dict(most)
    changed = [epoch.get("changed_tuples") for epoch in result.history]
    assert changed == [None, *(float((b != a).sum()) for a, b in itertools.pairwise(choices))]
    assert changed[1]


def test_resumed_as_if_never_interrupted(tmp_path: Path) -> None:
    whole, parts = net("rrnn_gru"), net("rrnn_gru")
    expected = fitted("rrnn_gru", whole, tmp_path / "whole", (16, 8), alternate=2)
    fitted("rrnn_gru", parts, tmp_path / "parts", (16, 8), epochs=1, alternate=2)
    result = fitted("rrnn_gru", parts, tmp_path / "parts", (16, 8), alternate=2)
    assert result.history == expected.history
    assert result.common == expected.common
    assert len(result.common) == 3
    for name, parameter in whole.named_parameters():
        torch.testing.assert_close(parts.get_parameter(name), parameter, rtol=0, atol=0)


def test_scores_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    (strings,) = cycles(20)
    network = net("rrnn")
    network.train()
    network.encoder.eval()  # frozen
    found = {metric: score_strings(network, strings, metric) for metric in ("accuracy", "bpc", "perplexity")}
    assert network.training
    assert not network.encoder.training
    monkeypatch.setattr("wlkernelnn.training.text.scores.EVALUATION_BATCH", 7)
    assert score_strings(network, strings, "bpc") == pytest.approx(found["bpc"])
    network.eval()
    right, nll = 0, 0.0
    for i in range(20):
        logits = network(strings[i].x, torch.tensor([0, 5])).log_softmax(1).detach()
        nll -= float(logits[torch.arange(5), strings.y[i]].sum())
        right += int((logits.argmax(1) == strings.y[i]).sum())
    assert found["accuracy"] == right / 100
    assert found["bpc"] == pytest.approx(nll / 100 / math.log(2), rel=1e-5)
    assert found["perplexity"] == pytest.approx(math.exp(nll / 100), rel=1e-5)


def test_labels_of_whole_strings() -> None:
    strings = PackedStrings(torch.tensor([1, 2, 3, 0, 1]), torch.tensor([0, 2, 5]), torch.tensor([2, 1]))
    network = net("rrnn", last=True)
    result = fit_trees(
        network, strings, strings, "accuracy", replace(OPTIONS, epochs=8, lr=0.05), progress=False
    )
    assert result.score == 1.0


def test_warm_start_without_statistics() -> None:
    network = Net(RRNN(WIDTH, WIDTH, 8, 3, norm="batch"))
    with pytest.raises(ValueError, match='warm_start needs a network whose norm is not "batch"'):
        fitted("rrnn", network, imitation=0.3, warm_start=1)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"lr": 0.0}, "lr must be above 0"),
        ({"alternate": -1}, "alternate must be at least 0"),
        ({"warm_start": -1}, "warm_start must be at least 0"),
        ({"warm_start": 1}, "warm_start must be at least 0, and 0 without imitation, got 1"),
        ({"imitation": math.inf}, "imitation must be a finite number, got inf"),
    ],
)
def test_bad_options(options: Any, error: str) -> None:
    with pytest.raises(ValueError, match=error):
        TreeOptions(**options)


def test_scores_of_no_strings() -> None:
    (strings,) = cycles(5)
    with pytest.raises(ValueError, match="the bpc of no strings is not defined"):
        score_strings(net(), strings.select([]), "bpc")
    with pytest.raises(ValueError, match="valid has no strings"):
        fit_trees(net(), strings, strings.select([]), "bpc", OPTIONS, progress=False)


def test_unknown_metric() -> None:
    for call in (
        lambda: score_strings(net(), cycles(4)[0], "f1"),
        lambda: fit_trees(net(), *cycles(4, 4), "f1"),
    ):
        with pytest.raises(ValueError, match="metric must be one of accuracy, bpc, perplexity, got 'f1'"):
            call()


@pytest.mark.parametrize("label", [-100, -1, NUM_TOKENS])
def test_classes_that_the_network_does_not_have(label: int) -> None:
    train, valid = cycles(4, 2)
    train.y[0] = label
    message = f"strings have classes {min(label, 0)} … {max(label, 3)}, the network 0 … 3"
    with pytest.raises(ValueError, match=message):
        fit_trees(net("no_trees"), train, valid, "bpc", OPTIONS, progress=False)
    with pytest.raises(ValueError, match=message):
        score_strings(net("no_trees"), train, "bpc")


@pytest.mark.filterwarnings("ignore:Be aware:UserWarning")  # of Lightning, of the metric
def test_another_network_or_metric_is_not_resumed(tmp_path: Path) -> None:
    """Though its weights would fit."""
    strings = cycles(16, 8)
    options = replace(OPTIONS, epochs=1)
    place: dict[str, Any] = {"directory": tmp_path, "progress": False}
    fit_trees(net(), *strings, "bpc", options, **place)
    other = net()
    other.encoder = RRNN(WIDTH, WIDTH, 2, choice="straight_through", temperature=0.5)
    more = replace(OPTIONS, epochs=2)
    with pytest.raises(ValueError, match=r"has network .*temperature=0.1.* this is .*temperature=0.5"):
        fit_trees(other, *strings, "bpc", more, resume=True, **place)
    with pytest.raises(ValueError, match="to resume has metric bpc, and this is accuracy"):
        fit_trees(net(), *strings, "accuracy", more, resume=True, **place)
    assert len(fit_trees(net(), *strings, "bpc", more, resume=True, **place).history) == 2
