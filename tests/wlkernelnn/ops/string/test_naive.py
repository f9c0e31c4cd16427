"""The oracle itself, by hand: λ = 1/2 and small integers."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from tests.inputs.strings import ptr_of
from wlkernelnn.ops.string import decayed_scan_naive, feedback_scan_naive, ngram_scan_naive

# Two strings with an empty one between them.
PTR = ptr_of([3, 0, 2])


def column(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64).view(-1, 1)


def rows(values: Tensor) -> list[float]:
    return values.view(-1).tolist()


def test_decayed_scan() -> None:
    c, last = decayed_scan_naive(column(4, 2, 1, 8, 3), 0.5, PTR)
    assert rows(c) == [4, 4, 3, 8, 7]
    assert rows(last) == [3, 0, 7]


def test_decayed_scan_goes_on_from_a_state() -> None:
    c, last = decayed_scan_naive(column(4, 2, 1, 8, 3), 0.5, PTR, column(2, 6, -4))
    assert rows(c) == [5, 4.5, 3.25, 6, 6]
    assert rows(last) == [3.25, 6, 6]


def test_decay_of_channels_and_of_steps() -> None:
    u, ptr = torch.tensor([[4.0, 4.0], [2.0, 2.0]]), ptr_of([2])
    c, _ = decayed_scan_naive(u, torch.tensor([0.5, 0.25]), ptr)
    assert c.tolist() == [[4, 4], [4, 3]]
    # λ of the first token has nothing to act on.
    c, _ = decayed_scan_naive(u, torch.tensor([[9.0, 9.0], [0.0, 1.0]]), ptr)
    assert c.tolist() == [[4, 4], [2, 6]]


@pytest.mark.parametrize(
    ("compose", "normalize", "second"),
    [
        ("mul", False, [0, 2 * 3, 6 / 2 + 3 * 5, 0, 8 * 1]),
        ("mul", True, [0, 3 / 2, 3 / 4 + 1.5 * 5 / 2, 0, 4 * 1 / 2]),
        # What c_1 has not seen yet, u_2 adds all the same.
        ("add", False, [7, 3.5 + 2 + 3, 8.5 / 2 + 3 + 5, 9, 4.5 + 8 + 1]),
        ("add", True, [3.5, 1.75 + (1 + 3) / 2, 3.75 / 2 + (1.5 + 5) / 2, 4.5, 2.25 + (4 + 1) / 2]),
    ],
    ids=["mul", "mul-normalized", "add", "add-normalized"],
)
def test_two_levels(compose: str, normalize: bool, second: list[float]) -> None:
    u = [column(2, 2, 1, 8, 3), column(7, 3, 5, 9, 1)]
    c, last = ngram_scan_naive(u, 0.5, PTR, None, compose, normalize)
    first = [2, 3, 2.5, 8, 7]
    assert rows(c[0]) == ([value / 2 for value in first] if normalize else first)
    assert rows(c[1]) == second
    assert rows(last[1]) == [second[2], 0, second[4]]


def test_levels_read_the_step_before_from_the_state() -> None:
    state = torch.stack([column(10), column(100)])
    c, last = ngram_scan_naive([column(1), column(3)], 0.5, ptr_of([1]), state, "mul", False)
    assert (rows(c[0]), rows(c[1])) == ([6], [80])
    assert last.shape == (2, 1, 1)


def sigmoid(z: float) -> float:
    return 1 / (1 + math.exp(-z))


@pytest.mark.parametrize("masked", [False, True], ids=["whole", "masked"])
@pytest.mark.parametrize("carried", [False, True], ids=["plain", "carried"])
def test_feedback(masked: bool, carried: bool) -> None:
    """One channel, two tokens, n = 1: everything written out."""
    u, z, weight, m = (3.0, 5.0), (0.3, -0.7), 0.4, 2.0 if masked else 1.0
    f, x = (0.25, 0.75), (6.0, 2.0)
    c_0, h_0 = 1.5, -1.0
    gate = [sigmoid(z[0] + weight * m * h_0), 0.0]
    c = [gate[0] * c_0 + (1 - gate[0]) * u[0], 0.0]
    h = [math.tanh(2 * c[0]), 0.0]
    if carried:
        h[0] = f[0] * m * h[0] + (1 - f[0]) * x[0]
    gate[1] = sigmoid(z[1] + weight * m * h[0])
    c[1] = gate[1] * c[0] + (1 - gate[1]) * u[1]
    h[1] = math.tanh(2 * c[1])
    if carried:
        h[1] = f[1] * m * h[1] + (1 - f[1]) * x[1]
    (came_c, came_h), last = feedback_scan_naive(
        [column(*u)],
        column(*z),
        column(weight),
        ptr_of([2]),
        torch.stack([column(c_0), column(h_0)]),
        mix=column(2),
        act=torch.tanh,
        carry=(column(*f), column(*x)) if carried else None,
        mask=column(m) if masked else None,
    )
    torch.testing.assert_close(came_c, column(*c))
    torch.testing.assert_close(came_h, column(*h))
    torch.testing.assert_close(last, torch.stack([column(c[1]), column(h[1])]))


def test_feedback_mixes_all_levels_and_starts_from_nothing() -> None:
    u, zero = [column(2, 2), column(7, 3)], column(0, 0)
    c, _ = feedback_scan_naive(u, zero, column(0), ptr_of([2]), mix=column(10, 1), normalize=False)
    assert [rows(part) for part in c] == [[2, 3], [0, 6], [20, 36]]  # λ = sigmoid(0) = 1/2


def test_nothing_to_read() -> None:
    for lengths in ([], [0, 0]):
        c, last = ngram_scan_naive([torch.zeros(0, 3)] * 2, 0.5, ptr_of(lengths))
        assert [part.shape for part in c] == [(0, 3)] * 2
        assert torch.equal(last, torch.zeros(2, len(lengths), 3))
