"""Classes of texts: ``fit(texts, labels)``, ``predict(texts)``."""

from __future__ import annotations

import os
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils import Tags

from wlkernelnn.datasets import PackedStrings, Texts
from wlkernelnn.datasets.text.texts import LEVELS, Level, Tokenised, tokenised
from wlkernelnn.training import ClassifierOptions, StringEnsemble, StringNetworkOptions, train_texts
from wlkernelnn.utils.checks import check_count, check_one_of

from .data import refuse, strings_in, two_parts
from .strings import StringEstimator


@dataclass(eq=False, repr=False)
class TextClassifier(StringEstimator):
    """Tells classes of texts apart, two or more, as ``wlkernelnn text train`` does.

    >>> from wlkernelnn import TextClassifier
    >>> texts = [f"a {word} film" for word in 20 * ["good", "lovely", "bad", "dull"]]
    >>> model = TextClassifier(hidden_channels=16, batch_size=8, lr=0.01, random_state=0)
    >>> model.fit(texts, 20 * ["+", "+", "-", "-"]).predict(["a lovely film", "a dull film"])
    array(['+', '-'], dtype='<U1')

    For signals there is :class:`StringClassifier`; the network inside is a
    :class:`~wlkernelnn.sequence.TextNetwork`.

    Args:
        model: ``"kernel"``, a :class:`~wlkernelnn.sequence.StringKernelNetwork`, or a variant of
            :class:`~wlkernelnn.sequence.RKM`, from ``"lstm"`` and ``"rkm_lstm"`` to ``"cnn"``.
        level: Tokens are ``"words"`` (see :func:`~wlkernelnn.datasets.document_tokens`) or ``"characters"``.
        max_length: Read so many tokens of a text; default all.
        min_count: Tokens that the training texts have less often are one unknown token.
        embeddings_path: File of word vectors in GloVe's format; default vectors that are learned alone.
        embedding_channels: Width of those.
        freeze_embeddings: Vectors of the file stay as they are.
        ensemble_size: Networks, which differ in their seeds and predict by their mean.
        hidden_channels, num_layers, bidirectional, ngram, dropout: See
            :class:`~wlkernelnn.training.StringNetworkOptions`.
        epochs, batch_size, lr: See :class:`~wlkernelnn.training.ClassifierOptions`.
        patience: Stop after so many epochs without a better accuracy on the validation part, 0 for never.
        validation_fraction: Part of the texts, drawn with its share of each class, on which the best epoch is
            chosen; 0 for the last epoch. All other texts are trained on.
        class_weight: How much texts of a class count in the loss: ``"balanced"``, so that all classes count
            alike; a number for each class, 1 of those that are not named; or ``None``, all alike.
        network_options, fit_options: Any other options of the two.
        random_state: Seed of all that is drawn.
        progress: Show a progress bar.

    Attributes:
        ensemble_: The networks and their vocabulary, a :class:`~wlkernelnn.training.StringEnsemble`.
        classes_: The classes, sorted.
        validation_score_: Accuracy on the validation part, or ``None``.
    """

    _of_vectors = False
    _: KW_ONLY
    level: Level = "words"
    max_length: int | None = None
    min_count: int = 2
    embeddings_path: str | os.PathLike[str] | None = None
    embedding_channels: int = 100
    freeze_embeddings: bool = False

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.one_d_array = True
        tags.input_tags.string = True
        return tags

    def _train(
        self,
        X: Any,
        y: np.ndarray,
        names: list[str],
        network: StringNetworkOptions,
        options: ClassifierOptions,
        directory: Path,
    ) -> tuple[StringEnsemble, float | None]:
        check_one_of("level", self.level, LEVELS)
        for name in ("min_count", "embedding_channels", *(["max_length"] if self.max_length else [])):
            check_count(name, getattr(self, name))
        if self.freeze_embeddings and self.embeddings_path is None:
            raise ValueError("freeze_embeddings=True needs embeddings_path: drawn vectors must be learned")
        found = _tokenised(X, self.level, self.max_length)
        labels = [names[number] for number in y]
        texts = Texts(found.texts, found.tokens, labels, np.arange(len(labels)), [], where="X")
        ensemble, report = train_texts(
            texts,
            two_parts(len(texts), self.validation_fraction, options.seed, y, "texts"),
            directory,
            options,
            network=network,
            level=self.level,
            max_length=self.max_length,
            min_count=self.min_count,
            embeddings_path=self.embeddings_path,
            embedding_channels=self.embedding_channels,
            freeze_embeddings=self.freeze_embeddings,
            ensemble_size=self.ensemble_size,
            progress=self.progress,
        )
        return ensemble, report.get("valid")

    def _strings(self, X: Any) -> PackedStrings:
        about = self.ensemble_.about
        return self.ensemble_.encode(_tokenised(X, about["level"], about["max_length"]).tokens)


def _tokenised(X: Any, level: str, max_length: int | None) -> Tokenised:
    """The tokens of texts.

    Raises:
        TypeError: X is not a list of texts.
        ValueError: One is missing, or has no word or sign in it.
    """
    texts = strings_in(X, "texts")
    found = tokenised(texts, level, max_length)
    refuse(found.rejects, len(texts), "text")
    for row, text in enumerate(texts):
        if not isinstance(text, str):
            raise TypeError(f"X: data row {row + 1}: expected a text, got {type(text).__name__}")
    return found
