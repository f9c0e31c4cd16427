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
    matrices = [layer.lin_h.weight[: layer.out_channels] for layer in layers]
    finite = all(bool(matrix.isfinite().all()) for matrix in matrices)
    return {
        "gradient": math.hypot(*parts.values()),
        **parts,
        "state": max(float(c.abs().max()) for c, _ in state),
        "output": h.square().mean().sqrt().item(),
        "recurrent": max(float(torch.linalg.matrix_norm(m, 2)) for m in matrices) if finite else math.inf,
    }


def _norm(values: list[Tensor]) -> float:
    return float(torch.stack(values).norm()) if values else 0.0


@torch.no_grad()
def mean_forget(layer: RKM, x: Tensor, h: Tensor, num_strings: int) -> float:
    """The mean of f over tokens and channels, with whole recurrent weights."""
    if layer.cell.forget != "gate":
        return float(layer.scale_f())
    previous = torch.nn.functional.pad(h, (0, 0, num_strings, 0))[: len(h)]
    part, of_bias = layer.cell.parts.index("forget"), layer.cell.biased.index("forget")
    logits = (layer.lins[0](x) + layer.lin_h(previous)).split(layer.out_channels, 1)[part]
    return torch.sigmoid(logits + layer.bias.split(layer.out_channels)[of_bias]).mean().item()
