from __future__ import annotations

import pytest
import torch

from wlkernelnn.bench.language.recurrent import Recurrent


@pytest.mark.parametrize("kind", [torch.nn.LSTM, torch.nn.GRU])
def test_is_torchs_on_ragged_strings(kind: type[torch.nn.RNNBase]) -> None:
    model, is_lstm = Recurrent(kind, 3, 4), kind is torch.nn.LSTM
    strings = [torch.randn(n, 3) for n in (2, 0, 5, 3)]
    ptr = torch.tensor([0, 2, 2, 7, 10])
    state = torch.randn(1 + is_lstm, 4, 4)
    out, after = model(torch.cat(strings), ptr, state)
    for i, string in enumerate(strings):
        before = state[:, i].view(-1, 1, 1, 4).contiguous()
        if not len(string):
            torch.testing.assert_close(after[:, i], state[:, i])
            continue
        expected, end = model.layer(string.unsqueeze(1), tuple(before) if is_lstm else before[0])
        torch.testing.assert_close(out[ptr[i] : ptr[i + 1]], expected.squeeze(1))
        torch.testing.assert_close(after[:, i], torch.cat(end if is_lstm else [end]).view(-1, 4))
    for ptr, width in ((torch.zeros(1, dtype=torch.long), 0), (torch.zeros(3, dtype=torch.long), 2)):
        out, after = model(torch.zeros(0, 3), ptr)
        assert (out.shape, after.shape) == ((0, 4), (1 + is_lstm, width, 4))
        assert (after == 0).all()
