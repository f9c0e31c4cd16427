"""SMILES to packed graphs: exact codes, on all cores, and every input accounted for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import joblib
import numpy as np
import pandas as pd
import torch
from rdkit import Chem
from rich.console import Console
from rich.progress import Progress

from wlkernelnn.datasets.chemistry.standardize import Form, standardize_chunk
from wlkernelnn.datasets.chemistry.writing import smiles_of
from wlkernelnn.datasets.files.rejects import Change, Reject, Unreadable, as_text
from wlkernelnn.datasets.graphs.arrays import Arrays, distinct_rows, pack_strings, smallest
from wlkernelnn.datasets.graphs.description import Description
from wlkernelnn.datasets.graphs.packed import PackedGraphs
from wlkernelnn.ops.spans import bounds_of
from wlkernelnn.utils.checks import check_count

from .chunks import Part, each_chunk, featurize_chunk, featurize_chunks
from .features import Features, get_features

# Molecules per task: enough to share the kinds of atoms, few enough to keep all processes busy to the end.
CHUNK = 1000
# With fewer molecules the start of processes (0.3 s) takes longer than it saves.
PARALLEL_FROM = 5000
#: Characters of a SMILES, by default at most: a peptide of 200 residues has 4,000. The time that RDKit takes
#: grows with their square or cube: up to seconds for so many, minutes for ten times as many.
MAX_LENGTH = 5000
# A much longer text can end the process.
_LONGEST = 100_000
# Descriptors, and standardisation, take milliseconds of each: smaller tasks, and processes sooner.
_SLOWER = 10


def as_smiles(cell: object) -> object:
    """The SMILES of a molecule of RDKit, or an ``Unreadable``; anything else as it is."""
    if not isinstance(cell, Chem.Mol):
        return cell
    smiles, reason = smiles_of(cell)
    return Unreadable("", reason) if reason else smiles


def featurize(
    smiles: Sequence[object],
    *,
    features: str = "ogb",
    rows: Sequence[int] | None = None,
    max_length: int = MAX_LENGTH,
    num_workers: int | None = None,
    progress: bool = False,
) -> tuple[PackedGraphs, list[Reject]]:
    """Turn SMILES into graphs with integer codes.

    Every input becomes either a graph or a :class:`~wlkernelnn.datasets.Reject`; duplicates are kept. The
    result does not depend on the number of processes.

    Args:
        smiles: One SMILES, or one of RDKit's molecules, per molecule. Anything else (``None``, NaN, a number,
            a blank or malformed string, a name after the SMILES) is rejected.
        features: Name of the columns of codes, see :func:`~wlkernelnn.datasets.get_features`.
        rows: Row to report for each input, default 0 … n−1.
        max_length: Longer SMILES, in characters, are rejected; at most 100,000.
        num_workers: Processes to start; 0 works in this one. Default: one per core if there are many SMILES.
        progress: Show a progress bar on stderr.

    Returns:
        The graphs with their rows and SMILES (without targets), and the rejects, both in the order of the
        input. With ``"+standardize"`` the SMILES are those of the standard forms, and ``changes`` of the
        graphs has those that were other molecules before.

    Raises:
        TypeError: ``smiles`` is a single string.
        ValueError: Unknown ``features``, negative ``num_workers``, a ``max_length`` that is not from 1 to
            100,000, or not one row per SMILES.
    """
    columns = get_features(features)
    if isinstance(smiles, str | bytes):
        raise TypeError(f"smiles must be a sequence of SMILES, got one string: {_shown(smiles)}")
    inputs = [as_smiles(cell) for cell in smiles]
    numbers = list(range(len(inputs))) if rows is None else [int(row) for row in rows]
    if len(numbers) != len(inputs):
        raise ValueError(f"rows must have one entry per SMILES, got {len(numbers)} for {len(inputs)} SMILES")
    if num_workers is not None and num_workers < 0:
        raise ValueError(f"num_workers must be at least 0, got {num_workers}")
    if check_count("max_length", max_length) > _LONGEST:
        raise ValueError(f"max_length must be at most {_LONGEST:,}, got {max_length:,}")

    reasons = {place: reason for place, value in enumerate(inputs) if (reason := _defect(value, max_length))}
    places = [place for place in range(len(inputs)) if place not in reasons]
    texts = [str(inputs[place]).strip() for place in places]
    changes: list[Change] = []
    if columns.standardize:
        standard = _standardized(texts, num_workers, progress)
        for place, text, (after, steps, reason) in zip(places, texts, standard, strict=True):
            if reason:
                reasons[place] = reason
            elif steps:
                changes.append(Change(numbers[place], text, after, steps))
        places = [place for place in places if place not in reasons]
        texts = [after for after, _, reason in standard if not reason]
    slower = _SLOWER if columns.descriptors else 1
    size = max(CHUNK // slower, 1)
    chunks = [texts[begin : begin + size] for begin in range(0, len(texts), size)]
    if num_workers is None:
        num_workers = joblib.cpu_count() if len(texts) * slower >= PARALLEL_FROM else 0

    parts = [featurize_chunk([], columns)[0]]
    with Progress(console=Console(stderr=True), disable=not progress) as bar:
        task = bar.add_task("Featurizing", total=len(texts))
        done = featurize_chunks(chunks, columns, min(num_workers, len(chunks)))
        for number, (part, bad) in enumerate(done):
            parts.append(part)
            reasons |= {places[number * size + position]: reason for position, reason in bad.items()}
            bar.advance(task, len(chunks[number]))

    kept = [(numbers[place], text) for place, text in zip(places, texts, strict=True) if place not in reasons]
    arrays = _merge(parts, [row for row, _ in kept], [text for _, text in kept])
    rejects = [Reject(numbers[place], as_text(inputs[place]), reasons[place]) for place in sorted(reasons)]
    graphs = PackedGraphs(arrays, described(columns, is_undirected=True), rejects=rejects, changes=changes)
    return graphs, rejects


def _standardized(texts: Sequence[str], num_workers: int | None, progress: bool) -> list[Form]:
    size = CHUNK // _SLOWER
    chunks = [texts[begin : begin + size] for begin in range(0, len(texts), size)]
    if num_workers is None:
        num_workers = joblib.cpu_count() if len(texts) * _SLOWER >= PARALLEL_FROM else 0
    done = each_chunk(standardize_chunk, chunks, min(num_workers, len(chunks)))
    with Progress(console=Console(stderr=True), disable=not progress) as bar:
        followed = bar.track(done, total=len(chunks), description="Standardizing")
        return [form for forms in followed for form in forms]


def described(features: Features, **more: Any) -> Description:
    """What graphs of these features are, and more that is known of them."""
    return Description(
        features=features.name,
        node_dims=features.node_dims,
        num_edge_types=features.num_edge_types,
        num_node_values=features.num_node_values,
        num_graph_values=features.num_graph_values,
        **more,
    )


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _defect(value: Any, max_length: int) -> str:
    """Why ``value`` cannot be the SMILES of one molecule, or ``""`` if it may be.

    RDKit itself stops reading, without a word, at a blank and at any character beyond ASCII.
    """
    if isinstance(value, Unreadable):
        return value.reason
    if not isinstance(value, str):
        if pd.api.types.is_scalar(value) and pd.isna(value):
            return f"missing ({value})"
        return f"not a string but {type(value).__name__}: {_shown(value)}"
    text = value.strip()
    if not text:
        return "blank" if value else "empty"
    if text.isascii() and text.isprintable() and " " not in text:
        if len(text) <= max_length:
            return ""
        return f"{len(text):,} characters, more than max_length = {max_length:,}"
    word, *rest = text.split(maxsplit=1)
    if rest:
        broken = "\n" in text or "\r" in text
        what = "line break in the SMILES, before" if broken else "text after the SMILES:"
        return f"{what} {_shown(rest[0])}"
    place, character = next((i, c) for i, c in enumerate(word, 1) if not (c.isascii() and c.isprintable()))
    return f"character {character!r} at position {place} does not belong in a SMILES"


def _merge(parts: Sequence[Part], rows: Sequence[int], smiles: Sequence[str]) -> Arrays:
    """The arrays of all parts, with one table of node codes, sorted as :meth:`PackedGraphs.pack` does."""
    whole = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    table, place = distinct_rows(whole["node_table"])
    shift = np.cumsum([0, *(len(part["node_table"]) for part in parts[:-1])])
    kind = whole["node_type"] + np.repeat(shift, [len(part["node_type"]) for part in parts])
    text, text_ptr = pack_strings(smiles)
    return Arrays(
        node_type=smallest(place[kind]),
        node_table=smallest(table),
        source=smallest(whole["source"]),
        in_degree=smallest(whole["in_degree"]),
        edge_type=smallest(whole["edge_type"]),
        node_ptr=torch.from_numpy(bounds_of(whole["num_nodes"])),
        edge_ptr=torch.from_numpy(bounds_of(whole["num_edges"])),
        y=torch.zeros((len(rows), 0)),
        row=torch.tensor(rows, dtype=torch.int64),
        smiles=text,
        smiles_ptr=text_ptr,
        graph_x=torch.from_numpy(whole["graph_x"]),
    )
