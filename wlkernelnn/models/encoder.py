"""From integer codes to vectors."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


class CodeEncoder(torch.nn.Module):
    r"""The sum of one embedding per column of integer codes: :math:`W f_v` for one-hot columns :math:`f_v`.

    Args:
        dims: Number of values of each column.
        channels: Width of the result.

    Shapes:
        - input: int64 ``[N, len(dims)]``, column i in [0, dims[i])
        - output: ``[N, channels]``

    Raises:
        ValueError: ``dims`` is empty or has a number below 1, or the number of columns is not ``len(dims)``.
        IndexError: A code is out of its column's range.
    """

    offsets: Tensor

    def __init__(self, dims: Sequence[int], channels: int) -> None:
        super().__init__()
        self.dims = tuple(dims)
        if not self.dims or min(self.dims) < 1:
            raise ValueError(f"expected at least one column of at least one value, got {list(self.dims)}")
        starts = [sum(self.dims[:i]) for i in range(len(self.dims))]
        self.register_buffer("offsets", torch.tensor(starts), persistent=False)
        # One table for all columns: a single gather adds the columns up.
        self.table = torch.nn.EmbeddingBag(sum(self.dims), channels, mode="sum")
        self.reset_parameters()

    def reset_parameters(self) -> None:
        # Each column adds to the variance: scaled so that the sum has variance 1.
        torch.nn.init.normal_(self.table.weight, std=len(self.dims) ** -0.5)

    def forward(self, x: Tensor) -> Tensor:
        self.check(x)
        if x.size(0) == 0:
            return self.table.weight.new_zeros(0, self.table.embedding_dim)
        return self.table(x + self.offsets)

    def check(self, x: Tensor) -> None:
        """Refuse codes of another shape or, where that costs nothing much, out of range."""
        if x.dim() != 2 or x.size(1) != len(self.dims):
            raise ValueError(f"expected codes of shape [N, {len(self.dims)}], got {list(x.shape)}")
        if x.is_cpu and x.numel() and not torch.compiler.is_compiling():
            self._check_range(x)

    def _check_range(self, x: Tensor) -> None:
        high = x.amax(0).tolist()
        low = x.amin(0).tolist()
        for column, (first, last, dim) in enumerate(zip(low, high, self.dims, strict=True)):
            if first < 0 or last >= dim:
                raise IndexError(
                    f"node codes of column {column} are {first} … {last}, expected 0 … {dim - 1}; were they "
                    "made by another featurizer?"
                )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({list(self.dims)}, {self.table.embedding_dim})"
