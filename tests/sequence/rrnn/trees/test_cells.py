"""Theorems 5 and 6 of Qian et al.: the search can find the GRU and the LSTM."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest
import torch
from torch import Tensor

from tests.inputs.strings import normal
from wlkernelnn.sequence import RRNN
from wlkernelnn.sequence.rrnn import CELLS, Cell, Space
from wlkernelnn.sequence.rrnn.search.choice import Choice, copies
from wlkernelnn.sequence.rrnn.search.pool import Pool
from wlkernelnn.sequence.rrnn.search.search import Grown, grown
from wlkernelnn.sequence.rrnn.search.tuples import Tuples

P = 4
ALL_CELLS = pytest.mark.parametrize("name", CELLS)


class Lemma1(torch.nn.Module):
    """α(v) = Σ_k (n − k + 1) exp(−‖v − v_k‖² / 2σ_0²), of which :math:`v_1` is the highest, ….

    The lemma's proof takes a large σ_0; what it needs is a small one, n (n + 1) / 2 · exp(−δ² / 2σ_0²) < 1.
    """

    def __init__(self, vectors: Tensor) -> None:
        super().__init__()
        self.vectors = vectors
        n = len(vectors)
        smallest = torch.pdist(vectors).min()
        self.variance = smallest.square() / (2 * torch.tensor(n * (n + 1.0)).log())
        self.heights = torch.arange(n, 0, -1, dtype=vectors.dtype)

    def forward(self, candidates: Tensor) -> Tensor:
        apart = (candidates.unsqueeze(-2) - self.vectors).square().sum(-1)
        return torch.exp(-apart / (2 * self.variance)) @ self.heights


class Forced(RRNN):
    """Makes the nodes of a cell; each must be a candidate of its round."""

    target: Cell

    def grow(self, pool: Pool, choice: Choice) -> Grown:
        candidates, numbers = pool.candidates(), self.target.numbers(self.space)
        for number in numbers:
            assert number < candidates.size(1)
            pool.append(candidates[:, number])
            candidates = torch.cat([candidates, pool.candidates()], 1)
        picks = [torch.full((len(candidates),), number) for number in numbers]
        return grown(pool, picks, [None] * len(picks))


def model_of(name: str, module: type[RRNN] = RRNN, distinct: bool = False, norm: str | None = None) -> RRNN:
    cell = CELLS[name]
    runs = [end - begin for begin, end in zip((0, *cell.ends), cell.ends, strict=False)]
    activations = ["sigmoid", "tanh", "identity"] + ["one_minus"] * (name != "lstm")
    model = (
        module(P, P, runs, cell.num_tuples, activations=activations, distinct=distinct, norm=norm)
        .double()
        .eval()
    )
    model.target = cell
    return model


def torchs(name: str) -> torch.nn.Module:
    return (torch.nn.LSTMCell if name == "lstm" else torch.nn.GRUCell)(P, P).double()


def load(model: RRNN, name: str, cell: torch.nn.Module) -> None:
    """Give the tuples what a cell of torch has."""
    left, right = cell.weight_ih.view(-1, P, P), cell.weight_hh.view(-1, P, P)
    of_x, of_h = cell.bias_ih.view(-1, P), cell.bias_hh.view(-1, P)
    with torch.no_grad():
        if name == "lstm":  # torch's order is i, f, c̃, o
            order = [1, 0, 3, 2]
            model.tuples.weight.copy_(torch.stack([left, right])[:, order])
            model.tuples.bias.copy_((of_x + of_h)[order])
        elif name == "gru":
            model.tuples.weight.copy_(torch.stack([left, right]))
            model.tuples.bias.copy_(of_x + of_h)
        else:
            # r, z; (W_hn, ·, b_hn); (W_in, I, b_in)
            model.tuples.weight[:, :2] = torch.stack([left, right])[:, :2]
            model.tuples.weight[0, 2:] = torch.stack([right[2], left[2]])
            model.tuples.weight[1, 3] = torch.eye(P)
            model.tuples.bias.copy_(torch.cat([(of_x + of_h)[:2], of_h[2:], of_x[2:]]))


def expected(name: str, cell: torch.nn.Module, x: Tensor, state: Tensor) -> tuple[Tensor, ...]:
    """New states of x ``[B, p]`` and states ``[M, B, p]``."""
    if name == "lstm":
        h, c = cell(x, (state[1], state[0]))
        return c, h
    if name == "torch_gru":
        return (cell(x, state[0]),)
    h, bias = state[0], (cell.bias_ih + cell.bias_hh).chunk(3)
    of_x, of_h = cell.weight_ih.chunk(3), cell.weight_hh.chunk(3)
    r, z = (torch.sigmoid(x @ of_x[k].t() + h @ of_h[k].t() + bias[k]) for k in range(2))
    new = torch.tanh(x @ of_x[2].t() + (r * h) @ of_h[2].t() + bias[2])
    return (z * h + (1 - z) * new,)


@pytest.mark.parametrize(("name", "norm"), [*((name, None) for name in CELLS), ("gru", "max")])
def test_forced_choices(name: str, norm: str | None) -> None:
    """Every node of the cell is a candidate of its round, and together they are the cell, step by step.

    Nodes of the GRU are not larger than 1, so that to bound them changes nothing.
    """
    model, cell = model_of(name, Forced, norm=norm), torchs(name)
    load(model, name, cell)
    x, state = normal(3, 5, P), normal(model.num_states, 3, P).clamp(-1, 1)
    out, after = model(x, state=state)
    following = model_of(name, norm=norm)
    following.load_state_dict(model.state_dict())
    following.cell = CELLS[name]
    torch.testing.assert_close(following(x, state=state)[0], out, rtol=0, atol=1e-12)
    for t in range(5):
        state = torch.stack(expected(name, cell, x[:, t], state))
        torch.testing.assert_close(out[:, t], state[-1], rtol=0, atol=1e-10)
    torch.testing.assert_close(after, state, rtol=0, atol=1e-10)


def losses(step: Callable[[Tensor, Tensor], Tensor], parameters: Iterable[Tensor]) -> list[float]:
    """Of six steps of Adam on strings whose states are to be near their tokens before."""
    adam, found = torch.optim.Adam(parameters, 0.05), []
    for seed in range(6):
        torch.manual_seed(seed)
        x, h, loss = torch.randn(4, 5, P).double(), torch.zeros(4, P).double(), torch.zeros(()).double()
        for t in range(1, 5):
            h = step(x[:, t], h)
            loss = loss + (h - x[:, t - 1]).square().sum()
        adam.zero_grad()
        loss.backward()
        adam.step()
        found.append(loss.item())
    return found


@pytest.mark.parametrize(("name", "norm"), [("gru", None), ("gru", "max"), ("torch_gru", None)])
def test_a_fixed_tree_learns_as_the_cell_does(name: str, norm: str | None) -> None:
    """Loss by loss: what RRNN loses beside the GRU it loses by its choices, its norm or its first weights."""
    model, cell = model_of(name, norm=norm).train(), torchs(name)
    # A tuple has one bias where torch has two, which Adam moves twice as far, and a matrix for I.
    ones = torch.ones(3, P).double()
    of_h = ones.clone() if name == "gru" else ones.index_fill(0, torch.tensor([2]), 0)
    with torch.no_grad():
        cell.bias_hh[of_h.flatten().bool()] = 0
    load(model, name, cell)
    cell.bias_hh.register_hook(lambda grad: grad * (1 - of_h).flatten())
    if name == "torch_gru":
        learned = torch.ones_like(model.tuples.weight)
        learned[1, 3] = 0
        model.tuples.weight.register_hook(lambda grad: grad * learned)
    model.cell = CELLS[name]
    found = losses(
        lambda x, h: model(x.unsqueeze(1), state=h.unsqueeze(0))[0].squeeze(1), model.tuples.parameters()
    )
    wanted = losses(lambda x, h: expected(name, cell, x, h.unsqueeze(0))[-1], cell.parameters())
    assert found == pytest.approx(wanted, rel=1e-9)
    assert wanted[-1] < 0.9 * wanted[0]


def test_a_cell_that_does_not_fit() -> None:
    model = RRNN(P, P, 4)
    model.cell = CELLS["gru"]
    with pytest.raises(ValueError, match=r"a cell whose states end after \(4,\) nodes, got \(8,\)"):
        model(torch.randn(1, 2, P))


def candidates_after(model: RRNN, cell: Cell, start: Tensor) -> tuple[Tensor, Tensor]:
    """The cell's nodes, and all candidates of the last round."""
    pool = Pool(model.space, model.tuples, start)
    nodes = cell.follow(pool)
    pool.nodes.pop()
    return nodes[0], pool.candidates()[0]


