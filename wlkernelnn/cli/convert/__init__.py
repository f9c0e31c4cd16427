"""Turn a chemprop training, a command or a config, into a config of train."""

from __future__ import annotations

import argparse
import difflib
import json
import logging
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .chemprop import ALIASES, COUNTERPARTS, DERIVED, INSTEAD, LOSSES, NEEDLESS, SAME, WITHOUT

logger = logging.getLogger("wlkernelnn")

#: An option's words: none of a flag.
Given = dict[str, list[str]]
# Options of chemprop whose columns are no targets.
_APART = (
    *("ignore-columns", "splits-column", "weight-column", "descriptors-columns", "reaction-columns"),
    *("atom-target-columns", "bond-target-columns"),
)
EXAMPLE = "wlkernelnn convert chemprop train --data-path my.csv --task-type regression"


@dataclass
class Conversion:
    """Options of ``train``, and what became of those of chemprop.

    Attributes:
        options: By our names.
        differs: Options that mean something else here, and what.
        left_out: Options without a counterpart, and why, where there is more to say.
        needless: Options that change no model.
    """

    options: dict[str, Any] = field(default_factory=dict)
    differs: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    needless: list[str] = field(default_factory=list)

    def drop(self, name: str, why: str) -> None:
        """Leave out one of our options."""
        if name in self.options:
            value = self.options.pop(name)
            self.left_out.append(f"{name} {value}: {why}")

    def text(self) -> str:
        """YAML for ``train --config``; comments have the rest."""
        import yaml

        from wlkernelnn import __version__

        comments = [f"Converted by wlkernelnn {__version__} from a training of chemprop."]
        for title, lines in (
            ("Different here", self.differs),
            ("Left out, because wlkernelnn has no such option", self.left_out),
            ("Left out, because it is not needed", self.needless),
        ):
            comments += [f"{title}:", *(f"  {line}" for line in lines)] if lines else []
        head = "".join(f"# {line}\n" for line in comments)
        return head + yaml.safe_dump(self.options, sort_keys=False, allow_unicode=True)


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        "wlkernelnn convert",
        description=f"{__doc__} Options that wlkernelnn lacks are listed in it; an unknown one is an error.",
        epilog=f"example: {EXAMPLE}",
    )
    parser.add_argument("--output-path", type=Path, help="where the YAML goes; default: it is printed")
    parser.add_argument(
        "source",
        nargs=argparse.REMAINDER,
        help="a config file of chemprop (config.toml, or JSON of version 1), or the words of a command",
    )
    parsed = parser.parse_args(argv)
    if not parsed.source:
        raise ValueError(f"which training? For example: {EXAMPLE}")
    given = read_source(parsed.source)
    done = convert(given)
    if parsed.output_path is None:
        print(done.text(), end="")
    else:
        from wlkernelnn.utils.text import write_text

        write_text(parsed.output_path, done.text())
        print(f"{len(done.options)} options of train: {parsed.output_path}")
    for line in done.left_out:
        logger.warning(f"left out, no such option here: {line}")


def read_source(source: Sequence[str]) -> Given:
    """The options in a config file, or in the words of a command, which come before those of its file."""
    # One word is a whole command, unless it is a file, in whose name there may be blanks.
    whole = len(source) == 1 and not Path(source[0]).is_file()
    words = shlex.split(source[0]) if whole else [*source]
    if len(words) == 1 and not words[0].startswith("-"):
        return read_config(Path(words[0]))
    given = read_command(words)
    paths = given.get("config-path")
    return given if paths is None else read_config(Path(paths[0])) | given


def read_command(words: Sequence[str]) -> Given:
    """Options by their names in full, of the words of a command line."""
    if words[1:2] == ["-m"]:  # python -m chemprop.train
        words = words[2:]
    first = next((i for i, word in enumerate(words) if word.startswith("-")), len(words))
    before = [Path(word).name for word in words[:first]]
    if before and not any(re.fullmatch(r"(chemprop[_.])?train(\.py)?", word) for word in before):
        raise ValueError(
            f"expected a training of chemprop (chemprop train …), got {shlex.join(words[:first])}"
        )
    given: Given = {}
    name = ""
    for word in words[first:]:
        if word.startswith("-") and not re.fullmatch(r"-[\d.].*", word):
            option, equals, value = word.partition("=")
            name = known(option)
            given[name] = [value] if equals else []
        else:
            given[name].append(word)
    return given


def read_config(path: Path) -> Given:
    """Options of a config file: lines ``name = value``, as of version 2, or the JSON of version 1."""
    content = path.read_text(encoding="utf-8")
    values: Mapping[str, Any] = _lines(content)
    if content.lstrip().startswith("{"):
        every = json.loads(content)
        values = {name: value for name, value in every.items() if name.replace("_", "-") not in DERIVED}
    given: Given = {}
    for option, value in values.items():
        name, value = known(option), [value] if not isinstance(value, list) else value
        words = [str(each) for each in value]
        if words not in (["None"], ["False"], ["false"], [""], []):
            given[name] = [] if words in (["True"], ["true"]) else words
    return given


