"""The command ``wlkernelnn``."""

from __future__ import annotations

import importlib
import io
import logging
import os
import sys
import warnings
from typing import Any

from wlkernelnn.utils.guard import check_main_module
from wlkernelnn.utils.interrupts import sigterm_interrupts

VERBS = {
    "train": "Train a model on a table of SMILES, and keep it in a run folder.",
    "predict": "Predict for every row of a table of SMILES, in order.",
    "fingerprint": "Fingerprints for every row of a table of SMILES, in order.",
    "explain": "Say of every atom how much it adds to the predictions for its molecule.",
    "evaluate": "Score a trained run on a table of SMILES with measured targets.",
    "export": "Write the networks of a run into one file for torch.export or ONNX.",
    "convert": "Turn a chemprop training, a command or a config, into a config of train.",
    "hpopt": "Search for the options of a network that are best for a table of SMILES.",
    "cache": "Show or clear the cache of packed data sets, which hold SMILES and targets.",
    "text": "Train on texts and their classes, or a language model; predict and evaluate.",
    "benchmark": "Run a benchmark, and write its tables and figures.",
}

USAGE = (
    "usage: wlkernelnn VERB [options]\n\nKernels, and neural networks derived from them.\n\nverbs:\n"
    + "".join(f"  {verb:<13}{text}\n" for verb, text in VERBS.items())
)


def _warning(message: Warning | str, *_: Any) -> str:
    """A warning as one line, without the code that warns."""
    return f"warning: {message}\n"


def main(argv: list[str] | None = None) -> int:
    """Run a verb; errors of the user's input or installation are a message on stderr and exit status 1."""
    try:
        try:
            return _run(sys.argv[1:] if argv is None else argv)
        finally:
            sys.stdout.flush()
    except BrokenPipeError:  # the reader has gone, as in wlkernelnn --help | head -1
        # Python flushes once more when it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def _run(argv: list[str]) -> int:
    check_main_module()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # What the encoding of a terminal lacks is shown as "?", and does not end the work.
            stream.reconfigure(errors="replace")
    if not argv or argv[0] in ("-h", "--help"):
        print(USAGE + "\nwlkernelnn VERB --help tells a verb's options.")
        return 0
    if argv[0] == "--version":
        from wlkernelnn import __version__

        print(__version__)
        return 0
    verb = argv[0]
    if verb not in VERBS:
        print(f"wlkernelnn: error: unknown verb {verb!r}; verbs are {', '.join(VERBS)}", file=sys.stderr)
        return 2
    logger, handler = logging.getLogger("wlkernelnn"), logging.StreamHandler()
    format_before = warnings.formatwarning
    warnings.formatwarning = _warning  # type: ignore[assignment]
    logger.setLevel(logging.INFO)
    logger.addHandler(handler)
    try:
        with sigterm_interrupts():
            # Only the verb that runs is imported.
            importlib.import_module(f"wlkernelnn.cli.{verb}").main(argv[1:])
    except (ValueError, OSError, ImportError) as error:
        print(f"wlkernelnn {verb}: error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt as error:
        print(f"wlkernelnn {verb}: interrupted {error}".rstrip(), file=sys.stderr)
        return 130
    finally:
        warnings.formatwarning = format_before
        logger.removeHandler(handler)
    return 0