@ALL_CELLS
def test_one_scorer_finds_the_cell(name: str) -> None:
    """Lemma 1, corrected, on the candidates at hand, where line 14 is taken to the letter."""
    model, cell = model_of(name, distinct=True), torchs(name)
    load(model, name, cell)
    model.keep_trees = True
    x, state = normal(1, P), normal(model.num_states, 1, P)
    start = torch.cat([x.unsqueeze(1), state.transpose(0, 1), torch.zeros(1, 1, P)], 1)
    nodes, candidates = candidates_after(model, model.target, start)
    vectors = torch.cat([nodes, candidates])
    apart = torch.cdist(vectors, vectors, compute_mode="donot_use_mm_for_euclid_dist")
    first = (apart < 1e-9).int().argmax(1) == torch.arange(len(vectors))
    assert first[: len(nodes)].all()
    model.scorer = Lemma1(vectors[first].detach())
    out, after = model(x.unsqueeze(0), state=state)
    wanted = expected(name, cell, x, state)
    torch.testing.assert_close(out[0], wanted[-1], rtol=0, atol=1e-10)
    torch.testing.assert_close(after, torch.stack(wanted), rtol=0, atol=1e-10)
    torch.testing.assert_close(model.last_trees.nodes[0], nodes, rtol=0, atol=1e-10)
    # Otherwise the second node is 0 + the first one, which has the highest score again.
    model.distinct = False
    model(x.unsqueeze(0), state=state)
    first, second = model.last_trees.nodes[0, :2]
    assert torch.equal(first, second)


