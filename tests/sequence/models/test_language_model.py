from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_model, save_model
from torch.nn.parameter import is_lazy
from torch.nn.utils.rnn import pack_sequence

from tests.checks.equations import randomize
from tests.inputs.strings import ptr_of
from wlkernelnn.sequence import RKM, LanguageModel, StringKernelConv, StringKernelNetwork, detached
from wlkernelnn.training import perplexity

V, D = 7, 4


def made(tied: bool = True, **options: Any) -> LanguageModel:
    encoder = StringKernelNetwork(D, D, 2, ngram=1, feedback=True, highway=True)
    model = LanguageModel(V, encoder, tied=tied, **options)
    randomize(model)
    return model


@pytest.mark.parametrize("tied", [True, False], ids=["tied", "untied"])
def test_logits(tied: bool) -> None:
    model, tokens, ptr = made(tied), torch.randint(V, (6,)), ptr_of([4, 0, 2])
    logits, state = model(tokens, ptr)
    h, expected_state = model.encoder(model.embedding.weight[tokens], ptr)
    output, bias = (model.embedding.weight, model.bias) if tied else (model.head.weight, model.head.bias)
    torch.testing.assert_close(logits, h @ output.t() + bias)
    assert all(map(torch.equal, state, expected_state))


def test_tied_embeddings_are_one_parameter() -> None:
    model, untied = made(), made(tied=False)
    assert model.head is None
    numbers = [sum(p.numel() for p in each.parameters()) for each in (model, untied)]
    assert numbers[1] - numbers[0] == V * D
    # Its gradient has both ways.
    logits, _ = model(torch.tensor([[1, 2]]))
    logits.sum().backward()
    assert model.embedding.weight.grad is not None
    assert model.embedding.weight.grad.any(dim=1).all()


@pytest.mark.parametrize("kind", [RKM, StringKernelNetwork])
@pytest.mark.parametrize("tied", [True, False], ids=["tied", "untied"])
def test_it_begins_near_the_uniform_distribution(kind: type[RKM | StringKernelNetwork], tied: bool) -> None:
    model = LanguageModel(1000, kind(64, 64), tied=tied)
    tokens = torch.randint(1000, (4, 20))
    with torch.no_grad():
        logits, _ = model(tokens)
    loss = torch.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())
    assert loss.item() == pytest.approx(math.log(1000), abs=0.5)


def test_a_text_read_in_pieces_is_the_text() -> None:
    """As truncated back-propagation reads it: the same logits, but gradients of the piece alone."""
    model, tokens = made(), torch.randint(V, (3, 9))
    whole, _ = model(tokens)
    pieces, state = [], None
    for piece in tokens.split(4, dim=1):
        logits, state = model(piece, state=None if state is None else detached(state))
        pieces.append(logits)
    torch.testing.assert_close(torch.cat(pieces, dim=1), whole)


def test_both_layouts() -> None:
    model, tokens = made(), torch.randint(V, (3, 4))
    padded, _ = model(tokens)
    end_to_end, _ = model(tokens.view(-1), ptr_of([4, 4, 4]))
    torch.testing.assert_close(padded.view(12, V), end_to_end)


def test_dropout_of_embeddings_and_output() -> None:
    """An encoder that changes nothing shows both masks: of x, and of h before the head."""
    model, tokens = made(tied=False, dropout=0.5), torch.randint(V, (1, 200))
    seen = []
    model.encoder.register_forward_hook(lambda module, inputs, out: seen.append(inputs[0]))
    model.head.register_forward_hook(lambda module, inputs, out: seen.append(inputs[0]))
    model(tokens)
    for values in seen:
        assert 0.4 < float((values == 0).double().mean()) < 0.6
    model.eval()(tokens)
    assert not any((values == 0).any() for values in seen[2:])


def test_dropouts_that_differ() -> None:
    model, tokens, seen = made(tied=False, dropout=(0.2, 0.7)), torch.randint(V, (1, 400)), []
    model.encoder.register_forward_hook(lambda module, inputs, out: seen.append(inputs[0]))
    model.head.register_forward_hook(lambda module, inputs, out: seen.append(inputs[0]))
    model(tokens)
    for values, expected in zip(seen, (0.2, 0.7), strict=True):
        assert abs(float((values == 0).double().mean()) - expected) < 0.1


def test_dropouts_as_a_list() -> None:
    assert made(tied=False, dropout=[0.2, 0.7]).dropouts == (0.2, 0.7)


@pytest.mark.parametrize("options", [{}, {"tied": False}, {"low_rank": True}], ids=["tied", "untied", "rank"])
def test_lazy_encoders(options: dict[str, Any]) -> None:
    """Embeddings are as wide as what the encoder writes, and all parameters are there at once."""
    model = LanguageModel(V, RKM(-1, 6), **options)
    assert model.embedding.embedding_dim == 6
    assert not any(map(is_lazy, model.parameters()))
    sized = LanguageModel(V, RKM(6, 6), **options)
    sized.load_state_dict(model.state_dict())
    tokens = torch.randint(V, (2, 3))
    assert torch.equal(model(tokens)[0], sized(tokens)[0])


