"""The packed graph store: every graph of a data set in a few flat arrays."""

from __future__ import annotations

import copy
import logging
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric import EdgeIndex
from torch_geometric.data import Data, Dataset

from wlkernelnn.files import read_tensors, write_tensors
from wlkernelnn.ops.wl_colours import wl_colours

from .arrays import Arrays, content_hash, smallest
from .description import Description, Reject
from .packing import packed_arrays, packed_targets

logger = logging.getLogger("wlkernelnn")

FORMAT = "wlkernelnn.PackedGraphs/1"
# What colours in a file mean; to be changed with their definition.
COLOURS = "wl_colours/1"


@dataclass
class _Colours:
    """The colours of all nodes that are known so far.

    Attributes:
        levels: After 0, 1, … iterations, ``[ΣV]`` each.
        stored: They are those of the store's file.
        claim: Of which graphs they are, as the file says it (see :meth:`PackedGraphs._colours_origin`), until
            that has been checked.
    """

    levels: list[np.ndarray] = field(default_factory=list)
    stored: bool = False
    claim: str | None = None


def sorted_edge_index(
    edge_index: Tensor, indptr: Tensor, is_undirected: bool = False, sized: bool = False
) -> EdgeIndex:
    """An :class:`EdgeIndex` sorted by target whose pointers ``indptr [N+1]`` are known already.

    The one place that sets them. PyG takes the largest number on either side for the last node. Where that
    is wrong there is a ``sparse_size``, elsewhere only if it is asked for (batches that PyG makes of such
    graphs need it): with one ``torch.compile`` compiles once per graph size.
    """
    size = indptr.numel() - 1
    if not sized:
        sized = size == 0 or bool(indptr[-1] == indptr[-2])
        sized = sized or (not is_undirected and int(edge_index[0].max()) < size - 1)
    result = EdgeIndex(
        edge_index,
        sparse_size=(size, size) if sized else (None, None),
        sort_order="col",
        is_undirected=is_undirected,
    )
    result._indptr = indptr
    return result


