from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from torch import Tensor

from wlkernelnn.datasets import Corpus, RandomBPTTLoader, Vocabulary
from wlkernelnn.sequence import LanguageModel, StringKernelConv, StringKernelNetwork, WeightDrop
from wlkernelnn.training import AWDOptions, fit_awd, perplexity
from wlkernelnn.training.text import awd as module

WORDS = ["the", "cat", "sat", "on", "the", "mat", "and", "the", "dog", "sat", "on", "the", "log"]


def corpus(repetitions: int = 20) -> Corpus:
    vocabulary = Vocabulary.build(WORDS)
    text = vocabulary.encode(WORDS * repetitions)
    return Corpus(train=text, valid=text[:60], test=text[:100], vocabulary=vocabulary)


def model(num_tokens: int, **options: float) -> LanguageModel:
    torch.manual_seed(0)
    encoder = WeightDrop(StringKernelConv(12, 12, 1, feedback=True), "decay.lins.0.weight", 0.3)
    return LanguageModel(num_tokens, encoder, **options)  # type: ignore[arg-type]


SMALL = AWDOptions(epochs=3, batch_size=4, bptt=8, lr=1.0)
PLAIN = replace(SMALL, weight_decay=0.0, activation=0.0, slowness=0.0)


def test_slowness_by_hand() -> None:
    h = torch.tensor([[[1.0, 2.0], [4.0, 2.0], [4.0, 1.0]], [[0.0, 0.0], [0.0, 0.0], [2.0, 0.0]]])
    assert float(module.slowness(h)) == pytest.approx((9 + 1 + 4) / 8)
    assert float(module.slowness(h[:, :1])) == 0.0


@pytest.mark.parametrize(
    ("scores", "expected"),
    [
        ([5.0, 9.0], False),
        ([5.0, 9.0, 9.0], False),  # the best is of the last two: too new to count
        ([5.0, 9.0, 9.0, 9.0][1:], False),
        ([5.0, 9.0, 9.0, 9.0], True),
        ([5.0, 4.0, 3.0, 4.5], False),
        ([5.0, 4.0, 3.0, 3.5, 3.6], False),
        ([5.0, 4.0, 3.0, 3.5, 3.6, 3.2], True),
        ([3.0], False),
    ],
)
def test_what_stopped_falling(scores: list[float], expected: bool) -> None:
    """Worse than the best of those at least three before."""
    assert module.stopped_falling(scores, 2) is expected


def test_how_many_before_count() -> None:
    assert not module.stopped_falling([1.0, 2.0, 3.0, 4.0, 5.0], 5)
    assert module.stopped_falling([3.0, 3.1], 0)
    assert not module.stopped_falling([3.0, 3.0], 0)


def test_loss_and_learning_rate_by_hand() -> None:
    """An epoch of one stretch: mean loss, both penalties, the rate of its length, weight decay."""
    data = corpus(1)
    options = replace(SMALL, epochs=1, batch_size=2, lr=0.1, gradient_clip=0.0, weight_decay=0.01, bptt=30)
    nets = [model(len(data.vocabulary)).eval() for _ in range(2)]
    for net in nets:
        net.encoder.dropout = 0.0
    fit_awd(nets[0], replace(data, valid=data.train), options, progress=False)
    by_hand = nets[1]
    inputs, targets = data.train[:12].view(2, 6), data.train[1:13].view(2, 6)
    h, _ = by_hand.read(inputs)
    nll = torch.nn.functional.cross_entropy(by_hand.predict(h).flatten(0, 1), targets.flatten())
    loss = nll + 2 * h.square().mean() + (h[:, 1:] - h[:, :-1]).square().mean()
    loss.backward()
    for name, weight in by_hand.named_parameters():
        expected = weight - 0.1 * 6 / 30 * (weight.grad + 0.01 * weight)
        torch.testing.assert_close(nets[0].get_parameter(name), expected.detach())


