"""Runs that tests share, and do not change."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.inputs.texts import train, train_book, write_book, write_texts


@pytest.fixture(scope="session")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_texts(tmp_path_factory.mktemp("texts") / "set.csv")


@pytest.fixture(scope="session")
def run(table: Path) -> Path:
    """A classifier of two networks."""
    folder = table.parent / "run"
    assert train(table, folder, "--ensemble-size", 2) == 0
    return folder


@pytest.fixture(scope="session")
def book(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_book(tmp_path_factory.mktemp("book") / "book.txt")


@pytest.fixture(scope="session")
def language(book: Path) -> Path:
    """A language model of words."""
    folder = book.parent / "run"
    assert train_book(book, folder) == 0
    return folder
