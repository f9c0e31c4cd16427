"""From the codes or features of nodes to vectors."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import embedding
from torch_geometric.nn import Linear

from wlkernelnn.datasets.graphs.arrays import distinct_rows
from wlkernelnn.datasets.graphs.random_walks import UNITS
from wlkernelnn.ops.autograd import traced
from wlkernelnn.ops.colours import packed_columns
from wlkernelnn.utils.checks import check_count

from .batches import HINT


class CodeEncoder(torch.nn.Module):
    r"""The sum of one embedding per column of integer codes: :math:`W f_v` for one-hot columns :math:`f_v`.

    Columns that are numbers instead of codes follow, in units of 1/255; a linear map of them is added.

    Args:
        dims: Number of values of each column of codes.
        channels: Width of the result.
        num_values: Number of columns that are numbers.

    Shapes:
        - input: int64 ``[N, len(dims) + num_values]``, column i in [0, dims[i]), numbers in [0, 255]
        - output: ``[N, channels]``

    Raises:
        ValueError: ``dims`` is empty or has a number below 1, ``num_values`` is negative, the number of
            columns is another, or codes are no integers.
        IndexError: A code is out of its column's range.
    """

    offsets: Tensor

    def __init__(self, dims: Sequence[int], channels: int, num_values: int = 0) -> None:
        super().__init__()
        self.dims = tuple(dims)
        if not self.dims or min(self.dims) < 1:
            raise ValueError(f"expected at least one column of at least one value, got {list(self.dims)}")
        check_count("num_values", num_values, least=0)
        #: Number of values of each column, numbers included.
        self.column_dims = self.dims + (UNITS + 1,) * num_values
        starts = [0, *accumulate(self.dims[:-1])]
        self.register_buffer("offsets", torch.tensor(starts), persistent=False)
        # One table for all columns: a single gather adds the columns up.
        self.table = torch.nn.EmbeddingBag(sum(self.dims), channels, mode="sum")
        self.values = Linear(num_values, channels, bias=False) if num_values else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        # Each column adds to the variance: scaled so that the sum has variance 1.
        torch.nn.init.normal_(self.table.weight, std=len(self.dims) ** -0.5)
        if self.values is not None:
            self.values.reset_parameters()

    def forward(self, x: Tensor) -> Tensor:
        self.check(x)
        if x.size(0) == 0:
            return self.table.weight.new_zeros(0, self.table.embedding_dim)
        codes, values = x.split([len(self.dims), x.size(1) - len(self.dims)], dim=1)
        rows = codes + self.offsets
        # A bag has no derivative forwards.
        out = embedding(rows, self.table.weight).sum(1) if traced() else self.table(rows)
        return out if self.values is None else out + self.values(values.to(out.dtype) / UNITS)

    def labels(self, x: Tensor) -> np.ndarray:
        """One integer per node, the same for equal codes."""
        self.check(x)
        return packed_columns(list(x.cpu().numpy().T), self.column_dims)

    def check(self, x: Tensor) -> None:
        """Refuse codes of another shape or, where that costs nothing much, out of range."""
        _check_columns("codes", x, len(self.column_dims))
        if x.is_floating_point() or x.is_complex():
            raise ValueError(f"expected integer codes, got x of {x.dtype}")
        if not x.is_cpu or not x.numel() or torch.compiler.is_compiling():
            return
        low, high = x.amin(0).tolist(), x.amax(0).tolist()
        for column, (first, last, dim) in enumerate(zip(low, high, self.column_dims, strict=True)):
            if first < 0 or last >= dim:
                raise IndexError(
                    f"node codes of column {column} are {first} … {last}, expected 0 … {dim - 1}; were they "
                    "made by another featurizer?"
                )

    def __repr__(self) -> str:
        more = "" if self.values is None else f", num_values={self.values.in_channels}"
        return f"{type(self).__name__}({list(self.dims)}, {self.table.embedding_dim}{more})"


class FeatureEncoder(torch.nn.Module):
    r"""A linear map of float features: :math:`W (x_v - \mu) / s + b`.

    Args:
        in_channels: Number of features.
        channels: Width of the result.

    Shapes:
        - input: floats ``[N, in_channels]``
        - output: ``[N, channels]``

    Raises:
        ValueError: ``in_channels`` is not an integer of at least 1, or the features are integers or of
            another width.
    """

    mean: Tensor
    std: Tensor

    def __init__(self, in_channels: int, channels: int) -> None:
        super().__init__()
        self.in_channels = check_count("in_channels", in_channels)
        self.lin = Linear(in_channels, channels)
        self.register_buffer("mean", torch.zeros(in_channels))
        self.register_buffer("std", torch.ones(in_channels))

    def reset_parameters(self) -> None:
        self.lin.reset_parameters()

    def scale(self, rows: Tensor, counts: Tensor) -> None:
        """Take mean and deviation of the features from a data set: of those that go beyond −1 … 1.

        Args:
            rows: ``[A, in_channels]``, different rows of features.
            counts: ``[A]``, how many nodes have each.
        """
        rows, share = rows[counts > 0].double(), counts[counts > 0].double()
        share = (share / share.sum().clamp(min=1)).unsqueeze(1)
        mean = (share * rows).sum(0)
        std = (share * (rows - mean) ** 2).sum(0).sqrt()
        far = (rows.abs() > 1).any(0) & (std > 1e-6 * mean.abs())
        self.mean.copy_(torch.where(far, mean, 0.0))
        self.std.copy_(torch.where(far, std, 1.0))

    def forward(self, x: Tensor) -> Tensor:
        self.check(x)
        return self.lin((x.to(self.lin.weight.dtype) - self.mean) / self.std)

    def labels(self, x: Tensor) -> np.ndarray:
        """One integer per node, the same for equal features."""
        self.check(x)
        x = x.detach().cpu()
        return distinct_rows((x.float() if x.dtype == torch.bfloat16 else x).numpy())[1]

    def check(self, x: Tensor) -> None:
        """Refuse integers and features of another shape."""
        _check_columns("features", x, self.in_channels)
        if not x.is_floating_point():
            raise ValueError(f"expected x of floats (in_channels={self.in_channels}), got {x.dtype}")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.in_channels}, {self.lin.out_channels})"


def _check_columns(what: str, x: Tensor, expected: int) -> None:
    if x.dim() != 2 or x.size(1) != expected:
        hint = "" if x.dim() == 2 else f"; {HINT}"
        raise ValueError(f"expected {what} of shape [N, {expected}], got {list(x.shape)}{hint}")
