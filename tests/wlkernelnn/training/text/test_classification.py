from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from wlkernelnn.datasets import PackedStrings, StringLoader, Vocabulary
from wlkernelnn.sequence import StringKernelNetwork, StringNetwork, TextNetwork
from wlkernelnn.training import ClassifierOptions, accuracy, class_probabilities, fit_classifier

VOCABULARY = Vocabulary(("good", "bad", "film", "a", "the"))


def reviews(count: int, seed: int = 0) -> PackedStrings:
    """Strings of noise with one word that says which class they are of."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, count)
    strings = []
    for label in y:
        words = rng.choice(["film", "a", "the"], rng.integers(0, 6)).tolist()
        words.insert(int(rng.integers(0, len(words) + 1)), "bad" if label else "good")
        strings.append(words)
    return PackedStrings.encode(strings, y, VOCABULARY)


def classifier(dropout: float = 0.0, freeze: bool = False) -> TextNetwork:
    torch.manual_seed(0)
    embedding = torch.nn.Embedding.from_pretrained(torch.randn(len(VOCABULARY), 6), freeze=freeze)
    return TextNetwork(embedding, StringKernelNetwork(6, 8, 2, act="relu", jumping="cat"), 2, dropout)


OPTIONS = ClassifierOptions(epochs=4, batch_size=8, lr=1e-2, lr_decay=0.9)


def test_training_learns_the_classes() -> None:
    train, valid = reviews(120), reviews(30, seed=1)
    net = classifier()
    result = fit_classifier(net, train, valid, OPTIONS, progress=False)
    assert result.score == max(epoch["valid_accuracy"] for epoch in result.history)
    assert result.score == pytest.approx(accuracy(net, valid))
    assert accuracy(net, reviews(100, seed=2)) > 0.9
    assert not net.training


def test_class_probabilities() -> None:
    """Rows are those of the strings, one by one, in evaluation mode; the mode afterwards is that before."""
    net, strings = classifier(dropout=0.5), reviews(300)
    net.train()
    net.encoder.eval()  # frozen
    found = class_probabilities(net, strings)
    assert net.training
    assert not net.encoder.training
    assert not found.requires_grad
    torch.testing.assert_close(found.sum(1), torch.ones(300))
    net.eval()
    for i in (0, 255, 299):  # of two batches
        expected = net(strings[i].x.unsqueeze(0)).detach().softmax(1)[0]
        torch.testing.assert_close(found[i], expected)


def test_accuracy_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    strings, net = reviews(50), classifier(dropout=0.5)
    net.eval()
    right = sum(int(net(strings[i].x[None]).argmax() == strings.y[i]) for i in range(50))
    net.train()
    monkeypatch.setattr("wlkernelnn.training.text.classification.EVALUATION_BATCH", 7)
    assert accuracy(net, strings) == right / 50
    assert net.training


def test_frozen_vectors_stay() -> None:
    net = classifier(freeze=True)
    before = net.embedding.weight.clone()
    fit_classifier(net, reviews(40), None, replace(OPTIONS, l2=0.1), progress=False)
    torch.testing.assert_close(net.embedding.weight, before, rtol=0, atol=0)


def test_squared_weights_are_a_part_of_the_loss() -> None:
    """One step of Adam by hand."""
    strings = reviews(8)
    net, by_hand = classifier(), classifier()
    options = ClassifierOptions(epochs=1, batch_size=8, lr=1e-2, l2=0.3, gradient_clip=0.0)
    fit_classifier(net, strings, None, options, progress=False)
    optimizer = torch.optim.Adam(by_hand.parameters(), lr=1e-2)
    (batch,) = StringLoader(strings, 8)
    loss = torch.nn.functional.cross_entropy(by_hand(batch.x, batch.ptr), batch.y)
    loss = loss + 0.3 * sum((weight**2).sum() for weight in by_hand.parameters())
    loss.backward()
    optimizer.step()
    for name, weight in by_hand.named_parameters():
        torch.testing.assert_close(net.get_parameter(name), weight, rtol=1e-4, atol=1e-5)


def test_gradient_values_can_be_clipped(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[float] = []
    step = torch.optim.Adam.step

    def watched(self: torch.optim.Adam, closure: Any = None) -> Any:
        def looked() -> Any:
            loss = closure()
            grads = [p.grad for group in self.param_groups for p in group["params"] if p.grad is not None]
            seen.append(max(float(grad.abs().max()) for grad in grads))
            return loss

        return step(self, looked)

    monkeypatch.setattr(torch.optim.Adam, "step", watched)
    for clip, clipped in (("value", 1e-4), ("norm", 0.0)):
        seen.clear()
        options = replace(OPTIONS, epochs=1, gradient_clip=1e-4, clip=clip)
        fit_classifier(classifier(), reviews(16), None, options, progress=False)
        assert max(seen) <= 1e-4 * (1 + 1e-6)
        assert (max(seen) == pytest.approx(clipped)) == (clip == "value")


def test_epochs_of_so_many_batches(tmp_path: Path) -> None:
    """They go on where the one before stopped, resumed or not."""
    train, seen = reviews(20), []
    options = replace(OPTIONS, epochs=5, steps_per_epoch=3, batch_size=4)
    nets = [classifier() for _ in range(2)]
    nets[0].register_forward_hook(lambda module, inputs, out: seen.append(len(inputs[1]) - 1))
    fit_classifier(nets[0], train, None, options, progress=False)
    assert seen == [4] * 15
    fit_classifier(nets[1], train, None, replace(options, epochs=2), directory=tmp_path, progress=False)
    fit_classifier(nets[1], train, None, options, directory=tmp_path, resume=True, progress=False)
    for one, other in zip(nets[0].parameters(), nets[1].parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0)


def test_batches_of_similar_length() -> None:
    train, seen = reviews(100), []
    options = replace(OPTIONS, epochs=2, batch_size=10, group_by_length=True)
    net = classifier()
    net.register_forward_hook(lambda module, inputs, out: seen.append(inputs[1].diff()))
    fit_classifier(net, train, None, options, progress=False)
    assert len(seen) == 20
    for epoch in (seen[:10], seen[10:]):
        assert torch.cat(epoch).bincount().tolist() == train.ptr.diff().bincount().tolist()
        spread = [int(lengths.max() - lengths.min()) for lengths in epoch]
        assert sum(spread) < 10
    with pytest.raises(ValueError, match="group_by_length sorts whole epochs: give it without steps_per_ep"):
        ClassifierOptions(group_by_length=True, steps_per_epoch=3)


def test_classes_can_count_alike() -> None:
    """One step of Adam by hand, with nine strings of one class and one of the other."""
    strings = reviews(100)
    of_class = [(strings.y == label).nonzero().flatten() for label in range(2)]
    strings = strings.select([*of_class[0][:9].tolist(), int(of_class[1][0])])
    net, by_hand = classifier(), classifier()
    options = ClassifierOptions(epochs=1, batch_size=10, lr=1e-2, balance=True, gradient_clip=0.0)
    fit_classifier(net, strings, None, options, progress=False)
    optimizer = torch.optim.Adam(by_hand.parameters(), lr=1e-2)
    (batch,) = StringLoader(strings, 10)
    losses = torch.nn.functional.cross_entropy(by_hand(batch.x, batch.ptr), batch.y, reduction="none")
    (losses[:9].mean() / 2 + losses[9] / 2).backward()
    optimizer.step()
    for name, weight in by_hand.named_parameters():
        torch.testing.assert_close(net.get_parameter(name), weight, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("width", [3, -1], ids=["", "lazy"])
def test_strings_of_vectors(width: int) -> None:
    rng = torch.Generator().manual_seed(0)
    y = torch.randint(2, (40,), generator=rng)
    x = torch.randn(40, 5, 3, generator=rng) + y.view(-1, 1, 1)
    strings = PackedStrings(x.reshape(-1, 3), torch.arange(41) * 5, y)
    torch.manual_seed(0)
    net = StringNetwork(StringKernelNetwork(width, 8, 1, act="relu"), 2, hidden_channels=8)
    fit_classifier(net, strings, None, replace(OPTIONS, lr=5e-2), progress=False)
    assert accuracy(net, strings) > 0.9


def test_resumed_training_equals_uninterrupted_training(tmp_path: Path) -> None:
    train, valid = reviews(40), reviews(20, seed=1)
    nets = [classifier(dropout=0.3) for _ in range(2)]
    whole = fit_classifier(nets[0], train, valid, OPTIONS, progress=False)
    fit_classifier(nets[1], train, valid, replace(OPTIONS, epochs=2), directory=tmp_path, progress=False)
    resumed = fit_classifier(nets[1], train, valid, OPTIONS, directory=tmp_path, resume=True, progress=False)
    assert resumed.history == whole.history
    for one, other in zip(nets[0].parameters(), nets[1].parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0)


def test_weights_of_classes_count_in_validation() -> None:
    train, valid = reviews(40), reviews(30, seed=1)
    net = classifier()
    options = replace(OPTIONS, epochs=1, class_weight=[1.0, *[5.0] * (net.num_classes - 1)])
    result = fit_classifier(net, train, valid, options, progress=False)
    weight = torch.tensor(options.class_weight)[valid.y]
    right = class_probabilities(net, valid).argmax(1) == valid.y
    assert 0 < right.sum() < len(valid)
    assert result.score == pytest.approx(float((weight * right).sum() / weight.sum()))
    none = replace(options, class_weight=[0.0, *[1.0] * (net.num_classes - 1)])
    with pytest.raises(ValueError, match="valid has no strings but of classes of weight 0"):
        fit_classifier(net, train, valid.select(np.flatnonzero(valid.y.numpy() == 0)), none)


def test_patience() -> None:
    train = reviews(40)
    result = fit_classifier(
        classifier(), train, train, replace(OPTIONS, epochs=30, patience=2, lr=1e-9), progress=False
    )
    assert len(result.history) == 3
    with pytest.raises(ValueError, match="patience=2 needs valid"):
        fit_classifier(classifier(), train, None, replace(OPTIONS, patience=2))


def test_classes_that_the_model_lacks() -> None:
    strings = reviews(10)
    wrong = PackedStrings(strings.tokens, strings.ptr, strings.y + 1)
    with pytest.raises(ValueError, match=r"valid has classes 1 … 2, the model 0 … 1"):
        fit_classifier(classifier(), strings, wrong)


def test_no_strings() -> None:
    with pytest.raises(ValueError, match="train has no strings"):
        fit_classifier(classifier(), reviews(0))


def test_precision_of_the_model_is_as_before() -> None:
    model, train = classifier(), reviews(40)
    fit_classifier(model, train, train, replace(OPTIONS, epochs=1, precision="64-true"), progress=False)
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}


def test_scores_of_no_strings() -> None:
    none = reviews(0)
    assert class_probabilities(classifier(), none).shape == (0, 2)
    with pytest.raises(ValueError, match="the accuracy of no strings"):
        accuracy(classifier(), none)


@pytest.mark.parametrize("precision", ["64-true", "bf16-true"])
def test_vectors_are_read_in_any_precision(precision: str) -> None:
    x = torch.randn(30, 3, dtype=torch.float64)
    signals = PackedStrings(x, torch.arange(0, 31, 5), torch.arange(6) % 2)
    model = StringNetwork(StringKernelNetwork(3, 4, 1), 2)
    options = replace(OPTIONS, epochs=1, precision=precision)
    fit_classifier(model, signals, signals, options, progress=False)
    assert class_probabilities(model, signals).shape == (6, 2)


def test_classes_of_other_types() -> None:
    data = reviews(8)
    data = PackedStrings(data.tokens, data.ptr, data.y.float())
    with pytest.raises(ValueError, match=r"train has classes of torch\.float32, expected torch\.int64"):
        fit_classifier(classifier(), data, None, OPTIONS, progress=False)
    data = PackedStrings(data.tokens, data.ptr, data.y.long()[:, None])
    message = r"has classes of shape \[8, 1\], expected \[8\]"
    with pytest.raises(ValueError, match=f"train {message}"):
        fit_classifier(classifier(), data, None, OPTIONS, progress=False)
    with pytest.raises(ValueError, match=f"strings {message}"):
        accuracy(classifier(), data)


def test_weights_of_classes_for_a_network_of_doubles() -> None:
    model, train = classifier().double(), reviews(40)
    options = replace(OPTIONS, epochs=1, precision="64-true", class_weight=[1.0, 3.0])
    fit_classifier(model, train, None, options, progress=False)
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float64}
    fit_classifier(model, train, None, replace(options, precision="32-true"), progress=False)


def test_probabilities_of_half_networks() -> None:
    model, train = classifier(), reviews(40)
    expected = class_probabilities(model, train)
    found = class_probabilities(model.bfloat16(), train)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, expected, rtol=0.05, atol=0.02)


def test_another_network_is_not_resumed(tmp_path: Path) -> None:
    """Though its weights would fit."""
    train, valid = reviews(20), reviews(10, seed=1)
    place: dict[str, Any] = {"directory": tmp_path, "progress": False}
    fit_classifier(classifier(), train, valid, replace(OPTIONS, epochs=1), **place)
    with pytest.raises(ValueError, match=r"to resume has network .*'dropout': 0.0.* this is .*0.5"):
        fit_classifier(classifier(dropout=0.5), train, valid, OPTIONS, resume=True, **place)
    assert len(fit_classifier(classifier(), train, valid, OPTIONS, resume=True, **place).history) == 4
