from __future__ import annotations

from typing import Any

import pytest
import torch

from wlkernelnn.bench.language.rrnn.tasks import LENGTH, TASKS, Strings, build


def test_networks() -> None:
    """The published widths, and the GRU of 100 units."""
    vectors = torch.randn(7, 100)
    for name, task in TASKS.items():
        strings = Strings(*[None] * 3, 7, 3, None if name.startswith("wiki") else vectors)  # type: ignore[arg-type]
        for model in task.models:
            network = build(model, task, strings)
            assert network.embedding.weight.requires_grad == name.startswith("wiki")
            assert network.encoder.out_channels == 100
    scorers = {name: task.models for name, task in TASKS.items()}
    widths: dict[str, Any] = {name: [m.hidden_channels for m in of.values()] for name, of in scorers.items()}
    assert widths == {"wiki-5k": [256, None], "wiki-10k": [64, None], "sst": [10, None], "ptb": [137, None]}


@pytest.mark.parametrize(("task", "name"), [("wiki-5k", "rrnn"), ("wiki-10k", "rrnn-gru")])
def test_gradients_at_the_start(task: str, name: str) -> None:
    """Those of the cell are neither lost nor so large that their bound leaves nothing to the output."""
    torch.manual_seed(0)
    network = build(name, TASKS[task], Strings(*[None] * 3, 27, 27))  # type: ignore[arg-type]
    tokens = torch.randint(27, (4, LENGTH))
    ptr = (LENGTH - 1) * torch.arange(5)
    logits = network(tokens[:, :-1].flatten(), ptr)
    torch.nn.functional.cross_entropy(logits, tokens[:, 1:].flatten(), reduction="sum").backward()
    of_cell, of_head = (
        torch.stack([parameter.grad.norm() for parameter in part.parameters() if parameter.grad is not None])
        for part in (network.encoder, network.head)
    )
    assert len(of_cell) >= 2  # of tuples; a scorer whose choice is hard has none
    assert of_head.norm() / 10 < of_cell.norm() < 50 * of_head.norm()


def test_an_rrnn_learns_its_first_state() -> None:
    network = build("rrnn", TASKS["wiki-5k"], Strings(*[None] * 3, 27, 27))  # type: ignore[arg-type]
    tokens, ptr = torch.tensor([1, 2, 3]), torch.tensor([0, 2, 2, 3])
    h, _ = network.encoder(network.embedding(tokens), ptr, network.state.expand(1, 3, 100))
    torch.testing.assert_close(
        network(tokens, ptr), network.head(torch.cat([network.embedding(tokens), h], 1))
    )
    network(tokens, ptr).square().sum().backward()
    assert network.state.grad.norm() > 0
    for other in ("gru", "rrnn-gru"):
        assert build(other, TASKS["wiki-10k"], Strings(*[None] * 3, 27, 27)).state is None  # type: ignore[arg-type]


def test_labels_of_the_last_tokens() -> None:
    strings = Strings(*[None] * 3, 7, 3)  # type: ignore[arg-type]
    tokens, ptr = torch.tensor([1, 2, 3, 4, 0, 6]), torch.tensor([0, 2, 3, 6])
    network = build("gru", TASKS["sst"], strings)
    logits = network(tokens, ptr)
    network.last = False
    torch.testing.assert_close(logits, network(tokens, ptr)[[1, 2, 5]])
