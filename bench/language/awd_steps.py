"""What a step of training a language model of RKMs is like: gradients, memories, gates."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from wlkernelnn.sequence import RKM, LanguageModel


@torch.no_grad()
def sizes_of(net: LanguageModel, layers: list[RKM], h: Tensor, state: Any) -> dict[str, float]:
    """Norms of the gradient, whole and by parts, the largest value of a memory, the root mean square of the
    output, and the largest norm of the matrices that take h into a memory.
    """
    norms: dict[str, list[Tensor]] = {"embedding": [], "lins": [], "lin_h": [], "rest": []}
    for name, parameter in net.named_parameters():
        part = next((part for part in norms if part in name.split(".")), "rest")
        if parameter.grad is not None:
            norms[part].append(torch.linalg.vector_norm(parameter.grad))
    parts = {f"gradient_{name}": _norm(values) for name, values in norms.items()}
    matrices = [_recurrent(layer).weight[: layer.out_channels] for layer in layers]
    finite = all(bool(matrix.isfinite().all()) for matrix in matrices)
    return {
        "gradient": math.hypot(*parts.values()),
        **parts,
        "state": max(float(c.abs().max()) for c, _ in state),
        "output": h.square().mean().sqrt().item(),
        "recurrent": max(float(torch.linalg.matrix_norm(m, 2)) for m in matrices) if finite else math.inf,
    }


def summary(steps: list[dict[str, float]]) -> dict[str, dict[str, float]]:
    """The first, last and largest of each number that some of the steps have."""
    names = dict.fromkeys(name for step in steps for name in step)
    columns = {name: [step[name] for step in steps if name in step] for name in names}
    return {
        "first": {name: values[0] for name, values in columns.items()},
        "last": {name: values[-1] for name, values in columns.items()},
        "largest": {name: max(values) for name, values in columns.items()},
    }


def _recurrent(layer: RKM) -> torch.nn.Linear:
    assert layer.lin_h is not None
    return layer.lin_h


def _norm(values: list[Tensor]) -> float:
    return float(torch.stack(values).norm()) if values else 0.0


@torch.no_grad()
def mean_forget(layer: RKM, x: Tensor, h: Tensor, num_strings: int) -> float:
    """The mean of f over tokens and channels, with whole recurrent weights."""
    if layer.scale_f is not None:
        return float(layer.scale_f())
    assert layer.bias is not None
    previous = torch.nn.functional.pad(h, (0, 0, num_strings, 0))[: len(h)]
    part, of_bias = layer.cell.parts.index("forget"), layer.cell.biased.index("forget")
    logits = (layer.lins[0](x) + _recurrent(layer)(previous)).split(layer.out_channels, 1)[part]
    return torch.sigmoid(logits + layer.bias.split(layer.out_channels)[of_bias]).mean().item()
