from __future__ import annotations

import math
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from wlkernelnn.datasets import Corpus, Vocabulary
from wlkernelnn.sequence import LanguageModel, StringKernelNetwork
from wlkernelnn.training import DivergedError, LanguageOptions, callbacks, fit_language_model, perplexity
from wlkernelnn.training.text.replay import Replay
from wlkernelnn.training.text.scores import label_nll, negative_log_likelihood

WORDS = ["the", "cat", "sat", "on", "the", "mat", "and", "the", "dog", "sat", "on", "the", "log"]


def corpus(repetitions: int = 20) -> Corpus:
    vocabulary = Vocabulary.build(WORDS)
    text = vocabulary.encode(WORDS * repetitions)
    return Corpus(train=text, valid=text[:60], test=text[:100], vocabulary=vocabulary)


def model(num_tokens: int, dropout: float = 0.0) -> LanguageModel:
    torch.manual_seed(0)
    return LanguageModel(num_tokens, StringKernelNetwork(12, 12, 2, feedback=True), dropout)


def test_perplexity_of_each_string(monkeypatch: pytest.MonkeyPatch) -> None:
    net = model(6)
    tokens = torch.randint(6, (30,), generator=torch.Generator().manual_seed(0))
    ptr = [0, 7, 7, 8, 20, 22, 30]
    each = perplexity(net, tokens, ptr)
    assert each.isnan().tolist() == [False, True, True, False, False, False]
    for i in (0, 3, 4, 5):
        assert float(each[i]) == pytest.approx(perplexity(net, tokens[ptr[i] : ptr[i + 1]]), rel=1e-5)
    monkeypatch.setattr("wlkernelnn.training.text.language.SCORED", 3)
    seen: list[int] = []
    predict = net.predict
    monkeypatch.setattr(net, "predict", lambda h: seen.append(len(h)) or predict(h))  # type: ignore[func-returns-value]
    torch.testing.assert_close(perplexity(net, tokens, ptr), each, equal_nan=True)
    assert (max(seen), sum(seen)) == (3, 6 + 11 + 1 + 7)  # never the logits of a whole string


def test_half_precision_sums_in_single() -> None:
    net, tokens = model(6).bfloat16(), torch.arange(900) % 6
    with torch.no_grad():
        logits, _ = net(tokens[None, :-1])
    nll = torch.nn.functional.cross_entropy(logits[0].float(), tokens[1:])
    assert perplexity(net, tokens) == pytest.approx(math.exp(nll.item()), rel=1e-3)


SMALL = LanguageOptions(epochs=3, batch_size=4, bptt=7, lr=0.5, decay_from=1, lr_decay=0.5)


def test_perplexity_is_over_all_targets_and_carries_the_state(monkeypatch: pytest.MonkeyPatch) -> None:
    data = corpus()
    net = model(len(data.vocabulary))
    logits, _ = net(data.test[None, :-1])
    nll = torch.nn.functional.cross_entropy(logits[0], data.test[1:])
    assert perplexity(net, data.test) == pytest.approx(math.exp(nll.item()), rel=1e-5)
    monkeypatch.setattr("wlkernelnn.training.text.language.EVALUATION_LENGTH", 9)
    assert perplexity(net, data.test) == pytest.approx(math.exp(nll.item()), rel=1e-5)


def test_scoring_leaves_the_mode_as_it_was_and_drops_nothing() -> None:
    data = corpus()
    net = model(len(data.vocabulary), dropout=0.5)
    net.train()
    net.encoder.eval()  # frozen
    assert perplexity(net, data.test) == perplexity(net, data.test)
    assert net.training
    assert not net.encoder.training
    with pytest.raises(IndexError, match="tokens have ids"):
        perplexity(net, data.test + 1000)
    assert net.training


def test_perplexity_of_a_bad_model_is_large() -> None:
    """As in validation: the exponential of 1,000 would be no float."""
    data = corpus()
    net = model(len(data.vocabulary))
    with torch.no_grad():
        net.bias[data.test.unique()[0]] += 1e4
    assert perplexity(net, data.test) == math.exp(700)


