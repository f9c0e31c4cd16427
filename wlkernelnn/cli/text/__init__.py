"""Train on texts and their classes, or a language model; predict and evaluate."""

from __future__ import annotations

import importlib
import sys

VERBS = {
    "train": "Train a classifier on a table of texts and labels, or a language model on a text file.",
    "predict": "Predict for every row of a table of texts, in order.",
    "evaluate": "Score a trained run on texts with known labels, or on a text file.",
}

USAGE = f"usage: wlkernelnn text VERB [options]\n\n{__doc__}\n\nverbs:\n" + "".join(
    f"  {verb:<10}{text}\n" for verb, text in VERBS.items()
)


def main(argv: list[str] | None = None) -> None:
    if not argv or argv[0] in ("-h", "--help"):
        print(USAGE + "\nwlkernelnn text VERB --help tells a verb's options.")
        return
    verb = argv[0]
    if verb not in VERBS:
        print(f"wlkernelnn text: error: unknown verb {verb!r}; verbs are {', '.join(VERBS)}", file=sys.stderr)
        raise SystemExit(2)
    importlib.import_module(f"{__name__}.{verb}").main(argv[1:])
