"""From integer codes to vectors."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import torch
from torch import Tensor
from torch.nn.functional import embedding

from wlkernelnn.blocks.linear import Linear
from wlkernelnn.datasets.graphs.random_walks import UNITS
from wlkernelnn.ops.autograd import traced
from wlkernelnn.utils.checks import check_count


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

    def check(self, x: Tensor) -> None:
        """Refuse codes of another shape or, where that costs nothing much, out of range."""
        if x.dim() != 2 or x.size(1) != len(self.column_dims):
            raise ValueError(f"expected codes of shape [N, {len(self.column_dims)}], got {list(x.shape)}")
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
