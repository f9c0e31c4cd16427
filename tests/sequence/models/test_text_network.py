from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch.nn.parameter import is_lazy

from tests.checks.equations import randomize
from tests.inputs.edited import edit
from tests.inputs.strings import ptr_of
from wlkernelnn import sequence
from wlkernelnn.sequence import RKM, StringKernelNetwork, TextNetwork, path_graph
from wlkernelnn.training import load_checkpoint, save_checkpoint

V, D, C = 7, 4, 3


def made(frozen: bool = False, **options: object) -> TextNetwork:
    embedding = torch.nn.Embedding.from_pretrained(torch.randn(V, D), freeze=frozen)
    model = TextNetwork(embedding, StringKernelNetwork(D, 5, 2, jumping="cat", act="relu"), C, **options)  # type: ignore[arg-type]
    randomize(model)
    return model


@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no_bias"])
def test_logits_are_linear_in_the_mean_of_the_tokens(bias: bool) -> None:
    model, tokens, lengths = made(bias=bias), torch.randint(V, (6,)), [3, 0, 1, 2]
    logits = model(tokens, ptr_of(lengths))
    assert (model.head.bias is not None) == bias
    constant = 0.0 if model.head.bias is None else model.head.bias
    for string, came in zip(tokens.split(lengths), logits, strict=True):
        h, _ = model.encoder(model.embedding.weight[string].unsqueeze(0))
        mean = h[0].mean(0) if len(string) else torch.zeros(10).double()
        torch.testing.assert_close(came, mean @ model.head.weight.t() + constant)


def test_both_layouts_and_their_gradients() -> None:
    model, tokens = made(), torch.randint(V, (3, 4))
    found = []
    for inputs in ((tokens,), (tokens.view(-1), ptr_of([4, 4, 4]))):
        logits = model(*inputs)
        found.append((logits, *torch.autograd.grad(logits.square().sum(), list(model.parameters()))))
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other)


def test_strings_do_not_meet() -> None:
    model, tokens, lengths = made(), torch.randint(V, (6,)), [3, 0, 1, 2]
    together = model(tokens, ptr_of(lengths))
    alone = [model(string, ptr_of([len(string)])) for string in tokens.split(lengths)]
    torch.testing.assert_close(together, torch.cat(alone))
    assert model(tokens[:0], ptr_of([])).shape == (0, C)


def test_frozen_embeddings_stay() -> None:
    model = made(frozen=True)
    assert not model.embedding.weight.requires_grad
    model(torch.tensor([[1, 2]])).sum().backward()
    assert model.embedding.weight.grad is None
    assert model.head.weight.grad is not None


def test_dropout_of_embeddings_and_mean() -> None:
    model, seen = made(dropout=0.5), []
    model.encoder.register_forward_hook(lambda module, inputs, out: seen.append(inputs[0]))
    model.head.register_forward_hook(lambda module, inputs, out: seen.append(inputs[0]))
    tokens, ptr = torch.randint(V, (60,)), ptr_of([3] * 20)
    model(tokens, ptr)
    assert 0.4 < float((seen[0] == 0).double().mean()) < 0.6
    dropped = (seen[1] == 0).all(dim=0)  # channels may be 0 by themselves
    model.eval()(tokens, ptr)
    assert not (seen[2] == 0).any()
    share = (seen[1] == 0)[:, ~dropped].double().mean() - (seen[3] == 0)[:, ~dropped].double().mean()
    assert 0.2 < float(share) < 0.6


def test_embeddings_have_a_dropout_of_their_own() -> None:
    model, seen = made(dropout=0.5, embedding_dropout=0.0), []
    model.encoder.register_forward_hook(lambda module, inputs, out: seen.append(inputs[0]))
    model.head.register_forward_hook(lambda module, inputs, out: seen.append(inputs[0]))
    model(torch.randint(V, (60,)), ptr_of([3] * 20))
    assert not (seen[0] == 0).any()
    assert (seen[1] == 0).double().mean() > 0.3


def test_lazy_encoders() -> None:
    """They learn from the embeddings how wide tokens are, before an optimizer asks for their parameters."""
    model = TextNetwork(torch.nn.Embedding(V, D), RKM(-1, 5), C)
    assert not any(map(is_lazy, model.parameters()))
    assert model(torch.randint(V, (2, 3))).shape == (2, C)


def test_bad_input() -> None:
    model = made()
    with pytest.raises(IndexError, match=r"ids 1 … 7, expected 0 … 6 \(num_tokens=7\)"):
        model(torch.tensor([[1, 7]]))
    with pytest.raises(ValueError, match="tokens must be integers"):
        model(torch.ones(1, 2))
    with pytest.raises(ValueError, match="ptr ends at 3, x has 2 tokens"):
        model(torch.tensor([1, 2]), torch.tensor([0, 3]))
    with pytest.raises(ValueError, match=r"tokens .* \[2\] without ptr"):
        model(torch.tensor([1, 2]))
    with pytest.raises(ValueError, match="embeddings of 4 values for an encoder of 3"):
        TextNetwork(torch.nn.Embedding(V, D), StringKernelNetwork(3, 5), C)
    with pytest.raises(ValueError, match=r"dropout must be in \[0, 1\), got 1.0"):
        made(dropout=1.0)
    with pytest.raises(ValueError, match=r"embedding_dropout must be in \[0, 1\), got -0.1"):
        made(embedding_dropout=-0.1)


def test_older_checkpoints_have_another_name(tmp_path: Path) -> None:
    model, tokens = TextNetwork(torch.nn.Embedding(V, D), RKM(D, 5), C).eval(), torch.randint(V, (2, 4))
    save_checkpoint(tmp_path, model)
    config = tmp_path / "config.json"
    config.write_text(config.read_text().replace("TextNetwork", "TextClassifier"))
    edit(config, {})
    again, _ = load_checkpoint(tmp_path)
    assert type(again) is sequence.TextClassifier is TextNetwork
    assert torch.equal(again(tokens), model(tokens))
    assert sequence.StringClassifier is sequence.StringNetwork


def test_empty_texts() -> None:
    """Of no tokens nothing tells that they are ids."""
    network = TextNetwork(torch.nn.Embedding(2, 1), RKM(1, 2), 3)
    assert network(path_graph([[], []])).shape == (2, 3)
