"""The processes that train together: which there are, and what they tell each other."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import torch
from pytorch_lightning.plugins.environments import (
    ClusterEnvironment,
    LightningEnvironment,
    SLURMEnvironment,
    TorchElasticEnvironment,
)
from torch import distributed

from .options import LoopOptions

# While the first process reads data, the others wait.
PATIENCE = timedelta(days=30)

_group: Any = None


def environment_of(options: LoopOptions) -> ClusterEnvironment:
    """Which processes train. Variables of clusters count only if several devices are asked for.

    Raises:
        ValueError: ``torchrun`` or ``srun`` started another number of processes than the options ask for, or
            none, and there are to be several nodes.
    """
    count, variables = options.devices * options.num_nodes, os.environ
    asked = f"devices={options.devices}, num_nodes={options.num_nodes}"
    by_torchrun = distributed.is_torchelastic_launched() and int(variables.get("WORLD_SIZE", 1)) > 1
    if by_torchrun and count == 1:
        raise ValueError(
            f"torchrun started {variables['WORLD_SIZE']} processes, and a training of one device runs in "
            "one: say how many devices a node has (devices, --devices), or start it without torchrun"
        )
    if by_torchrun:
        starter, started = "torchrun", int(variables["WORLD_SIZE"])
        here = int(variables.get("LOCAL_WORLD_SIZE", started))
    elif count > 1 and int(variables.get("SLURM_STEP_NUM_TASKS", 1)) > 1:
        starter, started = "srun", int(variables["SLURM_STEP_NUM_TASKS"])
        here = int(variables.get("SLURM_NTASKS_PER_NODE", options.devices))
    elif options.num_nodes > 1:
        raise ValueError(f"{asked}: start it by torchrun or srun, {options.devices} processes on each node")
    else:
        return LightningEnvironment()
    if (started, here) != (count, options.devices):
        raise ValueError(
            f"{starter} started {started} processes, {here} on this node, and {asked} are {count}, "
            f"{options.devices} on a node"
        )
    return TorchElasticEnvironment() if by_torchrun else SLURMEnvironment(auto_requeue=False)


def is_started_outside(environment: ClusterEnvironment) -> bool:
    """Whether ``torchrun`` or ``srun`` started the processes."""
    return not isinstance(environment, LightningEnvironment)


def join(environment: ClusterEnvironment) -> None:
    """Connect this process to the others, once."""
    global _group
    if _group is not None:
        return
    on_gpu = torch.cuda.is_available()
    if on_gpu:
        torch.cuda.set_device(environment.local_rank() % torch.cuda.device_count())
    distributed.init_process_group(
        "cpu:gloo,cuda:nccl" if on_gpu else "gloo",
        init_method=f"tcp://{environment.main_address}:{environment.main_port}",
        rank=environment.global_rank(),
        world_size=environment.world_size(),
    )
    _group = distributed.new_group(backend="gloo", timeout=PATIENCE)


def leave() -> None:
    """End the connection, if there is one."""
    global _group
    if _group is not None:
        _group = None
        distributed.destroy_process_group()


def share(value: Any) -> Any:
    """The first process's value, in all."""
    values = [value]
    distributed.broadcast_object_list(values, src=0, group=_group, device=torch.device("cpu"))
    return values[0]


def is_lost(error: BaseException) -> bool:
    """Whether an error says that another process does not answer."""
    words = ("gloo", "Connection", "NCCL")
    return isinstance(error, distributed.DistError) or (
        isinstance(error, RuntimeError) and any(word in str(error) for word in words)
    )


@contextmanager
def connected() -> Iterator[None]:
    """The end of another process is an error that says so."""
    try:
        yield
    except RuntimeError as error:
        if not is_lost(error):
            raise
        message = "another process of the training ended, see its message; the training can be resumed"
        raise ChildProcessError(message) from error
