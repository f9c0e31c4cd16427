"""Trained models of strings that predict together, and the run folder in which they lie."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from wlkernelnn.datasets import EOS, PackedStrings, Vocabulary
from wlkernelnn.datasets.text.corpus import Words
from wlkernelnn.machines import TextMachine
from wlkernelnn.machines.saved import is_machine
from wlkernelnn.machines.texts import is_text_machine, load_text_machine
from wlkernelnn.sequence import LanguageModel, StringNetwork, TextNetwork
from wlkernelnn.training.checkpoint import CONFIG, load_checkpoint, load_vocabulary, save_checkpoint
from wlkernelnn.training.folder import check_alike, check_free, finished_folders

from .classification import class_probabilities
from .language import perplexity

COMMON = ("task", "level", "classes", "target_names")


@dataclass
class StringEnsemble:
    """Classifiers of strings that predict together by their mean, or one language model.

    Attributes:
        networks: Trained networks of the same classes, or a single
            :class:`~wlkernelnn.sequence.LanguageModel`.
        about: ``task`` (``"classification"`` or ``"language"``), ``level`` of tokens (``"words"``,
            ``"characters"``, or ``"vectors"``), ``classes``, ``target_names`` (the column of labels),
            ``metric`` and ``name``; of texts ``max_length``, of vectors their ``mean`` and ``std``.
        vocabulary: The tokens; ``None`` of vectors.
    """

    networks: list[Any]
    about: dict[str, Any]
    vocabulary: Vocabulary | None = None

    def encode(self, tokens: Sequence[Sequence[str]]) -> PackedStrings:
        """Strings of tokens as ids; one that is not in the vocabulary becomes its unknown token."""
        assert self.vocabulary is not None
        return PackedStrings.encode(tokens, np.zeros(len(tokens), dtype=np.int64), self.vocabulary)

    def num_unknown(self, tokens: Sequence[Sequence[str]]) -> int:
        """How many tokens of some strings the vocabulary lacks."""
        assert self.vocabulary is not None
        return sum(token not in self.vocabulary for string in tokens for token in string)

    def probabilities(self, strings: PackedStrings) -> np.ndarray:
        """Probabilities of the classes, float32 ``[S, C]``, the mean over the networks."""
        each = [class_probabilities(net, strings) for net in self.networks]
        return np.asarray(torch.stack(each).mean(0).numpy())

    def perplexity(self, texts: Sequence[str]) -> np.ndarray:
        """The perplexity of each text for a language model, float64 ``[n]``.

        The end of a line comes before a text, so that its first token counts, and after a text of words; NaN
        of one without tokens.

        Raises:
            TypeError: The model is a classifier, or ``texts`` are no list of texts.
            ValueError: A token is not in the vocabulary, which has none to stand for it.
        """
        self._check_language("perplexity")
        if isinstance(texts, str):
            raise TypeError("texts: expected a list of texts, got one text")
        each = []
        for i, text in enumerate(texts):
            if not isinstance(text, str):
                raise TypeError(f"texts[{i}]: expected a text, got {type(text).__name__}")
            try:
                each.append(self._ids([*self._start, *self._tokens(text)]))
            except ValueError as error:
                raise ValueError(f"texts[{i}]: {error}") from error
        lengths = torch.tensor([0, *map(len, each)])
        return np.asarray(perplexity(self.networks[0], torch.cat([*each, self._ids([])]), lengths.cumsum(0)))

    def scores_of_text(self, text: str) -> dict[str, Any]:
        """Of a language model: the number of ``tokens`` of a text, how many are ``unknown``, and its
        ``perplexity``, that of :func:`~wlkernelnn.training.perplexity` (NaN of less than two tokens).
        """
        tokens = self._tokens(text)
        found = perplexity(self.networks[0], self._ids(tokens)) if len(tokens) > 1 else float("nan")
        return {"tokens": len(tokens), "unknown": self.num_unknown([tokens]), "perplexity": found}

    def generate(
        self,
        prompt: str,
        max_tokens: int,
        temperature: float = 1.0,
        top_k: int | None = None,
        seed: int | None = None,
    ) -> str:
        """What a language model writes behind a text: see :meth:`LanguageModel.generate`.

        Args:
            prompt: The text before; an empty one is the end of a line.
            max_tokens, temperature, top_k: As there.
            seed: Seed of what is drawn; default torch's own generator.

        Returns:
            The new tokens: words with blanks between them and a line end for each ``<eos>``, or characters.
        """
        self._check_language("generate")
        if not isinstance(prompt, str):
            raise TypeError(f"prompt: expected a text, got {type(prompt).__name__}")
        words = self.about["level"] == "words"
        tokens = self._tokens(prompt)
        if words and not prompt.endswith("\n"):
            tokens = tokens[:-1]  # the line goes on
        tokens = tokens or self._start
        if not tokens:
            raise ValueError("prompt: expected a text, got none, and the model knows no line ends")
        device = self.networks[0].embedding.weight.device
        generator = None if seed is None else torch.Generator(device).manual_seed(seed)
        drawn = self.networks[0].generate(self._ids(tokens), max_tokens, temperature, top_k, generator)
        assert self.vocabulary is not None
        written = self.vocabulary.decode(drawn)
        if not words:
            return "".join(written)
        return re.sub(" ?\n ?", "\n", " ".join("\n" if token == EOS else token for token in written))

    def unreadable(self, text: str) -> str | None:
        """The first token of a text for which a language model has no id; ``None`` where all have one."""
        assert self.vocabulary is not None
        if self.vocabulary.unknown is not None:
            return None
        return next((token for token in self._tokens(text) if token not in self.vocabulary), None)

    def _check_language(self, name: str) -> None:
        if self.about["task"] != "language":
            raise TypeError(f"{name} needs a language model, and this is a classifier")

    def _tokens(self, text: str) -> list[str]:
        """The tokens of a text for a language model."""
        return [*Words(text)] if self.about["level"] == "words" else [*text]

    @property
    def _start(self) -> list[str]:
        """What stands before a text: the end of a line, where the model knows it."""
        token = EOS if self.about["level"] == "words" else "\n"
        return [token] if self.vocabulary is not None and token in self.vocabulary else []

    def _ids(self, tokens: Sequence[str]) -> torch.Tensor:
        assert self.vocabulary is not None
        return self.vocabulary.encode(tokens)

    @property
    def num_parameters(self) -> int:
        return sum(parameter.numel() for net in self.networks for parameter in net.parameters())

    def save(self, directory: str | os.PathLike[str]) -> None:
        """Write the networks into ``model_0``, … of a folder.

        Raises:
            FileExistsError: The folder holds a run already.
        """
        check_free(directory)
        for i, net in enumerate(self.networks):
            save_checkpoint(Path(directory) / f"model_{i}", net, self.about, self.vocabulary)


def probabilities_of(model: StringEnsemble | TextMachine, tokens: Sequence[Sequence[str]]) -> np.ndarray:
    """Probabilities of the classes of texts, float32 ``[n, C]``."""
    if isinstance(model, TextMachine):
        return model.probabilities(tokens)
    return model.probabilities(model.encode(tokens))


def load_string_run(path: str | os.PathLike[str]) -> StringEnsemble | TextMachine:
    """The models of strings in a run folder, or the one model of such a folder, or the machine of one.

    Raises:
        FileNotFoundError: No model lies there, or the training of the run has not ended.
        ValueError: A file is damaged, models do not go together, or it is a run of molecules.
    """
    if is_text_machine(path):
        return load_text_machine(path)
    if is_machine(path):
        raise ValueError(f"{path}: expected a model of texts or signals, got a machine of molecules")
    folders = finished_folders(Path(path))
    networks, abouts = zip(*map(load_checkpoint, folders), strict=True)
    for folder, net in zip(folders, networks, strict=True):
        if not isinstance(net, LanguageModel | StringNetwork):
            raise ValueError(f"{folder}: expected a model of texts or signals, got {type(net).__name__}")
    check_alike(folders, abouts, COMMON)
    about, vocabulary = abouts[0], None
    if about["level"] != "vectors":
        vocabulary = load_vocabulary(folders[0], networks[0])
        for folder, net in zip(folders[1:], networks[1:], strict=True):
            if load_vocabulary(folder, net) != vocabulary:
                raise ValueError(f"{folder}: another vocabulary than in {folders[0]}")
    if isinstance(networks[0], StringNetwork) and len(about["classes"]) != networks[0].num_classes:
        expected = f"expected {networks[0].num_classes} classes"
        raise ValueError(f"{folders[0] / CONFIG}: about.classes: {expected}, got {about['classes']!r}")
    if (about["task"] == "language") != isinstance(networks[0], LanguageModel):
        got = type(networks[0]).__name__
        raise ValueError(f"{folders[0] / CONFIG}: about.task: {about['task']!r} with a {got}")
    assert about["level"] == "vectors" or isinstance(networks[0], LanguageModel | TextNetwork)
    return StringEnsemble([*networks], about, vocabulary)