def test_activation_penalty_sees_the_mask(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is dropped is not pulled to 0; slowness is of what the encoder wrote."""
    data, seen = corpus(1), []
    net = model(len(data.vocabulary), dropout=0.5)
    drop = LanguageModel.drop

    def spy(self: LanguageModel, h: Tensor, ptr: Tensor | None = None) -> Tensor:
        dropped = drop(self, h, ptr)
        if self.training:
            h.retain_grad()
            seen.append((h, dropped))
        return dropped

    monkeypatch.setattr(LanguageModel, "drop", spy)
    monkeypatch.setattr(LanguageModel, "predict", lambda self, h: torch.zeros(*h.shape[:2], 9) * h.sum())
    options = replace(PLAIN, epochs=1, batch_size=2, bptt=30)
    fit_awd(net, data, replace(options, activation=3.0), progress=False)
    fit_awd(net, data, replace(options, slowness=3.0), progress=False)
    (h, dropped), (slow, _) = seen
    assert (dropped == 0).any()
    torch.testing.assert_close(h.grad, 3.0 * 2 * dropped * 2 / h.numel())
    change = slow[:, 1:] - slow[:, :-1]
    expected = torch.zeros_like(slow)
    expected[:, 1:] += change
    expected[:, :-1] -= change
    torch.testing.assert_close(slow.grad, 3.0 * 2 * expected / change.numel())


def test_averages_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the weights after every step from the epoch on that follows the first worse score."""
    data, weights, scored = corpus(), [], []
    net = model(len(data.vocabulary))
    step = torch.optim.SGD.step

    def spy(self, closure=None):  # type: ignore[no-untyped-def]
        out = step(self, closure)
        weights.append(net.embedding.weight.detach().clone())
        return out

    monkeypatch.setattr(torch.optim.SGD, "step", spy)
    validate = module._AWDModule.validation_step

    def seen(self, batch, batch_idx):  # type: ignore[no-untyped-def]
        scored.append(self.scored.embedding.weight.detach().clone())
        return validate(self, batch, batch_idx)

    monkeypatch.setattr(module._AWDModule, "validation_step", seen)
    monkeypatch.setattr(module, "stopped_falling", lambda scores, nonmonotone: len(scores) == 2)
    options = replace(SMALL, epochs=4, seed=3)
    result = fit_awd(net, data, options, progress=False)
    counts = []
    for epoch in range(4):
        loader = RandomBPTTLoader(data.train, options.batch_size, options.bptt, options.seed)
        loader.epoch = epoch
        counts.append(len(loader.lengths()))
    begin = sum(counts[:2])
    assert len(weights) == sum(counts)
    expected = [
        weights[counts[0] - 1],
        weights[begin - 1],
        torch.stack(weights[begin : begin + counts[2]]).mean(0),
        torch.stack(weights[begin:]).mean(0),
    ]
    for came, wanted in zip(scored, expected, strict=True):
        torch.testing.assert_close(came, wanted)
    assert [epoch["averaged_steps"] for epoch in result.history] == [0, 0, counts[2], counts[2] + counts[3]]
    torch.testing.assert_close(net.embedding.weight.detach(), expected[result.epoch])


def test_the_weights_that_were_scored_are_kept() -> None:
    data = corpus()
    net = model(len(data.vocabulary))
    options = replace(PLAIN, epochs=8, lr=20.0, nonmonotone=0)
    result = fit_awd(net, data, options, progress=False)
    assert result.history[-1]["averaged_steps"] > 0
    assert result.history[result.epoch]["averaged_steps"] > 0
    assert result.score == min(epoch["valid_perplexity"] for epoch in result.history)
    assert not net.training
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "VALIDATION_STREAMS", 1)
        again = model(len(data.vocabulary))
        result = fit_awd(again, data, options, progress=False)
    assert result.score == pytest.approx(perplexity(again, data.valid), rel=1e-5)


def test_training_learns_the_text() -> None:
    data = corpus()
    net = model(len(data.vocabulary), dropout=0.1, locked=True, word_dropout=0.05)
    before = perplexity(net, data.test)
    fit_awd(net, data, replace(SMALL, epochs=8, activation=0.1, slowness=0.1), progress=False)
    assert perplexity(net, data.test) < before / 2


def test_resumed_training_equals_uninterrupted_training(tmp_path: Path) -> None:
    """Before and after averaging began, with every dropout."""
    data = corpus(8)
    options = replace(PLAIN, epochs=6, lr=10.0, nonmonotone=0)

    def fresh() -> LanguageModel:
        return model(len(data.vocabulary), dropout=0.2, locked=True, word_dropout=0.1)

    nets = [fresh(), fresh()]
    whole = fit_awd(nets[0], data, options, progress=False)
    for epochs in (1, 4, 6):
        nets[1] = fresh()
        resumed = fit_awd(
            nets[1],
            data,
            replace(options, epochs=epochs),
            directory=tmp_path,
            resume=epochs > 1,
            progress=False,
        )
        assert resumed.history == whole.history[:epochs]
    averaged = [epoch["averaged_steps"] for epoch in whole.history]
    assert averaged[0] == 0
    assert averaged[3] > 0
    for one, other in zip(nets[0].parameters(), nets[1].parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0)


def test_another_vocabulary() -> None:
    with pytest.raises(ValueError, match=r"8 different tokens, the model 5"):
        fit_awd(LanguageModel(5, StringKernelNetwork(3, 3)), corpus())


@pytest.mark.parametrize(
    "options",
    [{"lr": 0.0}, {"weight_decay": -1.0}, {"activation": -1.0}, {"slowness": -1.0}, {"nonmonotone": -1}],
)
def test_options_out_of_range(options: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=f"{next(iter(options))} must be"):
        AWDOptions(**options)  # type: ignore[arg-type]


def test_the_state_is_carried_from_stretch_to_stretch(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[Tensor | None, Tensor]] = []
    read = LanguageModel.read

    def watched(
        self: LanguageModel, tokens: Tensor, ptr: Tensor | None = None, state: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        h, after = read(self, tokens, ptr, state)
        if self.training:
            seen.append((state, after))
        return h, after

    monkeypatch.setattr(LanguageModel, "read", watched)
    data = corpus()
    fit_awd(model(len(data.vocabulary)), data, replace(PLAIN, epochs=1), progress=False)
    assert len(seen) > 2
    assert seen[0][0] is None
    for (_, before), (given, _) in pairwise(seen):
        assert torch.equal(given, before)
        assert not given.requires_grad


def test_another_network_is_not_resumed(tmp_path: Path) -> None:
    """Though its weights would fit."""
    data = corpus(2)
    fit_awd(model(8), data, replace(SMALL, epochs=1), directory=tmp_path, progress=False)
    with pytest.raises(ValueError, match=r"to resume has network .*'dropout': 0.0.* this is .*0.5"):
        fit_awd(model(8, dropout=0.5), data, SMALL, directory=tmp_path, resume=True, progress=False)
    again = fit_awd(model(8), data, SMALL, directory=tmp_path, resume=True, progress=False)
    assert len(again.history) == 3
