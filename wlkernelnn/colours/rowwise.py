"""Which functions and modules compute every row from the same row of their arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.fx import Node
from torch_geometric import nn as pyg

# Functions, operators and methods of tensors, by name: rows of the result are of the same rows.
_ELEMENTWISE = frozenset(
    """
    abs absolute add sub subtract rsub mul multiply div divide true_divide truediv floordiv floor_divide
    mod remainder fmod pow neg negative pos exp exp2 expm1 log log2 log10 log1p sqrt rsqrt square
    reciprocal sign round floor ceil trunc sin cos tan tanh sinh cosh asin acos atan atan2 erf erfc
    sigmoid logit maximum minimum fmax fmin clamp clip clamp_min clamp_max where lerp addcmul addcdiv
    nan_to_num isnan isinf isfinite eq ne lt le gt ge logical_and logical_or logical_not and_ or_ xor
    invert masked_fill relu relu6 leaky_relu elu selu celu gelu silu mish softplus softsign logsigmoid
    hardtanh hardswish hardsigmoid hardshrink softshrink tanhshrink threshold prelu glu dropout
    alpha_dropout one_hot layer_norm rms_norm group_norm float double half bfloat16 int long bool to type
    type_as contiguous clone detach zeros_like ones_like full_like relu_ iadd isub imul itruediv
    ifloordiv imod ipow iand ior ixor
    """.split()  # noqa: SIM905
)
# Those that go along a dimension, and where among their arguments its number stands: rows, if it is not 0.
_ALONG = dict.fromkeys(
    """
    sum mean prod max min amax amin argmax argmin softmax log_softmax logsumexp std var cumsum cumprod
    cat concat stack squeeze unsqueeze unbind select narrow
    """.split(),  # noqa: SIM905
    1,
) | {"norm": 2, "normalize": 2, "chunk": 2, "split": 2}
#: Modules that go along their ``dim``: with −1 by rows where there are more dimensions than that of the rows.
ALONG_DIM = (nn.Softmax, nn.LogSoftmax, nn.Softmin, nn.GLU)
_SEVERAL = {"chunk", "split", "unbind", "max", "min"}
_MODULES = (
    nn.Linear,
    nn.Bilinear,
    nn.Identity,
    nn.Embedding,
    nn.LayerNorm,
    nn.RMSNorm,
    nn.GroupNorm,
    nn.BatchNorm1d,
    nn.modules.dropout._DropoutNd,
    nn.GRUCell,
    nn.LSTMCell,
    nn.RNNCell,
    pyg.Linear,
    pyg.JumpingKnowledge,
    pyg.MessageNorm,
)


def is_rowwise_module(module: nn.Module, declared: tuple[type[nn.Module], ...]) -> bool:
    """Whether a module computes every row from the same row of its inputs, batch norm set aside."""
    if isinstance(module, declared) or _is_encoder(module):
        return True
    if writes_forward(module) or (isinstance(module, nn.Embedding) and module.scale_grad_by_freq):
        return False
    if isinstance(module, _MODULES):
        return True
    if isinstance(module, pyg.BatchNorm):  # SyncBatchNorm may have taken the place of its module
        return is_rowwise_module(module.module, declared)
    if isinstance(module, pyg.LayerNorm):
        return module.mode == "node"
    if isinstance(module, pyg.MLP):
        parts = all(is_rowwise_module(part, declared) for part in [*module.lins, *module.norms])
        return parts and _is_rowwise_activation(module.act, declared)
    if isinstance(module, ALONG_DIM):
        return isinstance(module.dim, int) and (module.dim == -1 or module.dim > 0)
    if isinstance(module, nn.Flatten):
        return module.start_dim == 1
    if isinstance(module, nn.Unflatten):
        return isinstance(module.dim, int) and module.dim > 0
    in_torch = type(module).__module__ == nn.modules.activation.__name__
    return in_torch and not isinstance(module, (nn.MultiheadAttention, nn.RReLU, nn.Softmax2d))


def is_rowwise_container(module: nn.Module) -> bool:
    """Whether all that a module is made of computes every row from the same row."""
    containers = (nn.Sequential, nn.ModuleList, nn.ModuleDict, pyg.Sequential)
    if isinstance(module, containers) and not writes_forward(module):
        return all(map(is_rowwise_container, module.children()))
    return is_rowwise_module(module, ())


def _is_rowwise_activation(act: Any, declared: tuple[type[nn.Module], ...]) -> bool:
    """Whether an activation, a module or a function of torch, is none or computes row by row."""
    if act is None:
        return True
    if isinstance(act, nn.Module):
        return is_rowwise_module(act, declared)
    name = getattr(act, "__name__", "")
    return name in _ELEMENTWISE and act in (getattr(torch, name, None), getattr(nn.functional, name, None))


def writes_forward(module: nn.Module) -> bool:
    """Whether a module has another ``forward`` than those of torch and PyG, such as one of a subclass."""
    library = type(module).forward.__module__.startswith(("torch.nn.", "torch_geometric.nn."))
    return not library or "forward" in vars(module)


def _is_encoder(module: nn.Module) -> bool:
    """Encoders of OGB and of this package: of every node from its own codes or features."""
    return type(module).__module__ in ("ogb.graphproppred.mol_encoder", "wlkernelnn.models.base.encoder")


def is_leaf_module(module: nn.Module, declared: tuple[type[nn.Module], ...]) -> bool:
    """Whether a module is run whole, not looked into."""
    if isinstance(module, (nn.Sequential, pyg.Sequential, pyg.models.basic_gnn.BasicGNN)):
        return False
    library = type(module).__module__.startswith(("torch.nn.", "torch_geometric.nn."))
    return library or isinstance(module, (pyg.MessagePassing, *declared)) or _is_encoder(module)


class ByRows(NamedTuple):
    """How a call is by rows.

    Attributes:
        least_dims: How many dimensions its first argument must have for that.
        several: Whether it returns several values.
        number: Whether it returns what is the same for all rows.
        sizes: Whether a number of rows among its arguments is the first size of what it returns.
        aligned: Whether its arguments are broadcast to the shape of what it returns.
    """

    least_dims: int = 0
    several: bool = False
    number: bool = False
    sizes: bool = False
    aligned: bool = False


def by_rows(node: Node, is_rows: Callable[[Any], bool], is_count: Callable[[Any], bool]) -> ByRows | None:
    """How a call of a function or method is by rows, if it is.

    Args:
        node: The call.
        is_rows: Whether an argument has rows.
        is_count: Whether an argument is the number of rows.
    """
    name = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "")
    args: dict[Any, Any] = dict(enumerate(node.args)) | node.kwargs
    if name == "embedding" and args.get(5, args.get("scale_grad_by_freq")):
        return None  # its gradients count rows
    if name in ("linear", "bilinear", "embedding", "matmul", "mm"):
        weights = args.get(2 if name == "bilinear" else 1, args.get("weight"))
        return ByRows(2 if name == "matmul" else 0) if is_rows(args.get(0)) and not is_rows(weights) else None
    if name in _ELEMENTWISE:
        return ByRows(aligned=name not in ("to", "type_as"))  # whose second argument gives its type alone
    if name == "getitem":
        return _by_index(args[1])
    if name in ("view", "reshape", "expand", "repeat"):
        sizes = list(node.args[1:])
        sizes = list(sizes[0]) if sizes and isinstance(sizes[0], (list, tuple)) else sizes
        if not sizes or any(map(is_count, sizes[1:])):  # there it is a size of something else
            return None
        if name == "repeat":
            kept = sizes[0] == 1
        else:
            kept = is_count(sizes[0]) or (sizes[0] == -1 and (name == "expand" or -1 not in sizes[1:]))
        # With more sizes than dimensions, expand and repeat put new ones before that of the rows.
        return ByRows(len(sizes) if name in ("expand", "repeat") else 0, sizes=True) if kept else None
    if name == "flatten":
        return ByRows() if args.get(1, args.get("start_dim", 0)) == 1 else None
    if name == "dim" or (name == "getattr" and args[1] in ("dtype", "device")):
        return ByRows(number=True)
    if name == "size":
        dim = args.get(1, args.get("dim"))
        by = isinstance(dim, int) and (dim > 0 or dim == -1)
        return ByRows(2 if dim == -1 else 0, number=True) if by else None
    if name not in _ALONG:
        return None
    dim = args.get(_ALONG[name], args.get("dim", args.get("axis")))
    if name in ("max", "min") and is_rows(dim):
        return ByRows(aligned=True)  # the larger of two tensors
    if name == "normalize" and dim is None:
        dim = 1
    dims: list[Any] = list(dim) if isinstance(dim, (list, tuple)) else [dim]
    # Counted from behind, a dimension is that of the rows where there are as few: -2 mostly is.
    added = name in ("stack", "unsqueeze")
    # ``True`` is not a dimension: std and var read it as ``unbiased``.
    if not dims or not all(type(d) is int and (d > 0 or d == -1 or (added and d == -2)) for d in dims):
        return None
    least = max((1 - d for d in dims if d < 0), default=0)
    return ByRows(max(0, least - added), several=name in _SEVERAL)


def _by_index(index: Any) -> ByRows | None:
    """An index is by rows if it takes all of them: ``[:, i]`` or ``[..., i]``."""
    parts = index if isinstance(index, tuple) else (index,)
    if not all(part is None or part is Ellipsis or isinstance(part, (int, slice)) for part in parts):
        return None
    if parts[0] == slice(None):
        return ByRows()
    used = sum(part is not None for part in parts[1:])
    return ByRows(used + 1) if parts[0] is Ellipsis else None
