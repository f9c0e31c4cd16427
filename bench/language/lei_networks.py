"""What the language and sentiment tables of Lei et al. 2017 share: initial weights."""

from __future__ import annotations

import math
from typing import cast

import torch
from torch import Tensor

from wlkernelnn.sequence import LanguageModel, StringKernelConv


@torch.no_grad()
def release_init(model: torch.nn.Module) -> None:
    """Initial weights as in the authors' release: uniform of variance 1 / (number of inputs), biases 0.

    The inputs of a gate are those of all its products together, but in an LSTM those of each; embeddings
    are vectors of length about 1.
    """
    for module in model.modules():
        if isinstance(module, StringKernelConv):
            gate = list(module.decay.lins)
            inputs = sum(cast(Tensor, lin.weight).size(1) for lin in gate)
            others = [*module.lins, *([] if module.highway is None else [module.highway])]
            for lin in [*gate, *others]:
                weight = cast(Tensor, lin.weight)
                _uniform(weight, inputs if lin in gate else weight.size(1))
                if isinstance(lin.bias, Tensor):
                    lin.bias.zero_()
        elif isinstance(module, torch.nn.LSTM):
            for weight in module.parameters():
                if weight.dim() > 1:
                    _uniform(weight, weight.size(1))
                else:
                    weight.zero_()
        elif isinstance(module, torch.nn.Linear):
            _uniform(module.weight, module.in_features)
            if module.bias is not None:
                module.bias.zero_()
        elif isinstance(module, torch.nn.Embedding) and module.weight.requires_grad:
            _uniform(module.weight, module.embedding_dim)
        elif isinstance(module, LanguageModel) and module.bias is not None:
            module.bias.zero_()


def _uniform(weight: Tensor, inputs: int) -> None:
    bound = math.sqrt(3 / inputs)
    weight.uniform_(-bound, bound)