def test_locked_dropout() -> None:
    """The same values of the embeddings, and of h, at all tokens of a string."""
    model, seen = made(tied=False, dropout=0.5, locked=True), []
    tokens, ptr = torch.randint(V, (12,)), ptr_of([5, 0, 7])
    model.encoder.register_forward_hook(lambda module, inputs, out: seen.append(inputs[0]))
    model.head.register_forward_hook(lambda module, inputs, out: seen.append(inputs[0]))
    model(tokens, ptr)
    model(tokens.view(2, 6))
    for values in seen:
        for string in values.view(2, 6, D) if values.dim() == 3 else values.split([5, 7]):
            assert torch.equal(string == 0, (string[:1] == 0).expand_as(string))
    assert any((values == 0).any() for values in seen)
    assert not all((values == 0).all() for values in seen)
    model.eval()(tokens, ptr)
    assert not any((values == 0).any() for values in seen[4:])


def test_word_dropout_takes_whole_words_from_the_input_alone() -> None:
    model, tokens, seen = made(word_dropout=0.4), torch.arange(V).repeat(3, 5), []
    model.encoder.register_forward_hook(lambda module, inputs, out: seen.append(inputs[0]))
    kept = set()
    for _ in range(10):
        logits, _ = model(tokens)
        ratio = seen.pop() / model.embedding.weight[tokens]
        torch.testing.assert_close(ratio, ratio[:1, :V, :1].repeat(3, 5, D))
        torch.testing.assert_close(ratio, (ratio > 0).double() / 0.6)
        kept.add(tuple(ratio[0, :V, 0].tolist()))
        assert (logits != model.bias).any(dim=1).all()
    assert len(kept) > 1
    model.eval()(tokens)
    assert torch.equal(seen[0], model.embedding.weight[tokens])


@pytest.mark.parametrize(("tied", "low_rank", "rank"), [(True, True, 3), (False, True, 3), (False, 2, 2)])
def test_low_rank_output_is_its_product(tied: bool, low_rank: bool | int, rank: int) -> None:
    """U = A E, of rank 3 or what is given, between 5 channels and 7 tokens."""
    model = LanguageModel(V, StringKernelNetwork(3, 5, 1, ngram=1), tied=tied, low_rank=low_rank)
    randomize(model)
    tokens, ptr = torch.randint(V, (6,)), ptr_of([4, 2])
    logits, _ = model(tokens, ptr)
    h, _ = model.encoder(model.embedding.weight[tokens], ptr)
    a, bias = (model.embedding.weight, model.bias) if tied else (model.head.weight, model.head.bias)
    u = a @ model.projection.weight
    assert u.shape == (V, 5)
    assert torch.linalg.matrix_rank(u) == rank
    torch.testing.assert_close(logits, h @ u.t() + bias)


def test_weights_in_a_file(tmp_path: Path) -> None:
    model, tokens = made().float(), torch.randint(V, (2, 3))
    fresh = LanguageModel(V, StringKernelNetwork(D, D, 2, ngram=1, feedback=True, highway=True))
    save_model(model, tmp_path / "weights.safetensors")
    load_model(fresh, tmp_path / "weights.safetensors")
    assert torch.equal(fresh(tokens)[0], model(tokens)[0])
    assert len(model.state_dict()) == len({value.data_ptr() for value in model.state_dict().values()})


def test_tokens_are_integers_of_any_size() -> None:
    model = LanguageModel(7, StringKernelNetwork(4, 4, 1, ngram=1), word_dropout=0.5)
    tokens, ptr = torch.tensor([5, 0, 6, 2]), torch.tensor([0, 1, 4])
    found = []
    for dtype in (torch.int64, torch.uint8, torch.int16):
        torch.manual_seed(0)
        found.append(model(tokens.to(dtype), ptr)[0])
    assert torch.equal(found[0], found[1])
    assert torch.equal(found[0], found[2])


def test_bad_tokens() -> None:
    model = made()
    with pytest.raises(IndexError, match=r"tokens have ids 0 … 7, expected 0 … 6 \(num_tokens=7\)"):
        model(torch.tensor([[0, 7]]))
    with pytest.raises(ValueError, match=r"tokens must be integers, got torch\.float32"):
        model(torch.zeros(1, 2))
    with pytest.raises(TypeError, match="LanguageModel reads no PackedSequence: path_graph makes a Data"):
        model(pack_sequence([torch.tensor([1, 2])]))
    for locked in (False, True):
        model = made(locked=locked, dropout=0.1).train()
        with pytest.raises(ValueError, match=r"tokens of shape .* got \[2\] without ptr"):
            model(torch.tensor([0, 1]))
        with pytest.raises(ValueError, match=r"got \[1, 2\] with ptr"):
            model(torch.tensor([[0, 1]]), torch.tensor([0, 2]))
        with pytest.raises(ValueError, match="LanguageModel: ptr ends at 3, x has 2 tokens"):
            model(torch.tensor([0, 1]), torch.tensor([0, 3]))


