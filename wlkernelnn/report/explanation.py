"""The page of an explanation: a table of molecules, and drawings with what each atom adds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from pandas.api.types import is_numeric_dtype

from wlkernelnn.datasets import PackedGraphs
from wlkernelnn.utils.files import write_text

from .molecules import MOST_ATOMS, inline
from .page import Html, escaped, number, page, paragraph, table
from .repeat import dated

#: So many molecules stand in the table.
MOST_ROWS = 500
_COLUMNS = ("prediction", "atoms", "descriptors", "networks", "mean", "nearest_1_similarity")
_TITLES = {"nearest_1_similarity": "nearest similarity"}
_LEGEND = '<div class="legend"><span>{low}</span><span class="colours"></span><span>{high}</span></div>'


def write_explanation_page(
    path: Path,
    data: PackedGraphs,
    names: Sequence[str],
    molecules: pd.DataFrame,
    drawings: Mapping[int, Sequence[str]],
    largest: np.ndarray,
    model_path: str,
    classifies: bool,
) -> Path:
    """Write the page.

    Args:
        path: Of the page.
        data: The molecules.
        names: Of the targets.
        molecules: A row for each molecule and target: ``row``, ``smiles``, ``target``, ``prediction`` and, of
            machines, the parts of its sum, see ``wlkernelnn explain``.
        drawings: SVG of some molecules, by their places in ``data``, for each target.
        largest: What the strongest colour of each drawing stands for, ``[drawn, T]``.
        model_path: The run folder.
        classifies: Contributions are in log-odds.
    """
    drawn = {int(data.row[place]) + 1 for place in drawings}
    shown = molecules.head(MOST_ROWS)
    columns = [name for name in _COLUMNS if name in shown]
    several = ["target"] if len(names) > 1 else []
    rows = [
        [_link(int(row), int(row) in drawn), Html(f'<span class="smiles">{escaped(smiles)}</span>'), *rest]
        for row, smiles, *rest in shown[["row", "smiles", *several, *columns]].itertuples(index=False)
    ]
    titles = ["row", "SMILES", *several, *(_TITLES.get(name, name) for name in columns)]
    overview = table(titles, rows, text=2 + len(several))
    if len(molecules) > len(shown):
        overview += paragraph(
            f"The first {MOST_ROWS:,} of {len(molecules):,} rows: see molecules.csv.", soft=True
        )
    if "atoms" in columns:
        what = "atoms + descriptors + mean" + (" + networks" if "networks" in columns else "")
        unit = " (all in log-odds)" if classifies else ""
        overview = paragraph(f"Each prediction is the sum {what}{unit}.") + overview
    elif "prediction" in columns and classifies and is_numeric_dtype(molecules["prediction"]):
        overview = (
            paragraph("Predictions are probabilities of class 1; contributions are log-odds.") + overview
        )
    cards = "".join(
        _card(data, place, names, svgs, most)
        for (place, svgs), most in zip(drawings.items(), largest, strict=True)
    )
    intro = (
        "Red atoms add to the prediction, blue ones take from it. Each bar says what the strongest colours "
        "of its molecule stand for; numbers stand beside atoms with at least a quarter of that."
    )
    sections = [
        ("Molecules", overview),
        ("Drawings", paragraph(intro) + f'<div class="cards large">{cards}</div>' if cards else ""),
    ]
    title = f"Why {', '.join(names[:3])}{' …' if len(names) > 3 else ''}: {data.description.name}"
    foot = paragraph(f"{len(data):,} molecules, {len(data.rejects):,} rows rejected; model: {model_path}")
    write_text(path, page(title, dated(), sections, foot))
    return path


def _link(row: int, drawn: bool) -> Html:
    return Html(f'<a href="#row-{row}">{row:,}</a>' if drawn else f"{row:,}")


def _card(
    data: PackedGraphs, place: int, names: Sequence[str], svgs: Sequence[str], largest: np.ndarray
) -> str:
    smiles, row = data.smiles[place], int(data.row[place]) + 1
    html = f'<div class="card" id="row-{row}"><b>row {row:,}</b><div class="smiles">{escaped(smiles)}</div>'
    for name, svg, most in zip(names, svgs, largest.tolist(), strict=True):
        legend = _LEGEND.format(low=number(-most), high=number(most))
        picture = inline(svg) if svg.count("class='bond-") < 8 * MOST_ATOMS else ""
        html += f"{escaped(name)}{picture}{legend}"
    return html + "</div>"
