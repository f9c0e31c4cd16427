"""What a training refuses before data are read."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import yaml

from wlkernelnn.utils.text import read_yaml

from .options import VerbParser, option_name

# What a training writes into its folder, whatever the model.
RUN_FILES = (
    *("README.md", "README", "report.html", "config.json", "model.safetensors", "metrics.json"),
    *("train_predictions.csv", "valid_predictions.csv", "test_predictions.csv", "splits.json"),
    *("training_molecules.json", "test_calibration.svg"),
)


def check_idle(
    parser: VerbParser,
    parsed: Namespace,
    choice: str,
    chosen: Collection[str],
    owners: Mapping[str, Collection[str]],
) -> None:
    """Refuse options that would do nothing.

    Args:
        parser, parsed: The options of the verb, and their values.
        choice: The option on which it depends whether others do something.
        chosen: Its value, or parts of it.
        owners: For each of the others, the values with which it does something.
    """
    for option, known in owners.items():
        if not {*chosen} & {*known} and getattr(parsed, option) != parser.defaults[option]:
            raise ValueError(
                f"{option_name(option)} is an option of {option_name(choice)} {' and '.join(known)}, "
                f"but the {choice.replace('_', ' ')} is {getattr(parsed, choice)}"
            )


def check_run_folder(
    parser: VerbParser,
    parsed: Namespace,
    directory: Path,
    may_differ: Collection[str],
    files: Collection[str] = RUN_FILES,
) -> None:
    """Refuse a folder whose files would be lost, or a run to resume that had other options.

    Args:
        parser, parsed: The options of the verb, ``data_path`` and ``resume`` among them, and their values.
        directory: The run folder.
        may_differ: Options that may change when a run resumes.
        files: What will be written there beside config.yaml and rejected rows.
    """
    from wlkernelnn.datasets.files.rejects import CHANGES
    from wlkernelnn.datasets.splits.parts import PARTS
    from wlkernelnn.training.folder import check_free, check_resumable

    written = ["rejects.csv", CHANGES, *(f"{part}_predictions.csv" for part in PARTS)]
    if Path(parsed.data_path).resolve() in [(directory / name).resolve() for name in written]:
        raise ValueError(f"--data-path: {parsed.data_path} is a file that the run would overwrite")
    path = directory / "config.yaml"
    if not parsed.resume:
        check_free(directory, *files)
        if path.exists() and not _is_config(parser, path):
            raise FileExistsError(f"{path} is not of a run, and would be overwritten: choose another folder")
        return
    check_resumable(directory, *files)
    if not path.is_file():
        return
    before: dict[str, Any] = parser.defaults | parser.read_config(path)
    for name, value in before.items():
        given = getattr(parsed, name)
        if name not in may_differ and given != value:
            raise ValueError(f"{path}: the run to resume has {name}={value!r}, but {given!r} is given")


def _is_config(parser: VerbParser, path: Path) -> bool:
    """Whether a file has options of the verb, as a call that failed leaves them, or ``--config`` takes."""
    try:
        options = read_yaml(path, yaml.SafeLoader)
    except (OSError, ValueError):
        return False
    return isinstance(options, dict) and {*options} <= {*parser.kinds}
