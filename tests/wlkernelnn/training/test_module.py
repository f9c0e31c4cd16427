from __future__ import annotations

from collections.abc import Iterable

import pytest
import torch
from torch import Tensor, nn
from torch_geometric.nn import Linear

from tests.inputs.molecules import regression_set, small_network
from wlkernelnn.training import FitOptions, fit
from wlkernelnn.training.module import TrainedModule
from wlkernelnn.training.options import PRECISIONS


def in_one_pass(parameters: Iterable[Tensor], options: FitOptions) -> bool:
    """Whether Adam is fused."""
    module = TrainedModule(nn.Module(), options, "rmse", maximize=False)
    return module.adam(list(parameters)).defaults["fused"]


def trained(weight: Tensor, fused: bool) -> Tensor:
    parameter = nn.Parameter(weight)
    optimizer = torch.optim.AdamW([parameter], lr=0.1, weight_decay=0.1, fused=fused)
    for _ in range(3):
        optimizer.zero_grad()
        ((parameter - 1) ** 2).sum().backward()
        optimizer.step()
    return parameter.detach()


@pytest.mark.parametrize(("dtype", "gaps"), [(torch.float32, False), (torch.float64, True)])
def test_steps_are_those_of_adam(dtype: torch.dtype, gaps: bool) -> None:
    def weight() -> Tensor:
        values = torch.arange(22, dtype=dtype).view(11, 2) / 7
        return values[:, 0] if gaps else values

    assert in_one_pass([weight()], FitOptions()) is not gaps
    torch.testing.assert_close(
        trained(weight(), fused=in_one_pass([weight()], FitOptions())), trained(weight(), fused=False)
    )


def test_lazy_parameters_have_no_memory_yet() -> None:
    layer = Linear(-1, 3)
    assert not in_one_pass(layer.parameters(), FitOptions())
    layer(torch.zeros(1, 2))
    assert in_one_pass(layer.parameters(), FitOptions())


def test_mixed_precision_is_left_to_the_ordinary_steps() -> None:
    for precision in PRECISIONS:
        expected = precision in ("64-true", "32-true", "bf16-true", "64", "32")
        assert in_one_pass([torch.zeros(3)], FitOptions(precision=precision)) is expected


@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed"])
def test_gradients_are_clipped_under_all_precisions(precision: str) -> None:
    data, steps = regression_set(), []
    for clip in (1e-12, 5.0):
        net = small_network(data)
        before = [parameter.detach().clone() for parameter in net.parameters()]
        options = FitOptions(epochs=1, precision=precision, gradient_clip=clip, accelerator="cpu")
        fit(net, data, options=options, progress=False)
        after = list(net.parameters())
        steps.append(max((new - old).abs().max().item() for new, old in zip(after, before, strict=True)))
    assert steps[0] < steps[1]  # as eps of Adam outweighs such small gradients


def test_every_epoch_has_random_numbers_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    module = TrainedModule(torch.nn.Linear(1, 1), FitOptions(), "rmse", maximize=False)
    drawn = []
    for epoch in (0, 1, 0):
        monkeypatch.setattr(TrainedModule, "current_epoch", epoch)
        module.on_train_epoch_start()
        drawn.append(torch.rand(1).item())
    assert drawn[0] == drawn[2] != drawn[1]
