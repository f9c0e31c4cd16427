"""Eq. (5) of Qian et al., beside the multiset that shrinks by one a round; and distances of its trees."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from tests.checks.equations import randomize
from tests.inputs.strings import end_to_end, normal
from wlkernelnn.sequence import RRNN, MergingRRNN
from wlkernelnn.sequence.rrnn import (
    GRU,
    Construction,
    Leaf,
    Space,
    Tree,
    TreeLoss,
    isomorphic,
    tree_distance,
    tree_distances,
    tree_of,
)
from wlkernelnn.sequence.rrnn.search.choice import Choice
from wlkernelnn.sequence.rrnn.search.naive import merge_naive
from wlkernelnn.sequence.rrnn.search.pool import Pool
from wlkernelnn.sequence.rrnn.search.search import search
from wlkernelnn.sequence.rrnn.trees.trees import internal_nodes

D, P = 3, 4


def made(*arguments: Any, **options: Any) -> MergingRRNN:
    model = MergingRRNN(D, P, *arguments, **options)
    randomize(model)
    return model.eval()


def leaves(tree: Tree) -> list[str]:
    return [tree.name] if isinstance(tree, Leaf) else leaves(tree.left) + leaves(tree.right)


@pytest.mark.parametrize(
    ("copies", "options"),
    [
        ((2, 2, 1), {"norm": None}),
        ((1, 3), {"norm": "max", "auxiliary": (), "identity": False}),
        ((2, 1, 1, 1), {"norm": "max", "auxiliary": (0.0, 1.0), "num_tuples": 2}),
    ],
    ids=str,
)
def test_it_merges_a_multiset_at_every_token(copies: tuple[int, ...], options: dict[str, Any]) -> None:
    model, x = made(copies, activations=("tanh", "identity"), **options), normal(3, D)
    same = torch.eye(P).double().expand(2, 1, P, P)
    weight = torch.cat([model.tuples.weight, same], 1) if model.tuples.identity else model.tuples.weight
    model.keep_trees = True
    out, state = model(x, [0, 3])
    h, expected, numbers = torch.zeros(P).double(), [], []
    for token in model.lin(x):
        kinds = [token, h, *(torch.full((P,), value).double() for value in model.auxiliary)]
        start = torch.stack([kind for kind, count in zip(kinds, copies, strict=True) for _ in range(count)])
        grown = merge_naive(start[None], weight, model.tuples.biases(), model.space, model.scorer)
        h = grown.nodes[0, -1]
        expected.append(h)
        numbers.append(grown.numbers[0])
    torch.testing.assert_close(out, torch.stack(expected))
    torch.testing.assert_close(state[0, 0], expected[-1])
    assert model.last_trees is not None
    assert torch.equal(model.last_trees.numbers, torch.stack(numbers))


def test_every_leaf_is_in_the_tree_once() -> None:
    model = made((2, 3, 1), choice="straight_through")
    model.keep_trees = True
    model.train()(*end_to_end([normal(4, D), normal(0, D), normal(2, D)]))
    record = model.last_trees
    assert record is not None
    for token in range(6):
        (tree,) = record[token]
        assert sorted(leaves(tree)) == ["0", "h1", "h1", "h1", "x", "x"]
        assert len(internal_nodes(tree)) == 5
    assert bool((record.occurrences() == 1).all())


def test_strings_merge_in_their_own_order() -> None:
    """Different strings use up different nodes; each is as it is alone, with gradients."""
    model, strings = made((2, 2, 1)), [normal(n, D).requires_grad_() for n in (3, 1, 4)]
    out, _ = model(*end_to_end(strings))
    alone = torch.cat([model(string, [0, len(string)])[0] for string in strings])
    torch.testing.assert_close(out, alone)
    found = torch.autograd.grad(out.square().sum(), strings, retain_graph=True)
    torch.testing.assert_close(found, torch.autograd.grad(alone.square().sum(), strings))
    assert all(bool(grad.any()) for grad in found)


@pytest.mark.parametrize("how", ["softmax", "straight_through"])
def test_scores_learn(how: str) -> None:
    model = made((2, 1, 1), choice=how).train()
    model(normal(2, 3, D))[0].sum().backward()
    for parameter in (*model.scorer.parameters(), model.tuples.weight):
        assert parameter.grad is not None
        assert bool(parameter.grad.any())


# x x x x h h h h h 0, and figure 1 over them: z is made twice.
GRU_MERGES = (
    (0, "add", "sigmoid", 0, 4),  # 10: r
    (1, "add", "sigmoid", 1, 5),  # 11: z
    (1, "add", "sigmoid", 2, 6),  # 12: z
    (-1, "mul", "identity", 7, 10),  # 13: h ⊙ r
    (-1, "add", "one_minus", 9, 12),  # 14: 1 − z
    (2, "add", "tanh", 3, 13),  # 15: the candidate
    (-1, "mul", "identity", 8, 11),  # 16: h ⊙ z
    (-1, "mul", "identity", 14, 15),  # 17
    (-1, "add", "identity", 16, 17),  # 18: h
)


def test_the_gru_is_a_tree_over_four_five_and_one() -> None:
    """Every node is used once, and the vectors are those of figure 1, by eq. (1) – (4)."""
    model = made((4, 5, 1), norm=None)
    x, h = normal(1, P), normal(1, P)
    start = torch.stack([*[x] * 4, *[h] * 5, torch.zeros(1, P).double()], 1)
    pool = Pool(model.space, model.tuples, start)
    for made_of in GRU_MERGES:
        pool.append(pool.one(Construction(*made_of)))
    children = [child for *_, i, j in GRU_MERGES for child in (i, j)]
    assert sorted(children) == list(range(18))
    assert len(GRU_MERGES) == model.ends[0]
    of_cell = Pool(model.space, model.tuples, torch.stack([x, h, torch.zeros(1, P).double()], 1))
    torch.testing.assert_close(pool.nodes[-1], GRU.follow(of_cell)[:, -1])


def test_no_score_of_vectors_finds_it() -> None:
    """Whether z or r is scored higher, it is made as long as there are copies, and the other one never."""
    torch.manual_seed(0)
    model = made((4, 5, 1), norm=None)
    x, h = normal(1, P), normal(1, P)
    start = torch.stack([*[x] * 4, *[h] * 5, torch.zeros(1, P).double()], 1)
    cell = Pool(model.space, model.tuples, torch.stack([x, h, torch.zeros(1, P).double()], 1))
    r, z, *_ = GRU.follow(cell)[0]
    for first, second in ((r, z), (z, r)):

        def score(v: Tensor, first: Tensor = first, second: Tensor = second) -> Tensor:
            near = [-1e6 * (v - one).square().sum(-1) for one in (first, second)]
            return 2 * near[0].exp() + near[1].exp()

        pool = Pool(model.space, model.tuples, start)
        grown = search(pool, score, 9, Choice("hard"), merging=True)
        vectors = grown.nodes[0]
        torch.testing.assert_close(vectors[:4], first.expand(4, P))
        assert not any(torch.allclose(vector, second) for vector in vectors)


@pytest.mark.parametrize("isomorphisms", ["exact", "expected"])
def test_tree_distance_over_multisets(isomorphisms: str) -> None:
    """TD of section 3.3 of each grown tree to all isomorphic targets, as plain trees."""
    model = made((2, 2, 1), norm=None)
    model.keep_trees = True
    with torch.no_grad():
        model(normal(1, 2, D))
    record = model.last_trees
    assert record is not None
    target = normal(2, len(GRU.nodes), P)
    found = tree_distances(record, GRU, target, isomorphisms=isomorphisms)
    for token in range(2):
        (tree,) = record[token]
        names = [Leaf(name, normal(P)) for name in ("x", "h", "0")]
        one = tree_of(names, GRU.nodes, target[token])
        distances = torch.stack([torch.as_tensor(tree_distance(tree, other)) for other in isomorphic(one)])
        expected = distances.min() if isomorphisms == "exact" else distances.mean()
        torch.testing.assert_close(found[token], expected)


def test_the_loss_knows_the_copies() -> None:
    """The target's vectors are those of the same token and state, whatever copies there are."""
    merging, plain = made((3, 2, 1), norm=None), RRNN(D, P, 4, norm=None).double()
    plain.load_state_dict(merging.state_dict())
    assert merging.leaf_of_copy == [0, 0, 0, 1, 1, 2]
    assert plain.leaf_of_copy == [0, 1, 2]
    for model in (merging, plain):
        model.keep_trees = True
        model.eval()(torch.linspace(-1, 1, D).double().view(1, 1, D))
    loss = TreeLoss()
    zero = torch.zeros(()).double()
    record = merging.last_trees
    assert record is not None
    with torch.no_grad():
        leaves_once = Pool(plain.space, plain.tuples, plain.last_trees.leaves)
        target = GRU.follow(leaves_once)
    expected = tree_distances(record, GRU, target).sum()
    torch.testing.assert_close(loss(zero, merging, merging.parameters()).distance, expected)


def test_bad_arguments() -> None:
    with pytest.raises(ValueError, match="copies must be those of x, h and 1 auxiliary vectors, got 2"):
        MergingRRNN(D, P, (1, 1))
    with pytest.raises(ValueError, match="copies must be an integer of at least 1, got 0"):
        MergingRRNN(D, P, (1, 0, 1))
    with pytest.raises(ValueError, match="bias_std must be finite and not negative, got -1"):
        MergingRRNN(D, P, bias_std=-1.0)
    assert "copies=(4, 5, 1)" in repr(MergingRRNN(D, P))
    assert "bias_std=0.5" in repr(MergingRRNN(D, P, bias_std=0.5))
    assert MergingRRNN(D, P).space == Space(4)