class PackedGraphs(Dataset):
    r"""Graphs with discrete node and edge codes in flat arrays, about 260 bytes for a 28-atom molecule.

    A PyG ``Dataset``: ``data[i]`` is a ``Data``; a slice, mask, list or index tensor gives a view on the
    same arrays. :class:`~wlkernelnn.datasets.PackedLoader` makes batches without Python per graph.

    Args:
        arrays: The flat tensors.
        description: What they mean.
        split_idx: ``{"train": …, "valid": …, "test": …}`` index arrays, if the set has a split.
        rejects: Rows of the input that gave no graph. They belong to the whole set: a view has none.

    Raises:
        ValueError: The arrays contradict each other, or ``split_idx`` has graphs that are not there.
    """

    def __init__(
        self,
        arrays: Arrays,
        description: Description | None = None,
        split_idx: dict[str, np.ndarray] | None = None,
        rejects: Sequence[Reject] = (),
    ) -> None:
        super().__init__()
        self.arrays = arrays
        self.description = description or Description()
        self.split_idx = split_idx
        self.rejects = list(rejects)
        self._path: str | None = None
        self._stamp: tuple[int, int] | None = None
        self._colours = _Colours()  # shared by all views
        self._check()

    def _check(self) -> None:
        a = self.arrays
        num_graphs = a.node_ptr.numel() - 1
        if a.graph_x.size(1) != self.description.num_graph_values:
            raise ValueError(
                f"PackedGraphs: graph_x has {a.graph_x.size(1)} columns, expected num_graph_values = "
                f"{self.description.num_graph_values}"
            )
        expected = {
            "edge_ptr": (a.edge_ptr.numel(), num_graphs + 1),
            "node_type": (a.node_type.numel(), int(a.node_ptr[-1])),
            "in_degree": (a.in_degree.numel(), int(a.node_ptr[-1])),
            "source": (a.source.numel(), int(a.edge_ptr[-1])),
            "edge_type": (a.edge_type.numel(), int(a.edge_ptr[-1])),
            "y": (a.y.size(0), num_graphs),
            "row": (a.row.numel(), num_graphs),
            "graph_x": (a.graph_x.size(0), num_graphs if self.description.num_graph_values else 0),
        }
        if names := self.description.target_names:
            expected["target_names"] = (len(names), a.y.size(1))
        for name, (came, wanted) in expected.items():
            if came != wanted:
                raise ValueError(f"PackedGraphs: {name} has {came} entries, expected {wanted}")
        if self.description.task == "classification":
            wrong = torch.nonzero((a.y != 0) & (a.y != 1) & ~a.y.isnan())
            if len(wrong):
                graph, target = wrong[0].tolist()
                raise ValueError(
                    "PackedGraphs: targets of a classification must be 0, 1 or NaN, got "
                    f"{a.y[graph, target]:g} for graph {graph}"
                )
        for part, index in (self.split_idx or {}).items():
            index = np.asarray(index)
            if index.size and (
                index.dtype.kind not in "iu" or not 0 <= index.min() <= index.max() < num_graphs
            ):
                raise ValueError(
                    f"PackedGraphs: split_idx[{part!r}] must hold positions from 0 to {num_graphs - 1}, got "
                    f"{index.dtype} {index.min()} … {index.max()}"
                )

    @classmethod
    def pack(
        cls,
        x: np.ndarray,
        edge_index: np.ndarray,
        node_ptr: np.ndarray,
        edge_ptr: np.ndarray,
        *,
        edge_type: np.ndarray | None = None,
        y: np.ndarray | None = None,
        row: np.ndarray | None = None,
        smiles: Sequence[str] | None = None,
        graph_x: np.ndarray | None = None,
        description: Description | None = None,
        split_idx: dict[str, np.ndarray] | None = None,
    ) -> PackedGraphs:
        """Pack plain arrays.

        Args:
            x: Node codes, non-negative integers ``[ΣV, F]``, and behind them the numbers of
                ``description.num_node_values``, if there are any.
            edge_index: ``[2, ΣE]`` source and target, counted inside each graph, in any order.
            node_ptr, edge_ptr: ``[G+1]`` where each graph begins.
            edge_type: Edge codes ``[ΣE]``, default all 0.
            y: Targets ``[G, tasks]``, NaN = missing; default no tasks.
            row: Input row of each graph, default 0 … G−1.
            smiles: One string per graph.
            graph_x: Features of whole graphs, counts from 0 to 255 or numbers (of a floating-point type),
                ``[G, num_graph_values]``.
            description: What the codes and targets mean.
            split_idx: Graphs of ``"train"``, ``"valid"`` and ``"test"``, if there is a split.

        Raises:
            ValueError: A code is no non-negative integer or none of the description's, a target or a feature
                of a graph does not fit, an edge leaves its graph, a split has graphs that are not there, or
                shapes contradict each other.
        """
        about = description or Description()
        arrays, is_undirected = packed_arrays(
            about,
            x,
            edge_index,
            node_ptr,
            edge_ptr,
            edge_type=edge_type,
            y=y,
            row=row,
            smiles=smiles,
            graph_x=graph_x,
        )
        about = replace(about, is_undirected=is_undirected, num_graph_values=arrays.graph_x.size(1))
        return cls(arrays, about, split_idx)

    # A view keeps the arrays and an index of graphs; the arrays themselves are never copied.

    @property
    def index(self) -> np.ndarray:
        """int64 ``[len(self)]``: the graphs of the arrays that this view holds."""
        if self._indices is None:
            return np.arange(self.arrays.node_ptr.numel() - 1)
        return np.asarray(self._indices, dtype=np.int64)

    def len(self) -> int:
        return self.arrays.node_ptr.numel() - 1

    def index_select(self, idx: Any) -> PackedGraphs:
        if isinstance(idx, Tensor):
            idx = idx.cpu().numpy()
        elif isinstance(idx, tuple):
            idx = list(idx)
        elif isinstance(idx, slice):
            # Shares of a data set, as elsewhere in PyG: data[:0.8].
            begin, end = (round(x * len(self)) if isinstance(x, float) else x for x in (idx.start, idx.stop))
            idx = slice(begin, end, idx.step)
        view = copy.copy(self)
        view._indices = np.ascontiguousarray(self.index[idx])  # torch knows no negative strides
        view.split_idx = None
        view.rejects = []
        return view

    def get(self, idx: int) -> Data:
        a = self.arrays
        n0, n1 = a.node_ptr[idx : idx + 2].tolist()
        e0, e1 = a.edge_ptr[idx : idx + 2].tolist()
        degree = a.in_degree[n0:n1].long()
        target = torch.arange(n1 - n0).repeat_interleave(degree)
        indptr = torch.nn.functional.pad(degree.cumsum(0), (1, 0))
        data = Data(
            x=a.node_table[a.node_type[n0:n1].long()].long(),
            edge_index=sorted_edge_index(
                torch.stack([a.source[e0:e1].long(), target]),
                indptr,
                self.description.is_undirected,
                sized=True,
            ),
            edge_type=a.edge_type[e0:e1].long(),
            y=a.y[idx : idx + 1].clone(),
        )
        if a.smiles_ptr.numel():
            data.smiles = self._smiles_of(idx)
        if self.description.num_graph_values:
            data.graph_x = a.graph_x[idx : idx + 1].clone()
        return data

    def _smiles_of(self, idx: int) -> str:
        begin, end = self.arrays.smiles_ptr[idx : idx + 2].tolist()
        return bytes(self.arrays.smiles[begin:end].numpy()).decode()

    @property
    def y(self) -> Tensor:
        """Targets of the graphs in view, float32 ``[len(self), tasks]``, NaN where missing: a copy.

        :meth:`with_targets` gives the graphs others.
        """
        return self.arrays.y[torch.from_numpy(self.index)]

    @property
    def row(self) -> Tensor:
        """Input rows of the graphs in view, int64 ``[len(self)]``: a copy."""
        return self.arrays.row[torch.from_numpy(self.index)]

    @property
    def smiles(self) -> list[str]:
        """SMILES of the graphs in view, as they came; empty for graphs that are not molecules."""
        if not self.arrays.smiles_ptr.numel():
            return []
        return [self._smiles_of(int(i)) for i in self.index]

    @property
    def num_nodes_per_graph(self) -> np.ndarray:
        """int64 ``[len(self)]``."""
        return np.diff(self.arrays.node_ptr.numpy())[self.index]

    def colours(self, depth: int) -> list[np.ndarray]:
        """Weisfeiler-Lehman colours of the nodes of all graphs of the arrays (not only of a view).

        Computed when first asked for (about 0.1 s for 30,000 molecules) and kept, also by :meth:`save`.

        Args:
            depth: Number of iterations, over edges with their codes.

        Returns:
            ``depth + 1`` arrays ``[ΣV]`` of the smallest integer types that fit, not to be written to; see
            :func:`~wlkernelnn.ops.wl_colours.wl_colours`.
        """
        levels = [level.view() for level in self._levels(depth)]
        for level in levels:
            level.flags.writeable = False
        return levels

    def _levels(self, depth: int) -> list[np.ndarray]:
        known = self._colours
        if known.claim is not None:
            if known.claim != self._colours_origin():
                logger.warning(f"{self._path}: the file's colours are not those of its graphs: made anew")
                known.levels = []
            known.claim = None
        if len(known.levels) <= depth:
            a = self.arrays
            num_nodes, num_edges = a.node_ptr.diff().numpy(), a.edge_ptr.diff().numpy()
            first = np.repeat(a.node_ptr.numpy()[:-1], num_edges)
            levels = wl_colours(
                a.node_type.numpy(),
                a.source.numpy() + first,
                np.repeat(np.arange(num_nodes.sum()), a.in_degree.numpy()),
                depth,
                a.edge_type.numpy(),
            )
            known.levels, known.stored = [smallest(level).numpy() for level in levels], False
        return known.levels[: depth + 1]

    def _colours_origin(self) -> str:
        """SHA-256 of all that the colours depend on."""
        a = self.arrays
        return content_hash(COLOURS, a.node_type, a.source, a.in_degree, a.edge_type, a.node_ptr, a.edge_ptr)

    def digest(self) -> str:
        """SHA-256 of which graphs of which arrays are in view, with their features and targets."""
        a, index = self.arrays, torch.from_numpy(self.index)
        graphs = (a.node_table, a.node_type, a.node_ptr, a.source, a.in_degree, a.edge_type, a.graph_x)
        return content_hash(self.description.features, index, *graphs, self.y)

    @property
    def task(self) -> str | None:
        return self.description.task

    @property
    def metric(self) -> str | None:
        return self.description.metric

    @property
    def num_tasks(self) -> int:
        return self.arrays.y.size(1)

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return sum(t.numel() * t.element_size() for t in vars(self.arrays).values())

    def with_targets(self, y: np.ndarray | Tensor, **description: Any) -> PackedGraphs:
        """The same graphs (all of them, not a view) with other targets ``[G]`` or ``[G, tasks]``.

        Args:
            y: The targets.
            description: What else changes of the :class:`Description`, such as ``target_names``, which are
                forgotten where there are not as many as targets.

        Raises:
            ValueError: There are not as many targets as graphs, or one is beyond a float32.
        """
        targets = packed_targets(y, self.len())
        about = replace(self.description, **description)
        if "target_names" not in description and len(about.target_names) != targets.size(1):
            about = replace(about, target_names=())
        return PackedGraphs(replace(self.arrays, y=targets), about, self.split_idx, self.rejects)

    # Files

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write all arrays (not just a view), and the colours known so far, into one safetensors file,
        atomically."""
        tensors: dict[str, Tensor] = dict(vars(self.arrays))
        for name, index in (self.split_idx or {}).items():
            tensors[f"split.{name}"] = torch.as_tensor(index)
        colours = self._levels(len(self._colours.levels) - 1) if self._colours.levels else []
        for level, colour in enumerate(colours):
            tensors[f"colours.{level}"] = torch.from_numpy(colour)
        # What stood in a rejected row can be anything; JSON knows strings, numbers and null.
        rejects = [
            (int(row), value if value is None or isinstance(value, (str, float)) else str(value), reason)
            for row, value, reason in self.rejects
        ]
        header = {
            "format": FORMAT,
            "description": asdict(self.description),
            "splits": list(self.split_idx or ()),
            "rejects": rejects,
            "colours": {"levels": len(colours), "origin": self._colours_origin() if colours else ""},
        }
        write_tensors(path, tensors, header)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> PackedGraphs:
        """Open a saved store; the arrays are memory-mapped.

        Raises:
            FileNotFoundError: There is no such file.
            ValueError: The file is damaged or holds something else.
        """
        tensors, header = read_tensors(path)
        if header.get("format") != FORMAT:
            raise ValueError(f"{path}: expected a file of format {FORMAT}, got {header.get('format')!r}")
        try:
            split_idx = {name: tensors.pop(f"split.{name}").numpy() for name in header["splits"]}
            # Files of earlier versions have none.
            about = header.get("colours", {"levels": 0, "origin": ""})
            levels = [tensors.pop(f"colours.{level}").numpy() for level in range(about["levels"])]
            fields = dict(header["description"])
            for name in ("node_dims", "target_names"):
                fields[name] = tuple(fields[name])
            rejects = [Reject(*reject) for reject in header["rejects"]]
            result = cls(Arrays(**tensors), Description(**fields), split_idx or None, rejects)
        except (KeyError, TypeError) as error:
            raise ValueError(f"{path}: not as {FORMAT} says ({type(error).__name__}: {error})") from error
        for number, level in enumerate(levels):
            if len(level) != len(result.arrays.node_type):
                raise ValueError(
                    f"{path}: not as {FORMAT} says (colours.{number} has {len(level)} entries, expected "
                    f"{len(result.arrays.node_type)})"
                )
        result._colours = _Colours(levels, stored=bool(levels), claim=about["origin"] if levels else None)
        result._path, result._stamp = os.path.abspath(path), _stamp(path)
        return result

    def __copy__(self) -> PackedGraphs:
        # A mapped file is not opened again, as it is for another process.
        result = object.__new__(type(self))
        result.__dict__.update(self.__dict__)
        return result

    def __reduce__(self) -> Any:
        # A mapped store travels to another process as its path, not as its bytes.
        if self._path is None:
            return super().__reduce__()
        of_file = {"arrays"} | ({"_colours"} if self._colours.stored else set())
        changed = {name: value for name, value in self.__dict__.items() if name not in of_file}
        return _reopen, (self._path, changed)


def _stamp(path: str | os.PathLike[str]) -> tuple[int, int]:
    """What changes where another file takes the place of this one."""
    about = os.stat(path)
    return about.st_size, about.st_mtime_ns


def _reopen(path: str, changed: dict[str, Any]) -> PackedGraphs:
    data = PackedGraphs.load(path)
    if data._stamp != changed["_stamp"]:
        raise ValueError(f"{path}: another file than the one that was opened: load it anew")
    data.__dict__.update(changed)
    return data
