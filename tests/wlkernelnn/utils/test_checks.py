from __future__ import annotations

import json
import math

import numpy as np
import pytest
import torch

from wlkernelnn.utils.checks import (
    check_count,
    check_dropout,
    check_finite,
    check_one_of,
    check_widths,
    holds_integers,
    is_fraction,
    plain,
)


def test_counts() -> None:
    for value in [1, 7, np.int64(7)]:
        count = check_count("n", value)
        assert count == value
        assert type(count) is int


def test_no_counts() -> None:
    for value in [0, -1, 2.0, "2", True, None]:
        with pytest.raises(ValueError, match=f"n must be an integer of at least 1, got {value!r}"):
            check_count("n", value)


def test_counts_from_0_on() -> None:
    assert check_count("n", 0, least=0) == 0
    with pytest.raises(ValueError, match="n must be an integer of at least 0, got -1"):
        check_count("n", -1, least=0)


def test_no_finite_numbers() -> None:
    for value in [math.nan, math.inf, "1", None]:
        check_finite("x", -0.5)
        with pytest.raises(ValueError, match=f"x must be a finite number, got {value!r}"):
            check_finite("x", value)


def test_no_widths() -> None:
    for width in [0, -2, 2.5, "3", True]:
        for fine in (4, -1, (4, -1)):
            check_widths(fine, 2)  # type: ignore[arg-type]
        for came in (width, (4, width)):
            with pytest.raises(ValueError, match="in_channels must be an integer of at least 1, or -1"):
                check_widths(came, 2)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="out_channels must be an integer of at least 1"):
            check_widths(4, width)  # type: ignore[arg-type]


def test_widths_of_neither_one_nor_two_kinds_of_nodes() -> None:
    for widths in [(), (3,), (3, 3, 3)]:
        with pytest.raises(
            ValueError, match="in_channels must be one width, or two for sources and targets, got"
        ):
            check_widths(widths, 2)  # type: ignore[arg-type]


def test_tensors_of_integers() -> None:
    for dtype in (torch.int64, torch.int32, torch.uint8):
        assert holds_integers(torch.ones(1, dtype=dtype))
    for dtype in (torch.float32, torch.bool, torch.complex64):
        assert not holds_integers(torch.ones(1, dtype=dtype))


def test_fractions() -> None:
    assert all(map(is_fraction, (0, 1, 0.5, np.float32(0.5))))
    assert not any(map(is_fraction, (True, -0.1, 1.1, math.nan, "0.5", None)))


def test_plain_numbers() -> None:
    came = plain((np.int64(3), [np.float32(0.5), np.bool_(True)], "gated", None, 2.5))
    assert json.dumps(came) == '[3, [0.5, true], "gated", null, 2.5]'


def test_dropout() -> None:
    for value in [0, 0.0, 0.5, np.float32(0.25)]:
        check_dropout(value)


def test_no_dropout() -> None:
    for value in [1, 1.0, -0.1, math.nan, None, "0.5", True]:
        with pytest.raises(ValueError, match=rf"^word_dropout must be in \[0, 1\), got {value!r}$"):
            check_dropout(value, "word_dropout")


def test_one_of() -> None:
    check_one_of("kind", "a", {"a": 1, "b": 2})
    for value in ("c", None, ["a"]):
        with pytest.raises(ValueError, match=r"^kind must be one of a, b, got (\'c\'|None|\[\'a\'\])$"):
            check_one_of("kind", value, {"a": 1, "b": 2})
