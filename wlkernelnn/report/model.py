"""What a model is, and why it was chosen."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wlkernelnn.machines import LinearMachine, MoleculeMachine
from wlkernelnn.machines.parts import CHOICES
from wlkernelnn.training.molecules.columns import Model
from wlkernelnn.training.molecules.ensemble import Ensemble
from wlkernelnn.training.molecules.joint import JointModel

from .page import number, paragraph, table


def explained(model: Model, report: Mapping[str, Any]) -> str:
    """A paragraph on the model, and the figures by which its parts were chosen."""
    if isinstance(model, JointModel):
        return _joint(model, report)
    if isinstance(model, Ensemble):
        return _networks(model, "valid" in report["counts"])
    return _linear(model) if isinstance(model, LinearMachine) else _machine(model)


def _machine(machine: MoleculeMachine) -> str:
    classifies = machine.about["task"] != "regression"
    landmarks = machine.process_.landmarks_
    text = (
        f"A Gaussian process on {CHOICES[machine.choice_]}: of kernels, descriptors and both, it has the "
        f"least leave-one-out {'log loss' if classifies else 'error'} on the training molecules. "
    )
    if landmarks is not None:
        text += f"There are many molecules, so {len(landmarks):,} of them, drawn, are landmarks. "
    text += (
        "Amplitudes and noise maximise the marginal likelihood; a prediction is a weighted sum over all "
        "training molecules."
    )
    unit = _unit(machine.about["task"])
    rows = [
        (CHOICES[choice], float(error), "chosen" if choice == machine.choice_ else "")
        for choice, error in machine.errors_.items()
    ]
    return paragraph(text) + table(["parts", f"leave-one-out {unit}", ""], rows)


def _unit(task: str) -> str:
    """What the errors are by which parts of a machine were chosen."""
    several = ", mean over the classes, each against all others" if task == "multiclass" else ""
    return "RMSE / standard deviation" if task == "regression" else f"log loss{several}"


def _linear(machine: LinearMachine) -> str:
    classifies = machine.about["task"] != "regression"
    kind = "Logistic" if classifies else "Ridge"
    text = (
        f"{kind} regression on how often a molecule has each Weisfeiler-Lehman colour: the substructures "
        f"within {machine.num_iterations_} bond(s) of an atom. This radius and the penalty have the least "
        "error on training molecules that were left out."
    )
    unit = _unit(machine.about["task"])
    rows = [
        (str(radius), float(error), "chosen" if radius == machine.num_iterations_ else "")
        for radius, error in machine.errors_.items()
    ]
    return paragraph(text) + table(["bonds", unit, ""], rows)


def _networks(ensemble: Ensemble, validated: bool) -> str:
    net, count = ensemble.networks[0], len(ensemble.networks)
    many = (
        f"{count} networks that differ in their seeds, predicting by their mean"
        if count > 1
        else "One network"
    )
    parameters = sum(p.numel() for p in net.parameters())
    kept = "of the epoch with the best validation score" if validated else "of the last epoch"
    text = (
        f"{many}: {type(net).__name__} with {parameters:,} parameters. Of each, the weights {kept} are kept."
    )
    if ensemble.has_distributions:
        text += " Each predicts deviations or quantiles of new measurements."
    if ensemble.recalibration is not None:
        adjusted = "are adjusted to" if ensemble.has_distributions else "of new measurements come from"
        text += f" Deviations {adjusted} the errors of the validation part."
    rows = [(name, str(value)) for name, value in net.config.items() if isinstance(value, int | float | str)]
    details = (
        f"<details><summary>its arguments</summary>{table(['argument', 'value'], rows, text=2)}</details>"
    )
    return paragraph(text) + details


def _joint(model: JointModel, report: Mapping[str, Any]) -> str:
    text = (
        "A machine and networks, weighted by how well each predicts training molecules that it was not "
        "fitted to (five-fold cross-validation)."
    )
    parts = {**report["left_out_parts"], "both": report["left_out"]}
    share = ", ".join(f"{number(each)}" for each in report["share"])
    rows = [(name, each if each is None else float(each)) for name, each in parts.items()]
    return (
        paragraph(text)
        + table(["fitted to others", report["metric"]], rows)
        + paragraph(f"Share of the networks: {share}", soft=True)
        + explained(model.machine, report)
        + _networks(model.ensemble, validated=False)
    )
