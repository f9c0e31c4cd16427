from __future__ import annotations

import threading

import pytest
import torch

from wlkernelnn.utils.modes import evaluating


@pytest.mark.parametrize("fails", [False, True])
def test_every_part_has_its_mode_back(fails: bool) -> None:
    frozen = torch.nn.Sequential(torch.nn.BatchNorm1d(3), torch.nn.Dropout(0.5)).eval()
    module = torch.nn.ModuleList([frozen, torch.nn.Dropout(0.5)])
    module.training = True
    before = [part.training for part in module.modules()]
    try:
        with evaluating(module):
            assert not any(part.training for part in module.modules())
            if fails:
                raise KeyError
    except KeyError:
        assert fails
    assert [part.training for part in module.modules()] == before
    assert len(set(before)) == 2


def test_the_last_of_several_threads_sets_modes_back() -> None:
    module, inside, leave = torch.nn.Dropout(0.5), threading.Barrier(2), threading.Event()

    def evaluate() -> None:
        with evaluating(module):
            inside.wait(timeout=30)
            leave.wait(timeout=30)

    thread = threading.Thread(target=evaluate)
    with evaluating(module):
        thread.start()
        inside.wait(timeout=30)
    assert not module.training
    leave.set()
    thread.join()
    assert module.training


def test_a_part_and_the_whole_at_once() -> None:
    """However they overlap, what is evaluated by anybody stays so, and everything has its mode back."""
    part = torch.nn.Dropout(0.5)
    whole = torch.nn.Sequential(part, torch.nn.Dropout(0.5))
    first, second = evaluating(part), evaluating(whole)
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert not any(module.training for module in whole.modules())
    second.__exit__(None, None, None)
    assert all(module.training for module in whole.modules())
