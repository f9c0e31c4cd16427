"""From functions and dataclasses to options: names, types, defaults and help are written once."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Collection
from typing import Any, Union, get_args, get_origin, get_type_hints

from docstring_parser import parse as parse_docstring
from jsonargparse import ActionYesNo, ArgumentParser, Namespace


def verb_parser(verb: str, description: str | None) -> ArgumentParser:
    """A parser whose errors are one line: the usage of fifty options would hide them."""
    parser = ArgumentParser(
        prog=f"wlkernelnn {verb}", usage=f"wlkernelnn {verb} [options]", description=description
    )
    parser.add_argument("--config", action="config", help="YAML file with any of the options below.")
    return parser


def add_options(
    parser: ArgumentParser,
    title: str,
    source: Callable[..., Any],
    names: Collection[str] | None = None,
    docs: Callable[..., Any] | None = None,
) -> None:
    """Add an option for every parameter of a function or dataclass.

    Args:
        parser: Takes the options as a group.
        title: Title of the group.
        source: Its signature gives names, types and defaults; its docstring the help.
        names: Only these parameters.
        docs: Where the help of a parameter stands if ``source`` has none.
    """
    group = parser.add_argument_group(title)
    hints = get_type_hints(source.__init__ if inspect.isclass(source) else source)
    helps = _helps(docs) | _helps(source) if docs is not None else _helps(source)
    for name, parameter in inspect.signature(source).parameters.items():
        if names is not None and name not in names:
            continue
        kwargs = _kind(hints[name])
        if parameter.default is inspect.Parameter.empty:
            kwargs["required"] = True
        else:
            default = parameter.default
            kwargs["default"] = list(default) if isinstance(default, tuple) else default
        group.add_argument(f"--{name.replace('_', '-')}", help=helps[name], **kwargs)


def pick(
    namespace: Namespace, source: Callable[..., Any], names: Collection[str] | None = None
) -> dict[str, Any]:
    """The parsed values of what :func:`add_options` added, as keyword arguments of ``source``."""
    wanted = inspect.signature(source).parameters if names is None else names
    return {name: namespace[name] for name in wanted}


def _helps(source: Callable[..., Any]) -> dict[str, str]:
    """Help by parameter; one entry may speak of several, and class markup is for the web pages."""
    docstring = parse_docstring(inspect.getdoc(source) or "")
    helps = {}
    for entry in docstring.params:
        text = " ".join((entry.description or "").split()).replace("``", "").replace("%", "%%")
        for name in entry.arg_name.split(", "):
            helps[name] = text
    return helps


def _kind(hint: Any) -> dict[str, Any]:
    """How an option of a type is given: lists and tuples as words, booleans as --name and --no-name."""
    options = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    for option in options:
        if get_origin(option) is list:
            return {"type": get_args(option)[0], "nargs": "+"}
        if get_origin(option) is tuple:
            return {"type": get_args(option)[0], "nargs": len(get_args(option))}
    if hint is bool:
        return {"action": ActionYesNo(yes_prefix="", no_prefix="no-")}
    return {"type": hint}