def test_training_learns_the_text() -> None:
    data = corpus()
    encoder = StringKernelNetwork(12, 12, 2, ngram=1, feedback=True, highway=True)
    net = LanguageModel(len(data.vocabulary), encoder)
    before = perplexity(net, data.test)
    result = fit_language_model(net, data, replace(SMALL, epochs=5, lr_decay=0.9), progress=False)
    assert perplexity(net, data.test) < before / 2
    assert result.metric == "perplexity"
    assert result.score == min(epoch["valid_perplexity"] for epoch in result.history)
    assert result.score == pytest.approx(perplexity(net, data.valid), rel=1e-4)
    assert not net.training


def test_state_is_carried_through_an_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every stretch but the first of training and of validation begins with a state."""
    data = corpus()
    net = model(len(data.vocabulary))
    seen = []
    forward = LanguageModel.forward

    def spy(self, tokens, ptr=None, state=None):  # type: ignore[no-untyped-def]
        seen.append((tuple(tokens.shape), state is None, state is not None and state[0].requires_grad))
        return forward(self, tokens, ptr, state)

    monkeypatch.setattr(LanguageModel, "forward", spy)
    monkeypatch.setattr("wlkernelnn.training.text.language.EVALUATION_LENGTH", 30)
    fit_language_model(net, data, replace(SMALL, epochs=2), progress=False)
    one_epoch = [((4, 7), True, False), *[((4, 7), False, False)] * 8, ((4, 1), False, False)]
    one_epoch += [((1, 30), True, False), ((1, 29), False, False)]
    assert seen == 2 * one_epoch


def test_loss_is_summed_over_tokens_and_averaged_over_streams() -> None:
    """One step of SGD by hand."""
    data = corpus(1)
    net, by_hand = model(len(data.vocabulary)), model(len(data.vocabulary))
    options = LanguageOptions(epochs=1, batch_size=2, bptt=35, lr=0.1, gradient_clip=0.0, decay_from=5)
    fit_language_model(net, replace(data, valid=data.train), options, progress=False)
    inputs, targets = data.train[:12].view(2, 6), data.train[1:13].view(2, 6)
    logits, _ = by_hand(inputs)
    loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="sum") / 2
    loss.backward()
    for name, weight in by_hand.named_parameters():
        torch.testing.assert_close(net.get_parameter(name), (weight - 0.1 * weight.grad).detach())


@pytest.mark.parametrize(
    ("decay_from", "expected"), [(2, [1.0, 1.0, 0.5, 0.25]), (0, [0.5, 0.25, 0.125, 0.0625])]
)
def test_learning_rate(decay_from: int, expected: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    data, rates = corpus(), []
    step = torch.optim.SGD.step

    def spy(self, closure=None):  # type: ignore[no-untyped-def]
        rates.append(self.param_groups[0]["lr"])
        return step(self, closure)

    monkeypatch.setattr(torch.optim.SGD, "step", spy)
    options = LanguageOptions(epochs=4, batch_size=4, bptt=100, lr_decay=0.5, decay_from=decay_from)
    fit_language_model(model(len(data.vocabulary)), data, options, progress=False)
    assert rates == expected


@pytest.mark.parametrize("precision", ["32-true", "64-true"])
def test_resumed_training_equals_uninterrupted_training(tmp_path: Path, precision: Any) -> None:
    data, options = corpus(8), replace(SMALL, precision=precision)
    nets = [model(len(data.vocabulary), dropout=0.3) for _ in range(2)]
    whole = fit_language_model(nets[0], data, options, progress=False)
    fit_language_model(nets[1], data, replace(options, epochs=1), directory=tmp_path, progress=False)
    resumed = fit_language_model(nets[1], data, options, directory=tmp_path, resume=True, progress=False)
    assert resumed.history == whole.history
    assert len(resumed.epoch_seconds) == 3
    for one, other in zip(nets[0].parameters(), nets[1].parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0)


def test_losses_of_half_networks_are_summed_in_single_precision() -> None:
    logits = torch.randn(2, 3000, 7).bfloat16()
    targets = torch.randint(7, (2, 3000))
    found = negative_log_likelihood(logits, targets)
    assert float(found) == pytest.approx(float(negative_log_likelihood(logits.double(), targets)), rel=1e-5)
    assert torch.equal(label_nll(logits.flatten(0, 1), targets), found)


def test_divergence() -> None:
    data = corpus()
    with pytest.raises(DivergedError, match=r"diverged.*lr=1e\+30") as raised:
        fit_language_model(
            model(len(data.vocabulary)), data, replace(SMALL, lr=1e30, gradient_clip=0.0), progress=False
        )
    assert raised.value.epoch == 0


def test_divergence_is_seen_before_the_epoch_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of many batches only a few are computed with weights that are no numbers."""
    monkeypatch.setattr(callbacks, "WATCHED_BATCHES", 3)
    data, seen = corpus(), 0
    network = model(len(data.vocabulary))

    def count(*_: object) -> None:
        nonlocal seen
        seen += 1

    network.register_forward_hook(count)
    with pytest.raises(DivergedError, match="the loss of epoch 1 is"):
        fit_language_model(network, data, replace(SMALL, lr=1e30, gradient_clip=0.0), progress=False)
    assert 1 < seen <= 4


