"""Networks in one file that runs where this package is not installed: of torch.export, or ONNX."""

from __future__ import annotations

import copy
import json
import logging
import os
import warnings
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor
from torch_geometric import EdgeIndex
from torch_geometric.data import Data

from wlkernelnn import __version__
from wlkernelnn.datasets import PackedLoader
from wlkernelnn.datasets.graphs.loader import Graphs
from wlkernelnn.datasets.graphs.pyg import plain_data
from wlkernelnn.utils.files import atomic_path

from .base.graph_network import GraphNetwork

#: The extra file (torch.export) or entry of the metadata (ONNX) that says what a file holds.
ABOUT = "about.json"
ENDINGS = (".pt2", ".onnx")
# Inputs in the order of ``ExportableNetwork.forward``.
NAMES = ("x", "edge_index", "num_nodes", "edge_type", "graph_x")


class ExportableNetwork(torch.nn.Module):
    """The mean of networks' predictions, from tensors instead of a batch: what :mod:`torch.export` records.

    Args:
        networks: Networks of the same data.

    Shapes:
        - input: those of :func:`export_inputs`
        - output: ``[B, num_tasks]``, as of :meth:`GraphNetwork.predict`
    """

    def __init__(self, networks: Sequence[GraphNetwork]) -> None:
        super().__init__()
        self.networks = torch.nn.ModuleList(networks)

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        num_nodes: Tensor,
        edge_type: Tensor | None = None,
        graph_x: Tensor | None = None,
    ) -> Tensor:
        ptr = torch.nn.functional.pad(num_nodes.cumsum(0), (1, 0))
        # A node is of the last graph that has begun: ONNX lacks repeat_interleave.
        begun = num_nodes.new_zeros(x.size(0) + 1).index_add(0, ptr[:-1], torch.ones_like(num_nodes))
        batch = begun[:-1].cumsum(0) - 1
        parts = {"edge_type": edge_type, "graph_x": graph_x}
        given = {name: value for name, value in parts.items() if value is not None}
        data = plain_data(Data, x=x, edge_index=edge_index, ptr=ptr, batch=batch, **given)
        return torch.stack([cast(GraphNetwork, net).predict(data) for net in self.networks]).mean(0)


def export_inputs(batch: Data) -> dict[str, Tensor]:
    """A batch of :class:`~wlkernelnn.datasets.PackedLoader` as the tensors that an exported network takes.

    ``x [N, F]`` and ``edge_index [2, E]`` of all graphs one after the other; ``num_nodes [B]``, the number of
    nodes of each graph; and, where the data have them, ``edge_type [E]`` and ``graph_x [B, K]``.
    """
    edge_index = batch.edge_index
    if isinstance(edge_index, EdgeIndex):
        edge_index = edge_index.as_tensor()
    given = {**batch.to_dict(), "edge_index": edge_index, "num_nodes": batch.ptr.diff()}
    return {name: given[name] for name in NAMES if name in given}


def export_network(
    networks: GraphNetwork | Sequence[GraphNetwork],
    path: str | os.PathLike[str],
    data: Graphs,
    about: Mapping[str, Any] | None = None,
) -> list[str]:
    """Write networks into one file, for batches of any size; molecules are featurized outside of it.

    The file takes the tensors of :func:`export_inputs` by name and gives what ``predict`` gives, the mean
    over the networks. It computes every node, not every colour once, and does not check codes.

    Args:
        networks: One network, or several that predict together (``Ensemble.networks``).
        path: A name in ``.pt2``, for :func:`torch.export.load`, or in ``.onnx``.
        data: Two graphs or more, with the features that the networks were trained on.
        about: What else a user of the file must know, as JSON; the version of this package is added. In a
            ``.pt2`` it is the extra file ``about.json``, in an ``.onnx`` the entry of that name in the
            metadata.

    Returns:
        The names of the inputs.

    Raises:
        ValueError: Another ending, fewer than two graphs, or graphs that do not fit the networks.
        TypeError: ``networks`` is something else, or ``data`` is not a packed store nor graphs of PyG.
        ImportError: ONNX is wanted, and its packages are not installed.
    """
    path = Path(path)
    if path.suffix not in ENDINGS:
        raise ValueError(f"path: expected a name in {' or '.join(ENDINGS)}, got {path}")
    several = list(networks) if isinstance(networks, Sequence | torch.nn.ModuleList) else [networks]
    for net in several:
        if not isinstance(net, GraphNetwork):
            expected = "a network of this package, or several (Ensemble.networks)"
            raise TypeError(f"networks: expected {expected}, got {type(net).__name__}")
    if len({net.edge_values for net in several}) != 1:
        raise ValueError("networks: expected at least one, and the same edge_values of all")
    graphs = several[0].packed("data", data)
    if len(graphs) < 2:
        raise ValueError(f"data: expected at least 2 graphs, got {len(graphs)}")
    network = ExportableNetwork(copy.deepcopy(several)).cpu().eval()
    inputs = export_inputs(next(iter(PackedLoader(graphs, len(graphs)))))
    network(**inputs)  # what does not fit is told in plain words
    # Along nodes, edges or graphs, which is the second axis of edge_index [2, E] and the first of all others.
    axes = {name: {int(name == "edge_index"): torch.export.Dim.DYNAMIC} for name in inputs}
    program = torch.export.export(network, (), inputs, dynamic_shapes=axes, strict=False)
    codes = {"edge_values": several[0].edge_values} if several[0].edge_values else {}
    text = json.dumps({"wlkernelnn": __version__, "inputs": list(inputs), **codes, **(about or {})})
    with atomic_path(path) as temporary:
        if path.suffix == ".pt2":
            torch.export.save(program, temporary, extra_files={ABOUT: text})
        else:
            _save_onnx(program, temporary, list(inputs), text)
    return list(inputs)


def _save_onnx(program: torch.export.ExportedProgram, path: Path, inputs: list[str], about: str) -> None:
    if find_spec("onnxscript") is None:
        raise ImportError('ONNX needs more packages: pip install "wlkernelnn[onnx]"')
    # They tell of packages that are not there, and of each other.
    loggers = {log: log.level for log in map(logging.getLogger, ("torch.onnx", "onnx_ir"))}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        try:
            for log in loggers:
                log.setLevel(logging.ERROR)
            model = torch.onnx.export(
                program, dynamo=True, verbose=False, input_names=inputs, output_names=["predictions"]
            )
        finally:
            for log, level in loggers.items():
                log.setLevel(level)
    assert model is not None
    model.model.metadata_props[ABOUT] = about
    model.save(path, external_data=False)
