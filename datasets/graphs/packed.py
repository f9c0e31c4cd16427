"""The packed graph store: every graph of a data set in a few flat arrays."""

from __future__ import annotations

import copy
import os
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

from wlkernelnn.datasets.files.rejects import Change, Reject, is_missing
from wlkernelnn.datasets.files.targets import kept_by_float32
from wlkernelnn.utils.files import read_tensors, understood, write_tensors

from .arrays import Arrays, arrays_of, check_arrays, content_hash, positions_of
from .colours import Colours
from .description import SEVERAL_CLASSES, Description
from .packing import Packable, packed_bounds, packed_targets
from .pyg import ItemOf, note_item

FORMAT = "wlkernelnn.PackedGraphs/1"


class PackedGraphs(Packable):
    r"""Graphs with discrete node and edge codes in flat arrays, about 260 bytes for a 28-atom molecule.

    A PyG ``Dataset``: ``data[i]`` is a ``Data``; a slice, mask, list or index tensor gives a view on the
    same arrays. :class:`~wlkernelnn.datasets.PackedLoader` makes batches without Python per graph.

    Args:
        arrays: The flat tensors.
        description: What they mean.
        split_idx: ``{"train": …, "valid": …, "test": …}`` index arrays, if the set has a split.
        rejects: Rows of the input that gave no graph. They belong to the whole set: a view has none.
        changes: Molecules that standardisation changed, which belong to the whole set too.

    Raises:
        ValueError: The arrays contradict each other, or ``split_idx`` has graphs that are not there.
    """

    def __init__(
        self,
        arrays: Arrays,
        description: Description | None = None,
        split_idx: dict[str, np.ndarray] | None = None,
        rejects: Sequence[Reject] = (),
        changes: Sequence[Change] = (),
    ) -> None:
        super().__init__()
        self.arrays = arrays
        self.description = description or Description()
        self.split_idx = split_idx
        self.rejects = list(rejects)
        self.changes = list(changes)
        self._path: str | None = None
        self._stamp: tuple[int, int] | None = None
        self._colours = Colours()  # shared by all views
        self._learned: Tensor | None = None
        check_arrays(arrays, self.description)
        for part, index in (split_idx or {}).items():
            index = np.asarray(index)
            within = not index.size or 0 <= index.min() <= index.max() < self.len()
            if not within or (index.size and index.dtype.kind not in "iu"):
                raise ValueError(
                    f"PackedGraphs: split_idx[{part!r}] must hold positions from 0 to {self.len() - 1}, got "
                    f"{index.dtype} {index.min()} … {index.max()}"
                )

    # A view keeps the arrays and an index of graphs; the arrays themselves are never copied.

    @property
    def index(self) -> np.ndarray:
        """int64 ``[len(self)]``: the graphs of the arrays that this view holds."""
        if self._indices is None:
            return np.arange(self.arrays.node_ptr.numel() - 1)
        return np.asarray(self._indices, dtype=np.int64)

    @property
    def whole(self) -> bool:
        """Whether these are all graphs of the arrays, in their order, and not a view of some."""
        return self._indices is None or np.array_equal(self.index, np.arange(self.len()))

    def len(self) -> int:
        return self.arrays.node_ptr.numel() - 1

    def index_select(self, idx: Any) -> PackedGraphs:
        if isinstance(idx, Tensor):
            idx = idx.cpu().numpy()
        elif isinstance(idx, tuple):
            idx = list(idx)
        elif isinstance(idx, slice):
            idx = positions_of(len(self), idx)
        index = self.index[idx]
        if index.ndim != 1:
            expected = "a slice, a mask or a list of graphs"
            raise IndexError(f"expected {expected}, got an index of shape {index.shape}")
        view = copy.copy(self)
        view._indices = index.copy()  # torch knows no negative strides
        view.split_idx = None
        view.rejects, view.changes = [], []
        return view

    def get(self, idx: int) -> Data:
        a = self.arrays
        n0, n1 = a.node_ptr[idx : idx + 2].tolist()
        e0, e1 = a.edge_ptr[idx : idx + 2].tolist()
        target = torch.arange(n1 - n0).repeat_interleave(a.in_degree[n0:n1].long())
        x = a.node_table[a.node_type[n0:n1].long()]
        data = Data(
            x=x if x.is_floating_point() else x.long(),
            # A plain tensor: PyG puts no EdgeIndex without edges into a batch, and some transforms take none.
            edge_index=torch.stack([a.source[e0:e1].long(), target]),
            edge_type=a.edge_type[e0:e1].long(),
            y=self.all_y[idx : idx + 1].clone(),
        )
        if a.smiles_ptr.numel():
            data.smiles = self._smiles_of(idx)
        if self.description.num_graph_values:
            data.graph_x = a.graph_x[idx : idx + 1].clone()
        if a.censored.numel():
            data.censored = a.censored[idx : idx + 1].clone()
        # A list of such items, which scikit-learn makes, is read as the store.
        of = ItemOf(
            self.description.features,
            x.size(1),
            self.description.edge_values,
            self.description.node_dims,
            self.description.num_node_values,
            self.description.num_edge_types,
            self.description.task,
            self.description.classes,
        )
        return note_item(data, of)

    def _smiles_of(self, idx: int) -> str:
        begin, end = self.arrays.smiles_ptr[idx : idx + 2].tolist()
        return bytes(self.arrays.smiles[begin:end].numpy()).decode()

    @property
    def y(self) -> Tensor:
        """Targets of the graphs in view to learn from, ``[len(self), tasks]``, NaN where missing: a copy.

        They are float32, unless that rounds a target by more than 1/10,000 of its standard deviation: then
        float64.
        """
        return self.all_y[torch.from_numpy(self.index)]

    @property
    def all_y(self) -> Tensor:
        """:attr:`y` of all graphs of the arrays, not a copy."""
        if self._learned is None:
            y = self.arrays.y
            fits = y.dtype == torch.float32 or kept_by_float32(y.numpy()).all()
            self._learned = y.float() if fits else y
        return self._learned

    @property
    def measured(self) -> Tensor:
        """Targets of the graphs in view as they were given, float64 ``[len(self), tasks]``: a copy. NaN where
        one is missing, or a bound.
        """
        y, sides = self.arrays.y[torch.from_numpy(self.index)].double(), self.censored
        return y if sides is None else y.masked_fill(sides != 0, torch.nan)

    @property
    def censored(self) -> Tensor | None:
        """Which targets of the graphs in view are bounds, int8 ``[len(self), tasks]``: 1 a lower one, −1 an
        upper one; ``None`` without any.
        """
        sides = self.arrays.censored
        return sides[torch.from_numpy(self.index)] if sides.numel() else None

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
            :func:`~wlkernelnn.ops.colours.wl_colours`.
        """
        levels = [level.view() for level in self._colours.upto(depth, self.arrays)]
        for level in levels:
            level.flags.writeable = False
        return levels

    def digest(self) -> str:
        """SHA-256 of which graphs of which arrays are in view, with their features and targets."""
        a, index = self.arrays, torch.from_numpy(self.index)
        graphs = (a.node_table, a.node_type, a.node_ptr, a.source, a.in_degree, a.edge_type, a.graph_x)
        sides = () if self.censored is None else (self.censored,)
        about, rows = self.description.features, self.description.numbered_edges
        if rows:  # what codes of edges stand for
            about += str(np.array(rows, dtype=np.float64).tolist())
        return content_hash(about, index, *graphs, self.y, *sides)

    @property
    def task(self) -> str | None:
        """What the targets are, ``"regression"`` for example; None where nothing says it."""
        return self.description.task

    @property
    def metric(self) -> str | None:
        """The metric of a published set, ``"rmse"`` for example; None for others."""
        return self.description.metric

    @property
    def num_tasks(self) -> int:
        """The number of targets, columns of ``y``."""
        return self.arrays.y.size(1)

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes of a target with several: by default their numbers, 0, 1, …"""
        if self.task not in SEVERAL_CLASSES or self.description.classes:
            return self.description.classes
        return tuple(map(str, range(int(self.arrays.y.nan_to_num(0.0).max()) + 1)))

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return sum(t.numel() * t.element_size() for t in vars(self.arrays).values())

    def with_targets(
        self, y: np.ndarray | Tensor, censored: np.ndarray | None = None, **description: Any
    ) -> PackedGraphs:
        """The same graphs with other targets ``[G]`` or ``[G, tasks]``.

        Args:
            y: The targets.
            censored: Which of them are bounds: 1 lower, −1 upper ones, ``[G, tasks]``; default none.
            description: What else changes of the :class:`Description`, such as ``target_names``, which are
                forgotten where there are not as many as targets. Names of classes are forgotten unless given.

        Raises:
            ValueError: There are not as many targets as graphs, or not as many bounds as targets, a target is
                beyond a float32, or this is a view, whose graphs have the targets of the arrays:
                :meth:`compact` makes a store of it.
        """
        targets = packed_targets(y, self.len())
        if not self.whole:
            raise ValueError("with_targets needs a store, and this is a view of one: call compact() before")
        about = replace(self.description, **{"classes": (), **description})
        if "target_names" not in description and len(about.target_names) != targets.size(1):
            about = replace(about, target_names=())
        arrays = replace(self.arrays, y=targets, censored=packed_bounds(censored, targets))
        result = PackedGraphs(arrays, about, self.split_idx, self.rejects, self.changes)
        result.transform, result._colours = self.transform, self._colours
        return result

    def compact(self) -> PackedGraphs:
        """A store of the graphs in view alone, without a split."""
        result = PackedGraphs(arrays_of(self.arrays, self.index), self.description)
        result.transform = self.transform
        return result

    # Files

    def save(self, path: str | os.PathLike[str], key: str = "") -> str:
        """Write all arrays, not just a view, and the known colours into one safetensors file, atomically.

        Args:
            path: The file.
            key: What the file is of, for the cache.

        Returns:
            SHA-256 of the content, which the file holds too.
        """
        tensors: dict[str, Tensor] = dict(vars(self.arrays))
        for name, index in (self.split_idx or {}).items():
            tensors[f"split.{name}"] = torch.as_tensor(index)
        colours, about_colours = self._colours.to_file(self.arrays)
        header = {
            "format": FORMAT,
            "description": asdict(self.description),
            "splits": list(self.split_idx or ()),
            # What stood in a rejected row can be anything; JSON knows strings, numbers and null.
            "rejects": [(int(row), _for_json(value), reason) for row, value, reason in self.rejects],
            "changes": self.changes,
            "colours": about_colours,
            "key": key,
        }
        return write_tensors(path, tensors | colours, header)

    @classmethod
    def load(
        cls, path: str | os.PathLike[str], digest: str | None = None, key: str | None = None
    ) -> PackedGraphs:
        """Open a saved store; the arrays are memory-mapped.

        Args:
            path: The file. It is read once, to see that it is what was written.
            digest: What :meth:`save` returned: another file is refused.
            key: Refuse a file of another key.

        Raises:
            FileNotFoundError: The file does not exist.
            ValueError: The file is damaged or holds something else.
        """
        return cls._load(path, *read_tensors(path, digest), key)

    @classmethod
    def _load(
        cls,
        path: str | os.PathLike[str],
        tensors: dict[str, Tensor],
        header: dict[str, Any],
        key: str | None = None,
    ) -> PackedGraphs:
        if key is not None and header.get("key") != key:
            what = "holds another set than its name says" if "key" in header else "is of an earlier version"
            raise ValueError(f"{path}: {what}")
        if header.get("format") != FORMAT:
            raise ValueError(f"{path}: expected a file of format {FORMAT}, got {header.get('format')!r}")
        with understood(path, f"{FORMAT} says"):
            split_idx = {name: tensors.pop(f"split.{name}").numpy() for name in header["splits"]}
            # Files of earlier versions have none.
            colours = Colours.from_file(tensors, header.get("colours", {"levels": 0}), os.path.abspath(path))
            description = Description.from_json(header["description"])
            rejects = [Reject(*reject) for reject in header["rejects"]]
            changes = [
                Change(row, before, after, tuple(steps))
                for row, before, after, steps in header.get("changes", ())
            ]
            result = cls(Arrays(**tensors), description, split_idx or None, rejects, changes)
        result._colours = colours
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
        of_file = {"arrays", "_learned"} | ({"_colours"} if self._colours.path is not None else set())
        changed = {name: value for name, value in self.__dict__.items() if name not in of_file}
        return _reopen, (self._path, changed)


def _for_json(value: object) -> object:
    return None if is_missing(value) else value if isinstance(value, float) else str(value)


def check_packed(name: str, data: object) -> None:
    """Refuse other containers of graphs, such as lists of PyG's ``Data``."""
    if not isinstance(data, PackedGraphs):
        raise TypeError(
            f"{name} must be PackedGraphs, as of load_molecules, load_tu or PackedGraphs.from_pyg, got "
            f"{type(data).__name__}"
        )


def _stamp(path: str | os.PathLike[str]) -> tuple[int, int]:
    """What changes where another file takes the place of this one."""
    about = os.stat(path)
    return about.st_size, about.st_mtime_ns


def _reopen(path: str, changed: dict[str, Any]) -> PackedGraphs:
    data = PackedGraphs._load(path, *read_tensors(path, verify=False))  # its stamp tells
    if data._stamp != changed["_stamp"]:
        raise ValueError(f"{path}: another file than the one that was opened: load it anew")
    data.__dict__.update(changed)
    return data
