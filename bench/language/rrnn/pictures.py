"""Pictures of a training of trees: figures 2 to 4 of Qian et al."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from matplotlib.figure import Figure

from wlkernelnn.bench.harness.cells import Record, survivors
from wlkernelnn.sequence.rrnn import Construction, Leaf, Tree, draw_tree, tree_of
from wlkernelnn.utils.files import atomic_path

from .tasks import TASKS

# Nodes at the start, as both models of trees have them.
LEAVES = ("x", "h", "0")


def draw(records: Sequence[Record], path: Path) -> None:
    """Write a PNG of a task: the most common trees early and late, N_e over the epochs, and ∂E_T/∂h_t over t.

    Trees are those of the first model that has some, with its first seed. Without such a model nothing is
    written.
    """
    of_task = [record for record in survivors(records) if record["seed"] == 0]
    grown = next((record for record in of_task if record["common_trees"]), None)
    if grown is None:
        return
    task, common = TASKS[grown["task"]], grown["common_trees"]
    width = max(len(trees) for trees in common.values())
    figure = Figure(figsize=(4.5 * width, 3 * (len(common) + 1)), layout="constrained")
    *of_trees, of_curves = cast(np.ndarray, figure.subfigures(len(common) + 1))
    for panel, (epoch, trees) in zip(of_trees, common.items(), strict=True):
        title = task.models[grown["model"]].title
        panel.suptitle(f"{task.title}, {title}: most common trees after epoch {int(epoch) + 1}")
        for axis, (made, share) in zip(panel.subplots(1, width, squeeze=False)[0], trees, strict=False):
            axis.set_title(f"{100 * share:.1f} %", fontsize=9)
            draw_tree(tree_from(made), axis, fontsize=6)
    changes, gradients = of_curves.subplots(1, 2)
    for record in of_task:
        label = task.models[record["model"]].title
        counted = [(e["epoch"] + 1, e["changed_tuples"]) for e in record["history"] if "changed_tuples" in e]
        if counted:
            changes.plot(*zip(*counted, strict=True), marker=".", label=label)
        norms = record["gradient_norms"]
        gradients.semilogy(range(1, len(norms) + 1), norms, nonpositive="mask", marker=".", label=label)
    changes.set(xlabel="epoch", ylabel="$N_e$")
    if not changes.lines:  # of one epoch there are no changes
        changes.set_axis_off()
    gradients.set(xlabel="t", ylabel=r"$\|\partial E_T / \partial h_t\|$")
    for axis in (changes, gradients):
        axis.xaxis.get_major_locator().set_params(integer=True)
    gradients.legend(fontsize=8)
    with atomic_path(path) as temporary:
        figure.savefig(temporary, format="png", dpi=120)


def tree_from(made: Sequence[Sequence[Any]]) -> Tree:
    """A tree by its constructions, as they are in files; its nodes have no vectors."""
    nothing = torch.empty(0)
    constructions = [Construction(*node) for node in made]
    return tree_of([Leaf(name, nothing) for name in LEAVES], constructions, [nothing] * len(made))
