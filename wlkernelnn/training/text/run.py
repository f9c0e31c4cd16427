"""Train models of strings in a run folder, and say how well they do."""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from wlkernelnn.datasets import Corpus, PackedStrings, Texts, Vocabulary, load_glove
from wlkernelnn.datasets.splits.parts import PARTS
from wlkernelnn.datasets.text.vocabulary import UNKNOWN
from wlkernelnn.training.folder import (
    REPORT,
    begin_run,
    finished_folders,
    seconds_of,
    train_networks,
    with_seeds,
    write_report,
)
from wlkernelnn.training.string_options import ClassifierOptions, LanguageOptions, StringNetworkOptions
from wlkernelnn.utils.files import alone_in, json_digest

from .classification import fit_classifier
from .labelled import LabelledTexts
from .language import fit_language_model, perplexity
from .model import StringEnsemble, load_string_run
from .networks import classifier, language_model

logger = logging.getLogger("wlkernelnn")

# Vectors of tokens that a file of vectors lacks are drawn with this standard deviation.
OOV_STD = 0.1


def train_texts(
    texts: Texts,
    split_idx: Mapping[str, np.ndarray],
    directory: str | os.PathLike[str],
    options: ClassifierOptions | None = None,
    *,
    network: StringNetworkOptions | None = None,
    level: str = "words",
    max_length: int | None = None,
    min_count: int = 2,
    embeddings_path: str | os.PathLike[str] | None = None,
    embedding_channels: int = 100,
    freeze_embeddings: bool = False,
    target_name: str = "label",
    ensemble_size: int = 1,
    resume: bool = False,
    progress: bool = True,
) -> tuple[StringEnsemble, dict[str, Any]]:
    """Train classifiers of texts that differ in their seeds, keep them in a folder, and score them.

    The folder then holds ``model_<i>`` for each network (weights, config, vocabulary, ``history.csv``),
    ``splits.json`` (input rows of each part, counted from 0), ``valid_predictions.csv`` and
    ``test_predictions.csv`` (rows counted from 1, as in messages), ``metrics.json`` and ``origin.json`` (what
    a run to resume is of).

    Args:
        texts: The whole set, with labels.
        split_idx: Positions in ``texts`` of ``"train"``, and any of ``"valid"`` and ``"test"``.
        directory: The run folder.
        options: How to train; network i takes ``options.seed + i``.
        network: The sequence model.
        level, max_length: How ``texts`` were made into tokens; predictions do the same.
        min_count: Tokens that occur less often in the training texts are unknown.
        embeddings_path: File of word vectors in GloVe's format; default vectors that are learned alone.
        embedding_channels: Width of those.
        freeze_embeddings: Vectors of the file stay as they are.
        target_name: What columns of predictions call the class.
        ensemble_size: Number of networks; one that is resumed may have more or fewer than before.
        resume: Keep the networks that are finished and go on with the one that was interrupted.
        progress: Show a progress bar.

    Returns:
        The networks, and the content of ``metrics.json``.

    Raises:
        ValueError: There are less than two classes, the split has no training part, an option is out of its
            range, the vectors cannot be read, or the run to resume is of other data or options.
        FileExistsError: The folder holds a run already, and ``resume`` is off; or another process works
            there.
        NotADirectoryError: ``directory`` is a file.
    """
    directory, options = Path(directory), options or ClassifierOptions()
    if freeze_embeddings and embeddings_path is None:
        raise ValueError("freeze_embeddings=True needs embeddings_path: drawn vectors must be learned")
    network, seeded = network or StringNetworkOptions(), with_seeds(options, ensemble_size)
    labelled = LabelledTexts.of(texts, split_idx)
    index, y = labelled.index, labelled.y
    words = chain.from_iterable(texts.tokens[i] for i in index["train"])
    vocabulary = Vocabulary.build(words, special=UNKNOWN, unknown=UNKNOWN, min_count=min_count)
    if len(vocabulary) == 1:
        raise ValueError(f"min_count={min_count}: no token occurs so often in {len(index['train']):,} texts")
    parts = {
        name: PackedStrings.encode([texts.tokens[i] for i in rows], y[rows], vocabulary)
        for name, rows in index.items()
    }
    vectors = None
    if embeddings_path is not None:
        read = load_glove(embeddings_path, vocabulary, oov_std=OOV_STD, seed=options.seed)
        vectors, known = read.weight, int(read.known.sum())
        if not known:
            raise ValueError(
                f"{embeddings_path}: has vectors of none of {len(vocabulary):,} tokens of the training texts"
            )
        logger.info(f"{embeddings_path}: vectors of {known:,} of {len(vocabulary):,} tokens")

    def build() -> torch.nn.Module:
        return classifier(
            network,
            len(labelled.classes),
            num_tokens=len(vocabulary),
            embedding_channels=embedding_channels,
            vectors=vectors,
            freeze=freeze_embeddings,
        )

    about = labelled.about(level, max_length, target_name)
    settings = {
        **asdict(network),
        "level": level,
        "max_length": max_length,
        "min_count": min_count,
        "embedding_channels": embedding_channels,
        "freeze_embeddings": freeze_embeddings,
    }
    ensemble, seconds = train_classifiers(
        parts,
        labelled.rows(),
        directory,
        options,
        seeded,
        build,
        about,
        settings=settings,
        vocabulary=vocabulary,
        vectors=vectors,
        resume=resume,
        progress=progress,
    )
    report = labelled.scored(directory, ensemble, parts, target_name, seconds, vocabulary=len(vocabulary))
    return ensemble, report


