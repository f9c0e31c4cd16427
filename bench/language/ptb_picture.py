"""Figure 3 of Lei et al. 2017: variants of λ on the Penn Treebank, ours beside the published ones."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import mean

from matplotlib.figure import Figure

from wlkernelnn.bench.harness.cells import Record, survivors
from wlkernelnn.utils.files import atomic_path

# The variants in the order of the figure, with the perplexities that the text and Table 1 give.
VARIANTS: dict[str, tuple[str, float | None]] = {
    "cnn": ("λ = 0\n(CNN)", None),
    "constant": ("λ = 0.8", 84.3),
    "learned": ("λ learned", 76.8),
    "gated-x": ("λ gated\nby x", None),
    "gated-xh": ("λ gated\nby x and h", 73.6),
}


def draw(records: Sequence[Record], path: Path) -> None:
    """Write a PNG of test perplexities, the mean over the seeds of each variant.

    A variant is there if it was trained by the whole recipe. If fewer than two are, nothing is written.
    """
    found = {name: [run["test_perplexity"] for run in records if _is_whole(run, name)] for name in VARIANTS}
    ours = {name: mean(values) for name, values in found.items() if values}
    if len(ours) < 2:
        return
    figure = Figure(figsize=(6, 3.5), layout="constrained")
    axis = figure.subplots()
    published = [VARIANTS[name][1] for name in ours]
    for values, shift, label in ((list(ours.values()), -0.2, "ours"), (published, 0.2, "Lei et al. 2017")):
        places = [(i + shift, value) for i, value in enumerate(values) if value is not None]
        if places:
            x, heights = zip(*places, strict=True)
            axis.bar_label(axis.bar(x, heights, 0.4, label=label), fmt="%.1f", fontsize=8)
    axis.set_xticks(range(len(ours)), [VARIANTS[name][0] for name in ours])
    every = [*ours.values(), *(value for value in published if value is not None)]
    axis.set(ylabel="test perplexity", ylim=(0.8 * min(every), 1.05 * max(every)))
    axis.legend(fontsize=8)
    with atomic_path(path) as temporary:
        figure.savefig(temporary, format="png", dpi=120)


def _is_whole(run: Record, name: str) -> bool:
    """Whether a run of this variant followed the published recipe to its end."""
    whole = run["recipe"]["epochs"] == run["published_epochs"] and run["stopped"]
    return run["model"] == name and whole and run in survivors([run])
