"""Importing this module registers the layer ``wlkernelconv`` and the model ``wlkernelnn`` in PyG's GraphGym.

In a configuration, ``gnn.layer_type: wlkernelconv`` makes GraphGym's own stack of our layers. ``model.type:
wlkernelnn`` makes a :class:`~wlkernelnn.models.WLKernelNN` between GraphGym's encoder and head: its width,
number of layers, dropout, activation and batch norm are ``gnn.dim_inner``, ``layers_mp``, ``dropout``,
``act`` and ``batchnorm``, and ``layers_pre_mp`` layers of GraphGym's go before it. GraphGym needs yacs, the
extra ``graphgym``.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.graphgym import register
from torch_geometric.graphgym.config import cfg
from torch_geometric.graphgym.models.gnn import FeatureEncoder, GNNPreMP
from torch_geometric.graphgym.models.layer import LayerConfig

from wlkernelnn.conv import WLKernelConv

from .wl_kernel_nn import WLKernelNN

if cfg is None:
    raise ImportError("GraphGym needs yacs: pip install 'wlkernelnn[graphgym]'")


@register.register_layer("wlkernelconv")
class GraphGymConv(torch.nn.Module):
    """One :class:`~wlkernelnn.WLKernelConv` with one iteration, between the widths of ``layer_config``."""

    def __init__(self, layer_config: LayerConfig, **kwargs: Any) -> None:
        super().__init__()
        options = {"num_iterations": 1, "all_lengths": True} | kwargs
        self.model = WLKernelConv(layer_config.dim_in, layer_config.dim_out, **options)

    def forward(self, batch: Data) -> Data:
        batch.x = self.model(batch.x, batch.edge_index)
        return batch


@register.register_network("wlkernelnn")
class GraphGymNetwork(torch.nn.Module):
    """A :class:`~wlkernelnn.models.WLKernelNN` between the encoder and head that the configuration says."""

    def __init__(self, dim_in: int, dim_out: int, **kwargs: Any) -> None:
        super().__init__()
        width = cfg.gnn.dim_inner
        self.encoder = FeatureEncoder(dim_in)
        dim_in, before = self.encoder.dim_in, cfg.gnn.layers_pre_mp
        self.pre_mp = GNNPreMP(dim_in, width, before) if before else torch.nn.Identity()
        act = register.act_dict.get(cfg.gnn.act)
        self.model = WLKernelNN(
            width if before else dim_in,
            width,
            cfg.gnn.layers_mp,
            dropout=cfg.gnn.dropout,
            act=act() if act else cfg.gnn.act,
            norm="batch_norm" if cfg.gnn.batchnorm else None,
            jk="last",
            edge_dim=width if cfg.dataset.edge_encoder else None,
            **kwargs,
        )
        self.post_mp = register.head_dict[cfg.gnn.head](dim_in=width, dim_out=dim_out)

    def forward(self, batch: Data) -> tuple[Tensor, Tensor]:
        batch = self.pre_mp(self.encoder(batch))
        edge_attr = batch.edge_attr if cfg.dataset.edge_encoder else None
        batch.x = self.model(batch.x, batch.edge_index, edge_attr=edge_attr)
        return self.post_mp(batch)
