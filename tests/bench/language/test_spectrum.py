from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from wlkernelnn.bench.language.spectrum import minmax, spectrum_machine, spectrum_sides, text_machine
from wlkernelnn.datasets import LabelledStrings, Vocabulary
from wlkernelnn.machines import TextMachine

RNG = np.random.default_rng(0)


def drawn(number: int) -> list[list[str]]:
    """Strings of 0 to 9 letters."""
    return [[*RNG.choice([*"abc"], size=i % 10)] for i in range(number)]


def labelled(train: list[list[str]], valid: list[list[str]], test: list[list[str]]) -> LabelledStrings:
    """Classes: whether there is an a."""
    parts = [(strings, [int("a" in string) for string in strings]) for strings in (train, valid, test)]
    return LabelledStrings.encode(parts, Vocabulary([*"abc"]), ("no", "yes"))


def counts(string: list[str], ngram: int) -> Counter[tuple[str, ...]]:
    return Counter(
        tuple(string[i : i + length])
        for length in range(1, ngram + 1)
        for i in range(len(string) - length + 1)
    )


@pytest.mark.parametrize("ngram", [1, 2, 3])
def test_kernel(ngram: int) -> None:
    data = labelled(drawn(23), drawn(11), drawn(12))
    sides = spectrum_sides(data, ngram)
    strings = [data.vocabulary.decode(data.train[i].x) for i in range(23)]
    others = [data.vocabulary.decode(data.test[i].x) for i in range(12)]
    for i, row in enumerate(minmax(sides["train"], sides["test"])):
        for j, found in enumerate(row):
            one, other = counts(strings[i], ngram), counts(others[j], ngram)
            most = (one | other).total()
            assert found == pytest.approx((one & other).total() / most if most else 1.0)


def test_machine() -> None:
    data = labelled(drawn(60), drawn(20), drawn(20))
    record = spectrum_machine(data, (1, 2), {"model": "spectrum"}, {"mode": "full"})
    assert record["test_accuracy"] >= 0.9
    assert record["runs_of"] in (1, 2)
    assert (record["model"], record["mode"], record["epochs"]) == ("spectrum", "full", 0)


def test_the_default_machine_of_texts() -> None:
    data = labelled(drawn(60), drawn(20), drawn(20))
    record = text_machine(data, 2, {"model": "machine"}, {"mode": "full"})
    machine = TextMachine().fit(
        [data.vocabulary.decode(data.train[i].x) for i in range(60)], data.train.y.numpy(), 2, "balanced"
    )
    found = machine.probabilities([data.vocabulary.decode(data.test[i].x) for i in range(20)]).argmax(1)
    assert record["test_accuracy"] == (found == data.test.y.numpy()).mean() >= 0.9
    assert (record["model"], record["runs_of"], record["epochs"]) == ("machine", 2, 0)
