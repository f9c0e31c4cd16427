"""From functions and dataclasses to options: names, types, defaults and help are written once."""

from __future__ import annotations

import argparse
import inspect
import re
import sys
import types
from collections.abc import Callable, Collection, Iterable
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any, Literal, NoReturn, Union, get_args, get_origin, get_type_hints

import yaml
from docstring_parser import parse as parse_docstring
from jsonargparse import ActionYesNo, ArgumentParser, DefaultHelpFormatter, Namespace, set_dumper
from jsonargparse.typing import PositiveInt

# Where jsonargparse's messages have the value that it refused.
_GOT = re.compile(
    r"(?:Got value:|Given value:(?! type)) ?(.*)"
    r"|: (.*) does not conform to restriction|invalid literal for int\(\) with base 10: (.*)"
)


class VerbParser(ArgumentParser):
    """Its errors are one line, in the command line's words: the usage of fifty options would hide them."""

    _reading = ""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        #: What values an option may have, in words.
        self.expected: dict[str, str] = {}

    def parse_args(self, args: Any = None, *more: Any, **kwargs: Any) -> Any:
        """Refuse several values that are not given together: of them only the last would count."""
        words = [word.split("=")[0] for word in (sys.argv[1:] if args is None else args)]
        for action in self._actions:
            given = [word for word in words if word in action.option_strings]
            if action.nargs == "+" and len(given) > 1:
                self.error(f"{given[0]}: given {len(given)} times, expected once, with all values behind it")
        return super().parse_args(args, *more, **kwargs)

    def parse_path(self, cfg_path: Any, *args: Any, **kwargs: Any) -> Any:
        before, self._reading = self._reading, f"{cfg_path}: "
        try:
            return super().parse_path(cfg_path, *args, **kwargs)
        finally:
            self._reading = before

    def _check_value_key(
        self, action: argparse.Action, value: Any, key: str, *args: Any, **kwargs: Any
    ) -> Any:
        """One value where a file may have several stands for a list of one."""
        if value is not None and action.nargs == "+" and not isinstance(value, (list, tuple)):
            value = [value]
        number = action.nargs if isinstance(action.nargs, int) else 0
        if value is not None and number and not (isinstance(value, (list, tuple)) and len(value) == number):
            raise TypeError(f"{option_name(key)}: expected a list of {number}, got {value!r}")
        try:
            return super()._check_value_key(action, value, key, *args, **kwargs)
        except (TypeError, ValueError) as error:
            if not isinstance(action, ActionYesNo):
                raise
            raise TypeError(f"{option_name(key)}: expected true or false, got {value!r}") from error

    def error(self, message: str, ex: Exception | None = None) -> NoReturn:
        what = self._reading + self._in_words(" ".join(message.split()))
        self.exit(2, f"{self.prog}: error: {what}; see {self.prog} --help\n")

    def _in_words(self, message: str) -> str:
        """A message of jsonargparse without Python's names and types, where the option is known."""
        if missing := re.fullmatch("the following arguments are required: (.+)", message):
            return f"required, but not given: {', '.join(map(option_name, missing[1].split(', ')))}"
        wrong = re.fullmatch(r'Parser key "(\w+)"( element \d+)?: (.*)', message)
        if not wrong or wrong[1] not in self.expected:
            return message
        which = option_name(wrong[1]) + (wrong[2] or "").replace(" element", ", value")
        value = _GOT.search(wrong[3])
        came = f", got {value[1] or value[2] or value[3] or 'nothing'}" if value else ""
        return f"{which}: expected {self.expected[wrong[1]]}{came}"


class _Dumper(yaml.SafeDumper):
    """Puts quotes around a name like 1e5: a number to those who read the file, not to YAML 1.1."""


_Dumper.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"[-+]?[0-9][0-9_]*(\.[0-9_]*)?[eE][-+]?[0-9]+$"),
    list("-+0123456789"),
)
set_dumper(
    "wlkernelnn", lambda options: yaml.dump(options, Dumper=_Dumper, sort_keys=False, allow_unicode=True)
)


class _HelpFormatter(DefaultHelpFormatter):
    """Help without Python's notation of types, and without defaults that are described in words."""

    def _get_help_string(self, action: argparse.Action) -> str:
        if action.required:
            return f"{action.help} (required)"
        described = not action.option_strings or action.default in (None, argparse.SUPPRESS)
        return action.help or "" if described else f"{action.help} (default: %(default)s)"


