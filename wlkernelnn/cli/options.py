"""From functions and dataclasses to options: names, types, defaults and help are written once."""

from __future__ import annotations

import argparse
import dataclasses
import inspect
import os
import re
import shlex
import sys
import types
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, NoReturn, Union, get_args, get_origin, get_type_hints

import yaml

from wlkernelnn.utils.text import read_yaml, shortened

#: The type of options that are counts.
PositiveInt = Annotated[int, "at least 1"]

_REQUIRED = inspect.Parameter.empty


class _Loader(yaml.SafeLoader):
    """Reads 1e5 as a number, as people do (YAML 1.1 wants 1.0e+5), and refuses a name that is there twice."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        marks: dict[str, yaml.Mark] = {}
        for key, _ in node.value:
            mark = key.start_mark
            if isinstance(key.value, str) and (first := marks.setdefault(key.value, mark)) is not mark:
                where = f"in line {first.line + 1} and in line {mark.line + 1}"
                raise ValueError(f"{key.value!r} is there twice, {where}")
        return super().construct_mapping(node, deep)


class _Dumper(yaml.SafeDumper):
    """Puts quotes around a name like 1e5."""


for _yaml in (_Loader, _Dumper):
    _yaml.add_implicit_resolver(
        "tag:yaml.org,2002:float",
        re.compile(r"[-+]?[0-9][0-9_]*(\.[0-9_]*)?[eE][-+]?[0-9]+$"),
        list("-+0123456789"),
    )


class _HelpFormatter(argparse.HelpFormatter):
    """Help that says which options are required, and no defaults that are described in words."""

    def _get_help_string(self, action: argparse.Action) -> str:
        text = action.help or ""
        if action.default is _REQUIRED:
            return f"{text} (required)"
        described = not action.option_strings or action.default in (None, argparse.SUPPRESS)
        return text if described else f"{text} (default: %(default)s)"


class VerbParser(argparse.ArgumentParser):
    """Options from the command line and from a YAML file; errors are one line.

    argparse reads the words; :meth:`parse_args` gives them and the file's values their types. ``presets``
    are other defaults, by the value of ``--preset``. ``given`` are the names of the options that words or the
    file give.
    """

    def __init__(
        self,
        verb: str,
        description: str | None = None,
        presets: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> None:
        super().__init__(
            prog=f"wlkernelnn {verb}",
            usage=f"wlkernelnn {verb} [options]",
            description=description,
            formatter_class=_HelpFormatter,
            allow_abbrev=False,
        )
        self.kinds: dict[str, Any] = {}
        self.defaults: dict[str, Any] = {}
        self.presets = presets or {}
        self.given: set[str] = set()
        self.add_argument("--config", help="YAML file with any of the options below.")
        self.add_argument(
            "--print-config", action="store_true", default=None, help="Print all options as YAML, and stop."
        )

    def parse_args(self, args: Any = None) -> argparse.Namespace:  # type: ignore[override]
        """The options: those of the command line, else of ``--config``, of a preset, the defaults."""
        # argparse fills in no defaults where a namespace has an entry.
        given = vars(super().parse_args(args, argparse.Namespace(**dict.fromkeys(self.kinds))))
        path, stop = given.pop("config"), given.pop("print_config")
        words = {name: value for name, value in given.items() if value is not None}
        chosen = ({} if path is None else self.read_config(path)) | self._typed(words)
        self.given = {*chosen}
        values = self.defaults | dict(self.presets.get(chosen.get("preset", ""), {})) | chosen
        if stop:
            print(config_text(argparse.Namespace(**values)), end="")
            self.exit()
        if missing := [option_name(name) for name, value in values.items() if value is _REQUIRED]:
            self.error(f"required, but not given: {', '.join(missing)}")
        return argparse.Namespace(**values)

    def read_config(self, path: str | Path) -> dict[str, Any]:
        """The options that a YAML file gives."""
        try:
            values = read_yaml(path, _Loader)
        except OSError as error:
            self.error(f"--config: {path}: {error.strerror}")
        except ValueError as error:
            self.error(str(error))
        if not isinstance(values, dict):
            self.error(f"{path}: expected options, got {shortened(values)}")
        for name in values:
            if name not in self.kinds:
                self.error(f"{path}: {name!r} is not an option")
        return self._typed(values, f"{path}: ")

    def _typed(self, values: Mapping[str, Any], place: str = "") -> dict[str, Any]:
        result: dict[str, Any] = {}
        for name, value in values.items():
            if value is None:
                if self.defaults[name] is not None:
                    self.error(f"{place}{option_name(name)}: expected a value, got null")
                result[name] = None
                continue
            try:
                result[name] = _converted(value, self.kinds[name])
            except ValueError as error:
                self.error(f"{place}{option_name(name)}{error}")
        return result

    def set_defaults(self, values: Mapping[str, Any] | None = None, **more: Any) -> None:
        """Other defaults than those of the functions and classes."""
        new = {**(values or {}), **more}
        self.defaults |= new
        for action in self._actions:
            action.default = new.get(action.dest, action.default)

    def error(self, message: str) -> NoReturn:
        what = " ".join(message.removeprefix("argument ").split())
        self.exit(2, f"{self.prog}: error: {what}; see {self.prog} --help\n")


def config_text(parsed: argparse.Namespace) -> str:
    """Options as YAML that ``--config`` reads again."""
    values = {name: _as_yaml(value) for name, value in vars(parsed).items() if value not in (None, _REQUIRED)}
    return yaml.dump(values, Dumper=_Dumper, sort_keys=False, allow_unicode=True)


def command_line(parser: VerbParser, parsed: argparse.Namespace) -> str:
    """The command with all options that are not as they are by default."""
    words = parser.prog.split()
    for name, value in vars(parsed).items():
        if value is None or value == parser.defaults[name]:
            continue
        if isinstance(value, bool):
            words.append(option_name(name) if value else option_name(f"no_{name}"))
        else:
            option = option_name(name)
            several = [*map(str, value if isinstance(value, (list, tuple)) else [value])]
            if any(each.startswith("-") for each in several):  # else taken for an option
                words += [f"{option}={each}" for each in several]
            else:
                words += [option, *several]
    return shlex.join(words)


def how_to_go_on(error: BaseException, config_path: Path) -> str:
    """What an interrupted command ends with: where it was, and the options that go on."""
    return f"{error} (--config {shlex.quote(str(config_path))} --resume goes on)".lstrip()


def _as_yaml(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_as_yaml(item) for item in value]
    return str(value) if isinstance(value, Path) else value


def add_options(
    parser: VerbParser,
    title: str,
    source: Callable[..., Any],
    names: Collection[str] | None = None,
) -> None:
    """Add an option for every parameter of a function or dataclass.

    Args:
        parser: Takes the options as a group.
        title: Title of the group.
        source: Its signature gives names, types and defaults; its docstring the help.
        names: Only these parameters.
    """
    group = parser.add_argument_group(title)
    # The fields of a dataclass may come from modules of other names than its own.
    by_class = dataclasses.is_dataclass(source) or not inspect.isclass(source)
    hints = get_type_hints(source if by_class else source.__init__, include_extras=True)
    helps: Mapping[str, str] = _helps(source) if sys.flags.optimize < 2 else defaultdict(str)  # -OO has none
    made = {
        field.name: field.default_factory for field in getattr(source, "__dataclass_fields__", {}).values()
    }
    for name, parameter in inspect.signature(source).parameters.items():
        if names is not None and name not in names:
            continue
        kind, default = hints[name], parameter.default
        if get_origin(kind) in (Union, types.UnionType):  # nobody gives None
            kind = Union[tuple(one for one in get_args(kind) if one is not types.NoneType)]  # noqa: UP007
        if made.get(name, dataclasses.MISSING) is not dataclasses.MISSING:
            default = made[name]()
        default = list(default) if isinstance(default, tuple) else default
        parser.kinds[name], parser.defaults[name] = kind, default
        options: dict[str, Any] = {"metavar": name.upper()}
        if kind is bool:
            options = {"action": argparse.BooleanOptionalAction}
        elif get_origin(kind) is list:
            options |= {"nargs": "+", "action": "extend"}
        elif _several(kind):
            options["nargs"] = "+"
            options["metavar"] = f"{{{','.join(map(str, get_args(get_args(kind)[0])))}}}"
        elif get_origin(kind) is tuple:
            options["nargs"] = len(get_args(kind))
        elif get_origin(kind) is Literal:
            options["metavar"] = f"{{{','.join(map(str, get_args(kind)))}}}"
        group.add_argument(option_name(name), default=default, help=helps[name].replace("%", "%%"), **options)


def pick(
    parsed: argparse.Namespace, source: Callable[..., Any], names: Collection[str] | None = None
) -> dict[str, Any]:
    """The parsed values of :func:`add_options`, as keyword arguments of ``source``."""
    return {name: getattr(parsed, name) for name in names or inspect.signature(source).parameters}


def option_name(parameter: str) -> str:
    """The option of a parameter."""
    return f"--{parameter.replace('_', '-')}"


def check_outputs(
    outputs: Mapping[str, Path | None], inputs: Iterable[Path], folders: Collection[str] = ()
) -> None:
    """Refuse to write where a folder is, into the input, or two things into one file: before the work.

    Args:
        outputs: Files, by the options that name them.
        inputs: Files and folders that are read.
        folders: Options that name folders instead.
    """
    written: dict[Path, str] = {}
    for option, path in outputs.items():
        if path is None:
            continue
        if path.is_dir() and option not in folders:
            raise ValueError(f"{option}: {path} is a folder, expected the name of a file")
        place = Path(os.path.realpath(path))  # Path.resolve raises an error of its own at links in a circle
        for given in map(Path, map(os.path.realpath, inputs)):
            if place == given:
                raise ValueError(f"{option}: {path} is the input, which would be overwritten")
            if given.is_dir() and place.parent == given:
                raise ValueError(
                    f"{option}: {path} lies in the folder of the input, as if it were part of it"
                )
        if place in written:
            raise ValueError(f"{option}: {path} is {written[place]} too: one would overwrite the other")
        written[place] = option


def _helps(source: Callable[..., Any]) -> dict[str, str]:
    """Help by parameter, without the markup for the web pages; of a class, also of those it is made from."""
    documented = reversed(inspect.getmro(source)) if inspect.isclass(source) else [source]
    # Of ``name`` and :func:`~package.name` the name.
    markup = re.compile(r"``|:\w+:`~?(?:\w+\.)*(\w+)`")
    helps: dict[str, str] = {}
    for part in documented:
        _, _, arguments = (inspect.getdoc(part) or "").partition("\nArgs:\n")
        for name, text in re.findall(r"^ {4}(\w+): (.*(?:\n {8}.*)*)", arguments, re.MULTILINE):
            helps[name] = markup.sub(lambda found: found[1] or "", " ".join(text.split()))
    return helps


def _converted(value: Any, kind: Any) -> Any:
    """A word, or a value of a file, in its type.

    Raises:
        ValueError: It has none: the message goes behind the name of the option.
    """
    several = get_origin(kind)
    if several in (list, tuple):
        items = value if isinstance(value, list) or several is tuple else [value]
        kinds = get_args(kind)
        if several is tuple and not (isinstance(items, list) and len(items) == len(kinds)):
            raise ValueError(f": expected a list of {len(kinds)}, got {value!r}")
        if several is list and len(items) == 1 and re.fullmatch(r"\[.*\]", str(items[0])):
            try:
                items = yaml.load(str(items[0]), _Loader)  # --parts=[step,epoch]
            except yaml.YAMLError:
                raise ValueError(f": expected a list such as [a, b], got {items[0]}") from None
        result = []
        for i, item in enumerate(items):
            try:
                result.append(_converted(item, kinds[0]))
            except ValueError as error:
                raise ValueError(f", value {i + 1}{error}") from None
        return result
    if _several(kind):
        items = value if isinstance(value, list) else [value]
        # A word, or several: each is one of the words, or an item of the list.
        kinds = tuple(get_args(each)[0] if get_origin(each) is list else each for each in get_args(kind))
        one: Any = Union[kinds]  # noqa: UP007
        found = [_converted(item, one) for item in items]
        return found[0] if len(found) == 1 else found
    for one in get_args(kind) if several in (Union, types.UnionType) else (kind,):
        base = get_args(one)[0] if get_origin(one) is Annotated else one
        if get_origin(base) is Literal:
            if value in get_args(base):
                return value
        elif base is bool:
            if isinstance(value, bool):
                return value
        elif isinstance(value, str) or (type(value) in (int, float) and base in (float, type(value))):
            try:
                result = base(value)
            except ValueError:
                continue
            if one != PositiveInt or result >= 1:
                return result
    raise ValueError(f": expected {_words(kind)}, got {value if value != '' else 'nothing'}")


def _several(kind: Any) -> bool:
    """Whether a type is one of some words, or a list of such words or of numbers."""
    return get_origin(kind) in (Union, types.UnionType) and any(
        get_origin(one) is list for one in get_args(kind)
    )


def _words(kind: Any) -> str:
    """A type as people call its values."""
    if get_origin(kind) is Literal:
        return f"one of {', '.join(map(str, get_args(kind)))}"
    if get_origin(kind) in (Union, types.UnionType):
        return " or ".join(map(_words, get_args(kind)))
    if get_origin(kind) is Annotated:
        return f"{_words(get_args(kind)[0])} of {get_args(kind)[1]}"
    return {int: "an integer", float: "a number", bool: "true or false"}.get(kind, "text")