# A value in quotes or brackets, or of words, with a comment behind it or without.
_VALUE = re.compile(r"""\A("[^"]*"|'[^']*'|\[(?:"[^"]*"|'[^']*'|[^\]"'])*\]|\S.*?)(?:\s+[#;].*)?\Z""")


def _lines(content: str) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for line in map(str.strip, content.splitlines()):
        if not line or line[0] in "#;[":
            continue
        option, _, text = (part.strip() for part in re.sub(r"[=:\s]\s*", "\0", line, count=1).partition("\0"))
        flag = text.startswith(("#", ";")) and not re.match(r"[^=:\s]+\s*[=:]", line)  # and a comment
        text = "" if flag else _VALUE.sub(r"\1", text.lstrip("=: "))
        if re.fullmatch(r"\[.*\]", text):
            values[option] = [part.strip(" '\"") for part in text[1:-1].split(",")]
        else:
            values[option] = text.strip("'\"") or "True"
    return values


def known(option: str) -> str:
    """The name in full of an option of chemprop.

    Raises:
        ValueError: There is none of this name.
    """
    name = option.lstrip("-").replace("_", "-")
    if not option.startswith("--") and name and {*name} in ({"q"}, {"v"}):
        name = name[0]  # -qq
    name = ALIASES.get(name, name)
    every = {*COUNTERPARTS, *NEEDLESS, *WITHOUT}
    if name not in every:
        near = difflib.get_close_matches(name, every | {*ALIASES}, 1)
        raise ValueError(f"chemprop has no option {option}" + (f"; do you mean --{near[0]}?" if near else ""))
    return name


def convert(given: Given) -> Conversion:
    """Options of chemprop as those of ``train``: with the network "wl", the nearest to its own."""
    done = Conversion({"model": "wl"})
    for name, words in given.items():
        shown = shlex.join([f"--{name}", *words])
        if name in NEEDLESS:
            done.needless.append(_with(shown, NEEDLESS[name]))
        elif name in COUNTERPARTS:
            ours, function, differs = COUNTERPARTS[name]
            try:
                value = function(words)
            except (ValueError, IndexError):
                raise ValueError(f"{shown}: not as chemprop takes it") from None
            if value is None:
                done.left_out.append(shown)
                continue
            done.options[ours] = value
            if not isinstance(differs, str):
                differs = differs.get(_spelled(words[0]), "")
            if differs:
                done.differs.append(f"{shown}: {differs}")
        elif " ".join(words).lower() not in SAME.get(name, ()):
            done.left_out.append(_with(shown, INSTEAD.get(name, "")))
    if "data_path" not in done.options:
        raise ValueError("--data-path is missing: a training of chemprop names its table")
    if "no-header-row" in given:
        raise ValueError(
            f"--no-header-row: train needs a first line with names of columns in {done.options['data_path']}"
        )
    _complete(done, given)
    return done


def _complete(done: Conversion, given: Given) -> None:
    """Give what chemprop does by itself, and drop what train refuses beside other options."""
    options = done.options
    task = _spelled(given.get("task-type", ["regression"])[0])
    if "task-type" not in given:
        options["task_type"] = task
    if (loss := task.partition("_")[2]) in LOSSES:
        options.setdefault("loss", loss)
    elif loss:
        done.left_out.append(f"the loss of {task}")
    if _spelled(given.get("loss-function", [""])[0]) == "bounded_mse":
        options["censored"] = True
    if options.get("loss") != "quantile":
        done.drop("quantiles", "they belong to the loss quantile")
    if "splits_column" in options:
        for name in ("split", "split_sizes", "data_seed"):
            done.drop(name, "the column says how to split")
    elif options.get("split") == "scaffold" and options.get("data_seed"):
        done.drop("data_seed", "there is one scaffold split")
    if "output_dir" not in options:
        options["output_dir"] = f"runs/{Path(options['data_path']).stem}"
    columns = _columns(Path(options["data_path"]))
    if "smiles_columns" not in options and columns:
        options["smiles_columns"] = columns[:1]
    if len(options.get("smiles_columns", [])) > 1:
        options["join_smiles"] = True
        done.differs.append(
            "--smiles-columns: joined to one molecule of several components, with one network"
        )
    if "target_columns" in options:
        return
    if not columns:
        done.differs.append("--target-columns: not given, and train needs them")
        return
    apart = {*options["smiles_columns"], *(name for option in _APART for name in given.get(option, []))}
    options["target_columns"] = [name for name in columns if name not in apart]
    if not options["target_columns"]:
        shown = ", ".join(map(repr, columns))
        raise ValueError(
            f"{options['data_path']}: no column is left for targets (columns: {shown}): expected names with "
            "',' between them, or --target-columns"
        )


def _columns(path: Path) -> list[str]:
    """The columns of a table, if it is there."""
    if not path.is_file():
        return []
    import pandas as pd

    return [*map(str, pd.read_csv(path, nrows=0).columns)]


def _spelled(word: str) -> str:
    """A value of chemprop as tables here have it."""
    return word.lower().replace("-", "_")


def _with(shown: str, why: str) -> str:
    return f"{shown}: {why}" if why else shown