def test_a_large_variance_does_not_sort() -> None:
    """The printed proof of Lemma 1 asks for a large σ_0, where the order is not kept."""
    vectors = torch.tensor([[0.0], [1.0], [3.0]]).double()
    scorer = Lemma1(vectors)
    assert scorer(vectors).argsort(descending=True).tolist() == [0, 1, 2]
    least = 0.5 / (torch.tensor(9.0).log() - torch.tensor(8.0).log())  # as printed, n = 3 and Δ = 1 / 2
    scorer.variance = 2 * least
    assert scorer(vectors).argsort(descending=True).tolist() != [0, 1, 2]


def test_without_the_nodes_of_the_first_run_the_lstm_is_not_found() -> None:
    """Theorem 6 as printed: run 2 has x, h, c, the new c and 0, and the identity only."""
    cell, space = torchs("lstm"), Space(1, activations=("tanh", "identity"))
    x, state = normal(1, P), normal(2, 1, P)
    c, h = expected("lstm", cell, x, state)
    start = torch.stack([x, *state, c, torch.zeros(1, P).double()], 1)
    pools = [Pool(space, Tuples(P, 0, True).double(), start) for _ in range(10 * space.per_pair)]
    for first, pool in enumerate(pools):
        pool.append(pool.candidates()[:, first])
        assert not copies(torch.cat([pool.nodes[-1].unsqueeze(1), pool.candidates()], 1), h).any()
