"""One HTML page in one file: no script, no network; readable on paper, on a phone and in the dark."""

from __future__ import annotations

import html
import logging
import math
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

STYLE = """
:root { color-scheme: light dark; --ink: #1c2430; --soft: #5d6878; --line: #dfe3e9; --back: #ffffff;
  --card: #f6f7f9; --one: #2f6fb2; --two: #d07c16; --three: #2c9068; --bad: #b3372f; }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e8ee; --soft: #9aa6b6; --line: #343c49;
  --back: #14181f; --card: #1d232c; --one: #6fa8e6; --two: #eba24a; --three: #5cc49a; --bad: #ef7d75; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.5rem clamp(1rem, 4vw, 3rem) 4rem; max-width: 76rem; background: var(--back);
  color: var(--ink); font: 16px/1.5 system-ui, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
h1 { font-size: 1.7rem; line-height: 1.2; margin: 0.5rem 0 0.2rem; overflow-wrap: anywhere; }
h2 { font-size: 1.25rem; margin: 2.4rem 0 0.6rem; padding-top: 0.9rem; border-top: 1px solid var(--line); }
h3 { font-size: 1rem; margin: 1.4rem 0 0.4rem; overflow-wrap: anywhere; }
p { margin: 0.4rem 0; max-width: 48rem; overflow-wrap: anywhere; }
.soft, figcaption, th { color: var(--soft); }
nav { font-size: 0.9rem; margin: 0.8rem 0; } nav a { margin-right: 1rem; }
a { color: var(--one); text-decoration: none; } a:hover { text-decoration: underline; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(8.5rem, 1fr)); gap: 0.7rem;
  margin: 1rem 0; }
.tile { background: var(--card); border-radius: 8px; padding: 0.6rem 0.9rem; }
.tile b { display: block; font-size: 1.45rem; line-height: 1.25; font-weight: 600; }
.tile span { font-size: 0.82rem; color: var(--soft); overflow-wrap: anywhere; }
.row { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 19rem), 1fr)); gap: 1rem;
  align-items: start; margin: 0.6rem 0 1rem; }
figure { margin: 0; break-inside: avoid; max-width: 27rem; }
figcaption { font-size: 0.85rem; overflow-wrap: anywhere; }
.wide { overflow-x: auto; margin: 0.6rem 0; }
table { border-collapse: collapse; font-size: 0.9rem; font-variant-numeric: tabular-nums; }
th, td { padding: 0.25rem 0.9rem 0.25rem 0; text-align: left; vertical-align: top; max-width: 32rem;
  overflow-wrap: anywhere; }
td:first-child { overflow-wrap: break-word; }
th { font-weight: 500; border-bottom: 1px solid var(--line); overflow-wrap: normal; }
td { border-bottom: 1px solid var(--line); }
.n { text-align: right; white-space: nowrap; }
pre { background: var(--card); border-radius: 8px; padding: 0.7rem 0.9rem; font-size: 0.82rem;
  white-space: pre-wrap; overflow-wrap: anywhere; }
summary { cursor: pointer; color: var(--one); }
.cards { display: grid; gap: 1rem;
  grid-template-columns: repeat(auto-fill, minmax(min(100%, 15.5rem), 1fr)); }
.card { border: 1px solid var(--line); border-radius: 8px; padding: 0.6rem; break-inside: avoid;
  font-size: 0.85rem; overflow-wrap: anywhere; }
.large { grid-template-columns: repeat(auto-fill, minmax(min(100%, 21rem), 1fr)); }
.legend { display: flex; gap: 0.5rem; align-items: center; }
.colours { flex: 1; height: 0.6rem; border-radius: 3px; border: 1px solid var(--line);
  background: linear-gradient(to right, #00f, #fff, #f00); }
.card:target { outline: 2px solid var(--one); }
.card svg { width: 100%; height: auto; background: #fff; border-radius: 6px; display: block; }
.card hr { border: 0; border-top: 1px solid var(--line); }
.smiles { font-family: ui-monospace, monospace; font-size: 0.75rem; color: var(--soft); }
svg.plot { width: 100%; height: auto; display: block; }
svg.plot text { fill: var(--soft); font: 11px system-ui, "Segoe UI", Roboto, Arial, sans-serif; }
svg.plot .title { fill: var(--ink); font-size: 12px; font-weight: 600; }
.grid { stroke: var(--line); stroke-width: 1; fill: none; }
.even { stroke: var(--soft); stroke-width: 1; stroke-dasharray: 4 3; fill: none; }
.one, .two, .three { fill: none; stroke-width: 1.8; stroke-linejoin: round; }
.one { stroke: var(--one); } .two { stroke: var(--two); } .three { stroke: var(--three); }
.points { stroke-linecap: round; stroke-width: 4.5; stroke-opacity: 0.45; }
.bar { stroke: none; fill-opacity: 0.75; }
.bar.one { fill: var(--one); } .bar.two { fill: var(--two); } .bar.three { fill: var(--three); }
footer { margin-top: 3rem; font-size: 0.85rem; color: var(--soft); }
@media (max-width: 32rem) { .points { stroke-width: 5.5; } }
@media print { :root { color-scheme: light; --ink: #000; --soft: #444; --line: #ccc; --back: #fff;
  --card: #f4f4f4; --one: #2f6fb2; --two: #c26f0c; --three: #2c9068; }
  body { max-width: none; padding: 0; font-size: 10.5pt; }
  nav { display: none; } h2, h3 { break-after: avoid; } * { print-color-adjust: exact; } }
"""