def train_classifiers(
    parts: Mapping[str, PackedStrings],
    rows: Mapping[str, list[int]],
    directory: Path,
    options: ClassifierOptions,
    seeded: list[ClassifierOptions],
    build: Callable[[], torch.nn.Module],
    about: Mapping[str, Any],
    *,
    settings: Mapping[str, Any],
    vocabulary: Vocabulary | None = None,
    vectors: Tensor | None = None,
    resume: bool,
    progress: bool,
) -> tuple[StringEnsemble, float]:
    """Train the networks of a run that are not finished: of tokens or of vectors.

    Args:
        parts: The strings of each part, with classes; ``"train"`` is there.
        rows: Input rows of each part, counted from 0.
        directory: The run folder.
        options, seeded: How to train, and the same for each network.
        build: Makes a network.
        about: What a checkpoint says of it.
        settings: Everything else that a run to resume must share.
        vocabulary, vectors: The tokens, and vectors of them that a file gave.
        resume, progress: As of :func:`train_texts`.

    Returns:
        The networks, and how long they were trained.
    """
    content = [
        {name: part.digest() for name, part in parts.items()},
        [] if vocabulary is None else vocabulary.tokens,
        about["classes"],
        "" if vectors is None else hashlib.sha256(vectors.numpy().tobytes()).hexdigest(),
    ]
    with alone_in(directory):
        begin_run(
            directory,
            rows,
            data=json_digest(content),
            kind=str(about["level"]),
            network=settings,
            options=options,
            ensemble_size=len(seeded),
            resume=resume,
        )
        train_networks(
            directory,
            seeded,
            build,
            lambda net, own, **where: fit_classifier(
                net, parts["train"], parts.get("valid"), own, progress=progress, **where
            ),
            about,
            vocabulary=vocabulary,
            resume=resume,
        )
    ensemble = load_string_run(directory)
    assert isinstance(ensemble, StringEnsemble)
    return ensemble, seconds_of(finished_folders(directory))


def train_language(
    corpus: Corpus,
    directory: str | os.PathLike[str],
    options: LanguageOptions | None = None,
    *,
    network: StringNetworkOptions | None = None,
    level: str = "words",
    resume: bool = False,
    progress: bool = True,
) -> tuple[StringEnsemble, dict[str, Any]]:
    """Train a language model, keep it in a folder, and score it.

    The folder then holds ``model_0``, ``metrics.json`` (perplexities) and ``origin.json``; arguments and
    errors are those of :func:`train_texts`.
    """
    directory, options = Path(directory), options or LanguageOptions()
    network, seeded = network or StringNetworkOptions(), with_seeds(options, 1)
    about = {
        "task": "language",
        "level": level,
        "classes": None,
        "target_names": ["perplexity"],
        "metric": "perplexity",
        "name": corpus.name,
    }
    content = [corpus.digest(), corpus.vocabulary.tokens]
    for name in PARTS:
        needed = 1 + (options.batch_size if name == "train" else 1)  # the last is only a target
        if (count := len(getattr(corpus, name))) < needed:
            by = f" for batch_size={options.batch_size}" if name == "train" else ""
            raise ValueError(f"the {name} part needs at least {needed} tokens{by}, got {count}")
    with alone_in(directory):
        begin_run(
            directory,
            {},
            data=json_digest(content),
            kind=level,
            network=asdict(network),
            options=options,
            ensemble_size=1,
            resume=resume,
        )
        train_networks(
            directory,
            seeded,
            lambda: language_model(network, len(corpus.vocabulary)),
            lambda net, own, **where: fit_language_model(net, corpus, own, progress=progress, **where),
            about,
            vocabulary=corpus.vocabulary,
            resume=resume,
        )
        ensemble = load_string_run(directory)
        assert isinstance(ensemble, StringEnsemble)
        report: dict[str, Any] = {
            "metric": "perplexity",
            "parameters": ensemble.num_parameters,
            "seconds": round(seconds_of(finished_folders(directory)), 1),
            "counts": {name: len(getattr(corpus, name)) for name in PARTS},
            "vocabulary": len(corpus.vocabulary),
        }
        for name in ("valid", "test"):
            report[name] = perplexity(ensemble.networks[0], getattr(corpus, name))
        write_report(directory / REPORT, report)
    return ensemble, report