def test_another_vocabulary() -> None:
    with pytest.raises(ValueError, match=r"8 different tokens, the model 5"):
        fit_language_model(model(5), corpus())


@pytest.mark.parametrize(
    "options",
    [{"lr": 0.0}, {"lr_decay": 1.5}, {"decay_from": -1}, {"epochs": 0}, {"matmul_precision": "low"}],
)
def test_options_out_of_range(options: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=f"{next(iter(options))} must be"):
        LanguageOptions(**options)  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", [-100, -1, 10**6])
def test_ids_that_are_none(wrong: int) -> None:
    """-100 is what torch's loss leaves out."""
    net = model(5)
    for ptr in ([0, 3], None):
        with pytest.raises(IndexError, match="expected 0 … 4"):
            perplexity(net, [1, 2, wrong], ptr)
    with pytest.raises(ValueError, match="ptr: expected where each of the strings begins"):
        perplexity(net, [1, 2], [])


@pytest.mark.parametrize("dtype", [torch.int32, torch.int16])
def test_small_integers(dtype: torch.dtype) -> None:
    text, options = corpus(5), replace(SMALL, epochs=1)
    parts = {part: getattr(text, part).to(dtype) for part in ("train", "valid", "test")}
    trained, expected = model(len(text.vocabulary)), model(len(text.vocabulary))
    fit_language_model(trained, Corpus(**parts, vocabulary=text.vocabulary), options, progress=False)
    fit_language_model(expected, text, options, progress=False)
    assert perplexity(trained, parts["test"]) == perplexity(expected, text.test)
    assert perplexity(trained, text.test.tolist()) == perplexity(expected, text.test)


class PretendsToBeOnGpu(torch.Tensor):
    is_cuda = True  # type: ignore[assignment]


@pytest.mark.parametrize("wanted", [True, False])
def test_stretches_of_one_shape_are_replayed(wanted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those with a state; what a stand-in for a recording returns has no way back to the stretch before."""
    replayed = []

    def recorded(self: Replay, *example: Any) -> Any:
        return lambda *values: (replayed.append(tuple(values[0].shape)), self._plain(*values))[1]

    monkeypatch.setattr(Replay, "_recorded", recorded)
    monkeypatch.setattr(torch.random, "fork_rng", lambda devices: nullcontext())
    replay, plain, states = Replay(model(5), wanted), Replay(model(5), False), [None, None]
    for length in (3, 3, 2, 3):
        tokens = torch.randint(5, (2, length))
        nll, states[0] = replay(PretendsToBeOnGpu(tokens), tokens, states[0])
        expected, states[1] = plain(tokens, tokens, states[1])
        torch.testing.assert_close(nll, expected)
        assert not states[0][0].requires_grad
    assert replayed == ([(2, 3)] * 2 if wanted else [])


def test_another_network_is_not_resumed(tmp_path: Path) -> None:
    """Though its weights would fit."""
    data = corpus(2)
    place: dict[str, Any] = {"directory": tmp_path, "progress": False}
    fit_language_model(model(8), data, replace(SMALL, epochs=1), **place)
    with pytest.raises(ValueError, match=r"to resume has network .*'dropout': 0.0.* this is .*0.5"):
        fit_language_model(model(8, 0.5), data, SMALL, resume=True, **place)
    assert len(fit_language_model(model(8), data, SMALL, resume=True, **place).history) == 3