def verb_parser(verb: str, description: str | None) -> VerbParser:
    """The parser of a verb, so far with ``--config`` alone."""
    parser = VerbParser(
        prog=f"wlkernelnn {verb}",
        usage=f"wlkernelnn {verb} [options]",
        description=description,
        formatter_class=_HelpFormatter,
        print_config="--print-config",
    )
    parser.add_argument("--config", action="config", help="YAML file with any of the options below.")
    return parser


def config_text(parser: ArgumentParser, parsed: Namespace) -> str:
    """Options as YAML that ``--config`` reads again."""
    return parser.dump(parsed, format="wlkernelnn")


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
    by_class = is_dataclass(source) or not inspect.isclass(source)
    hints = get_type_hints(source if by_class else source.__init__)
    helps = _helps(source)
    for name, parameter in inspect.signature(source).parameters.items():
        if names is not None and name not in names:
            continue
        kwargs = _kind(hints[name])
        if parameter.default is inspect.Parameter.empty:
            kwargs["required"] = True
        else:
            default = parameter.default
            kwargs["default"] = list(default) if isinstance(default, tuple) else default
        group.add_argument(option_name(name), help=helps[name], **kwargs)
        if "type" in kwargs:
            parser.expected[name] = _words(kwargs["type"])


def pick(
    namespace: Namespace, source: Callable[..., Any], names: Collection[str] | None = None
) -> dict[str, Any]:
    """The parsed values of what :func:`add_options` added, as keyword arguments of ``source``.

    Raises:
        ValueError: A file gave ``null`` for what has to have a value.
    """
    parameters = inspect.signature(source).parameters
    result = {name: namespace[name] for name in (parameters if names is None else names)}
    for name, value in result.items():
        if value is None and parameters[name].default is not None:
            raise ValueError(f"{option_name(name)}: expected a value, got null")
    return result


def option_name(parameter: str) -> str:
    """The option of a parameter."""
    return f"--{parameter.replace('_', '-')}"


def check_file(option: str, path: Path | None) -> None:
    """Refuse a folder where a file is to be written: before the work whose result it is for."""
    if path is not None and path.is_dir():
        raise ValueError(f"{option}: {path} is a folder, expected the name of a file")


def check_apart(option: str, path: Path | None, inputs: Iterable[Path]) -> None:
    """Refuse to write into the input."""
    if path is None:
        return
    for given in inputs:
        if path.resolve() == given.resolve():
            raise ValueError(f"{option}: {path} is the input, which would be overwritten")
        if given.is_dir() and path.resolve().parent == given.resolve():
            raise ValueError(f"{option}: {path} lies in the folder of the input, as if it were part of it")


def check_different(option: str, path: Path | None, other: str, other_path: Path | None) -> None:
    """Refuse to write two things into one file."""
    if path is not None and other_path is not None and path.resolve() == other_path.resolve():
        raise ValueError(f"{option}: {path} is {other} too: one would overwrite the other")


def _helps(source: Callable[..., Any]) -> dict[str, str]:
    """Help by parameter, without the markup for the web pages; of a class, also of those it is made from."""
    documented = reversed(inspect.getmro(source)) if inspect.isclass(source) else [source]
    texts = {
        entry.arg_name: " ".join((entry.description or "").split())
        for part in documented
        for entry in parse_docstring(inspect.getdoc(part) or "").params
    }
    # Of ``name`` and :func:`~package.name` the name.
    markup = re.compile(r"``|:\w+:`~?(?:\w+\.)*(\w+)`")
    return {name: markup.sub(lambda found: found[1] or "", text) for name, text in texts.items()}


def _kind(hint: Any) -> dict[str, Any]:
    """How an option of a type is given: lists and tuples as words, booleans as --name and --no-name."""
    if get_origin(hint) in (Union, types.UnionType):
        # None is what an option has that is not given; nobody gives it.
        options = tuple(option for option in get_args(hint) if option is not types.NoneType)
        hint = Union[options]  # noqa: UP007 (of one type, it is that type)
    if get_origin(hint) is list:
        return {"type": get_args(hint)[0], "nargs": "+"}
    if get_origin(hint) is tuple:
        return {"type": get_args(hint)[0], "nargs": len(get_args(hint))}
    if hint is bool:
        return {"action": ActionYesNo(yes_prefix="", no_prefix="no-")}
    return {"type": hint}


def _words(kind: Any) -> str:
    """What values of a type are."""
    if get_origin(kind) is Literal:
        return f"one of {', '.join(map(str, get_args(kind)))}"
    if get_origin(kind) in (Union, types.UnionType):
        return " or ".join(map(_words, get_args(kind)))
    return {int: "an integer", float: "a number", PositiveInt: "an integer of at least 1"}.get(kind, "text")