def test_bad_arguments() -> None:
    encoder = StringKernelNetwork(3, 5)
    with pytest.raises(ValueError, match=r"tied embeddings .* got an encoder from 3 to 5"):
        LanguageModel(V, encoder)
    with pytest.raises(ValueError, match="num_tokens must be an integer of at least 1, got 0"):
        LanguageModel(0, encoder, tied=False)
    with pytest.raises(ValueError, match=r"dropout must be in \[0, 1\), got 1.0"):
        LanguageModel(V, encoder, dropout=1.0, tied=False)
    with pytest.raises(ValueError, match=r"dropout must be in \[0, 1\), got -0.5"):
        LanguageModel(V, encoder, dropout=(0.5, -0.5), tied=False)
    for wrong in ((0.1, 0.2, 0.3), [0.1]):
        with pytest.raises(
            ValueError, match=r"dropout must be a number or a pair of numbers, got [\(\[]0\.1"
        ):
            LanguageModel(V, encoder, dropout=wrong, tied=False)
    with pytest.raises(ValueError, match="low_rank=2 needs tied=False"):
        LanguageModel(V, encoder, low_rank=2)
    for rank in (0, 2.0):
        with pytest.raises(ValueError, match=f"low_rank must be an integer of at least 1, got {rank}"):
            LanguageModel(V, encoder, tied=False, low_rank=rank)
    with pytest.raises(ValueError, match=r"word_dropout must be in \[0, 1\), got 1.0"):
        LanguageModel(V, encoder, word_dropout=1.0, tied=False)


def test_the_most_probable_tokens() -> None:
    model = made()
    drawn = model.generate([1, 4, 2], 5, temperature=0.0)
    assert torch.equal(model.generate([1, 4, 2], 5, temperature=1e-300), drawn)
    tokens = torch.tensor([[1, 4, 2, *drawn.tolist()]])
    logits, _ = model(tokens)
    assert drawn.tolist() == logits[0, 2:-1].argmax(1).tolist()
    assert model.generate([1, 4, 2], 0).shape == (0,)


def test_the_most_probable_token_is_one_where_several_are() -> None:
    net = LanguageModel(5, StringKernelConv(4, 4))
    torch.nn.init.zeros_(net.embedding.weight)
    drawn = net.generate([[1, 2]] * 20, 5, top_k=1)
    assert (drawn == drawn[0, 0]).all()


@pytest.mark.parametrize("tokens", [np.arange(4)[::-1], np.array([3, 2, 1, 0], ">i4")])
def test_arrays_of_any_layout(tokens: np.ndarray) -> None:
    net = LanguageModel(5, StringKernelConv(4, 4)).eval()
    expected = [3, 2, 1, 0]
    assert torch.equal(net(tokens, [0, 4])[0], net(expected, [0, 4])[0])
    assert torch.equal(net.generate(tokens, 3, 0), net.generate(expected, 3, 0))
    assert perplexity(net, tokens) == perplexity(net, expected)


@pytest.mark.parametrize("top_k", [1, 3, 99])
def test_drawn_tokens_are_among_the_most_probable(top_k: int) -> None:
    model, seed = made(dropout=0.5).train(), torch.Generator().manual_seed(0)
    prompts = torch.randint(V, (40, 3))
    drawn = model.generate(prompts, 1, 2.0, top_k, seed)
    assert model.training
    assert drawn.shape == (40, 1)
    logits, _ = model.eval()(prompts)
    rank = (logits[:, -1] > logits[:, -1].gather(1, drawn)).sum(1)
    assert int(rank.max()) < top_k
    assert top_k == 1 or int(rank.max()) > 0


def test_tokens_are_drawn_with_their_probabilities() -> None:
    model = made().eval()
    prompt = torch.tensor([[2, 5]])
    drawn = model.generate(prompt.expand(6_000, -1), 1, 1.5, generator=torch.Generator().manual_seed(1))
    expected = (model(prompt)[0][0, -1] / 1.5).softmax(0)
    found = drawn.flatten().bincount(minlength=V) / torch.tensor(6_000.0, dtype=expected.dtype)
    torch.testing.assert_close(found, expected, rtol=0, atol=0.03)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"prompt": []}, "prompt must be tokens"),
        ({"temperature": -0.1}, "temperature must be at least 0"),
        ({"temperature": float("nan")}, "temperature must be a finite number"),
        ({"top_k": 0}, "top_k must be an integer of at least 1"),
        ({"max_tokens": -1}, "max_tokens must be an integer of at least 0"),
    ],
    ids=str,
)
def test_what_cannot_be_generated(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        made().generate(**{"prompt": [1], "max_tokens": 1, **options})