logger = logging.getLogger("wlkernelnn")


def tried(write: Callable[[], Path | None], without: str) -> Path | None:
    """Call what writes a page or a picture; if that fails, ``None``, and a warning: what it shows is safe."""
    try:
        return write()
    except Exception as error:  # whatever it is, it must not end a training that is done
        logger.warning(f"{without}: {type(error).__name__}: {' '.join(str(error).split())}")
        return None


def escaped(value: object) -> str:
    """Text of a user, such that HTML shows it as it is."""
    return html.escape(str(value))


def number(value: float | None) -> str:
    """A score or a target: four digits that count; a dash where there is none."""
    if value is None or not math.isfinite(value):
        return "–"
    text = f"{value:.4g}"
    return f"{value:,.0f}" if "e+" in text and abs(value) < 1e7 else text


def page(title: str, subtitle: str, sections: Iterable[tuple[str, str]], foot: str = "") -> str:
    """The whole page.

    Args:
        title, subtitle: Text, which is escaped.
        sections: The title of each and its HTML; one without a title stands above the others, and one
            without HTML is left out.
        foot: HTML at the end.
    """
    head, links, body = "", [], []
    for name, content in sections:
        if not content:
            continue
        if not name:
            head += content
            continue
        anchor = "-".join(name.lower().split())
        links.append(f'<a href="#{anchor}">{escaped(name)}</a>')
        body.append(f'<section id="{anchor}"><h2>{escaped(name)}</h2>\n{content}</section>')
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escaped(title)}</title><style>{STYLE}</style></head>\n<body><header><h1>{escaped(title)}</h1>"
        f'<p class="soft">{escaped(subtitle)}</p></header>\n{head}\n<nav>{" ".join(links)}</nav>\n'
        + "\n".join(body)
        + f"\n<footer>{foot}</footer></body></html>\n"
    )


def table(columns: Sequence[str], rows: Iterable[Sequence[object]], text: int = 1) -> str:
    """A table; cells are escaped, but for :class:`Html`.

    Args:
        columns: Titles.
        rows: Cells; floats are written as :func:`number` does.
        text: So many columns, from the left, are text; the others stand to the right, as numbers do.
    """

    def line(tag: str, cells: Sequence[object]) -> str:
        kinds = ["" if place < text else ' class="n"' for place in range(len(cells))]
        return "".join(f"<{tag}{kind}>{_cell(cell)}</{tag}>" for kind, cell in zip(kinds, cells, strict=True))

    body = "".join(f"<tr>{line('td', row)}</tr>\n" for row in rows)
    return f'<div class="wide"><table><tr>{line("th", columns)}</tr>\n{body}</table></div>'


class Html(str):
    """Text that is HTML already."""


def _cell(cell: object) -> str:
    if isinstance(cell, Html):
        return cell
    if cell is None or isinstance(cell, float):
        return number(cell)
    return f"{cell:,}" if isinstance(cell, int) else escaped(cell)


def tiles(figures: Iterable[tuple[str, str]]) -> str:
    """Large figures, each with a line of text below."""
    each = (f'<div class="tile"><b>{escaped(n)}</b><span>{escaped(what)}</span></div>' for n, what in figures)
    return f'<div class="tiles">{"".join(each)}</div>'


def figure(svg: str, caption: str = "") -> str:
    """A plot and what it shows; the caption is escaped."""
    return f"<figure>{svg}<figcaption>{escaped(caption)}</figcaption></figure>"


def row(figures: Iterable[str]) -> str:
    """Figures side by side, below each other where the page is narrow."""
    return f'<div class="row">{"".join(figures)}</div>'


def paragraph(text: str, soft: bool = False) -> str:
    """Text, escaped."""
    kind = ' class="soft"' if soft else ""
    return f"<p{kind}>{escaped(text)}</p>\n"
