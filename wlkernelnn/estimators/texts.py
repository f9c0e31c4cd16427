"""Classes of texts: ``fit(texts, labels)``, ``predict(texts)``."""

from __future__ import annotations

import os
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any, get_args

import numpy as np
from sklearn.utils import Tags

from wlkernelnn.datasets import Texts
from wlkernelnn.datasets.text.texts import LEVELS, Level, Tokenised, tokenised
from wlkernelnn.machines import TextMachine
from wlkernelnn.training import StringEnsemble, train_text_machine, train_texts
from wlkernelnn.training.string_options import TextModelName, text_model
from wlkernelnn.training.text.model import probabilities_of
from wlkernelnn.utils.checks import check_count, check_one_of

from .data import refuse, strings_in, two_parts
from .strings import Options, StringEstimator

# Arguments that networks alone have.
OF_NETWORKS = (
    *("ensemble_size", "hidden_channels", "num_layers", "bidirectional", "dropout", "epochs", "batch_size"),
    *("lr", "patience", "validation_fraction", "network_options", "fit_options", "embeddings_path"),
    *("embedding_channels", "freeze_embeddings"),
)


@dataclass(eq=False, repr=False)
class TextClassifier(StringEstimator):
    """Tells classes of texts apart, two or more, as ``wlkernelnn text train`` does.

    >>> from wlkernelnn import TextClassifier
    >>> texts = [f"a {word} film" for word in 20 * ["good", "lovely", "bad", "dull"]]
    >>> model = TextClassifier().fit(texts, 20 * ["+", "+", "-", "-"])
    >>> model.predict(["a lovely film", "a dull film"])
    array(['+', '-'], dtype='<U1')

    For signals there is :class:`StringClassifier`; the network inside, if there is one, is a
    :class:`~wlkernelnn.sequence.TextNetwork`.

    Args:
        model: ``"spectrum"``, a :class:`~wlkernelnn.machines.TextMachine`, which has no use for arguments of
            networks; ``"kernel"``, a :class:`~wlkernelnn.sequence.StringKernelNetwork`, or a variant of
            :class:`~wlkernelnn.sequence.RKM`, from ``"lstm"`` and ``"rkm_lstm"`` to ``"cnn"``; or ``"auto"``,
            the machine, but with ``embeddings_path`` ``"kernel"``.
        level: Tokens are ``"words"`` (see :func:`~wlkernelnn.datasets.document_tokens`) or ``"characters"``.
        max_length: Read so many tokens of a text; default all.
        min_count: Tokens that the training texts have less often are one unknown token; runs that fewer
            texts have are none of the machine's.
        embeddings_path: File of word vectors in the text format of GloVe, word2vec or fastText; default
            vectors that are learned alone.
        embedding_channels: Width of those.
        freeze_embeddings: Vectors of the file stay as they are.
        ensemble_size: Networks, which differ in their seeds and predict by their mean.
        hidden_channels, num_layers, bidirectional, dropout: See
            :class:`~wlkernelnn.training.StringNetworkOptions`.
        ngram: Length of the patterns of networks; of the machine, of its longest run of words.
        epochs, batch_size, lr: See :class:`~wlkernelnn.training.ClassifierOptions`.
        patience: Stop after so many epochs without a better accuracy on the validation part, 0 for never.
        validation_fraction: Part of the texts, drawn with its share of each class, on which the best epoch is
            chosen; 0 for the last epoch. All other texts are trained on.
        class_weight: How much texts of a class count in the loss: ``"balanced"``, so that all classes count
            alike; a dict with a number for each class, 1 of those that are not named; or ``None``, all alike.
        network_options, fit_options: Any other options of the two.
        random_state: Seed of all that is drawn.
        progress: Show a progress bar.

    Attributes:
        machine_: The :class:`~wlkernelnn.machines.TextMachine`, if the model is one.
        ensemble_: The networks and their vocabulary, a :class:`~wlkernelnn.training.StringEnsemble`, if not.
        classes_: The classes, sorted.
        validation_score_: Accuracy on the validation part, of the machine on training texts left out, or
            ``None``.
    """

    _of_vectors = False

    model: TextModelName = "auto"
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
        weights: Any,
        options: Options | None,
        directory: Path,
    ) -> tuple[StringEnsemble | TextMachine, float | None]:
        check_one_of("level", self.level, LEVELS)
        for name in ("min_count", "embedding_channels"):
            check_count(name, getattr(self, name))
        if self.max_length is not None:
            check_count("max_length", self.max_length)
        found = _tokenised(X, self.level, self.max_length)
        labels = [names[number] for number in y]
        texts = Texts(found.texts, found.tokens, labels, np.arange(len(labels)), [], where="X")
        own: dict[str, Any] = {name: getattr(self, name) for name in ("level", "max_length", "min_count")}
        if options is None:
            own |= {"ngram": self.ngram, "class_weight": weights}
            every = {"train": np.arange(len(texts))}
            machine, report = train_text_machine(texts, every, directory, **own)
            return machine, report["left_out"]
        ensemble, report = train_texts(
            texts,
            two_parts(len(texts), self.validation_fraction, options.training.seed, y, "texts"),
            directory,
            options.training,
            network=options.network,
            **own,
            embeddings_path=self.embeddings_path,
            embedding_channels=self.embedding_channels,
            freeze_embeddings=self.freeze_embeddings,
            ensemble_size=self.ensemble_size,
            progress=self.progress,
        )
        return ensemble, report.get("valid")

    @property
    def _model(self) -> str:
        return text_model(self.model, "classification", self.embeddings_path is not None)

    def _options(self, seed: int, devices: int) -> Options | None:
        names = [*get_args(TextModelName)]
        check_one_of("model", self.model, names)
        if self._model != "spectrum":
            width = TextClassifier.embedding_channels
            if self.embeddings_path is not None and self.embedding_channels != width:
                raise ValueError("embedding_channels: the file of embeddings_path has a width of its own")
            return super()._options(seed, devices)
        if devices != 1:
            raise ValueError(f"devices={devices}: the machine of model={self.model!r} trains in one process")
        why = f"arguments of networks (model='kernel' and others), which the machine of model={self.model!r}"
        idle: tuple[str, ...] = OF_NETWORKS
        if self.level == "characters":
            why, idle = f"{why}, for characters,", (*OF_NETWORKS, "ngram")
        self._warn(idle, why, depth=4)
        return None

    def _probabilities(self, X: Any) -> np.ndarray:
        about = self._fitted.about
        return probabilities_of(self._fitted, _tokenised(X, about["level"], about["max_length"]).tokens)


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
