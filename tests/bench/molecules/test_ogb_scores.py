"""That what is submitted is as OGB's own evaluator writes it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from ogb.lsc import PCQM4Mv2Evaluator

from wlkernelnn.bench.molecules import ogb_scores


@pytest.mark.parametrize("part", ogb_scores.SUBMITTED)
def test_the_submission_is_as_ogb_writes_it(tmp_path: Path, part: str) -> None:
    prediction = np.random.default_rng(0).normal(size=(ogb_scores.SUBMITTED[part], 1))
    ogb_scores.write_submission(tmp_path / "ours", part, prediction)
    theirs = {"y_pred": prediction[:, 0]}
    PCQM4Mv2Evaluator().save_test_submission(theirs, str(tmp_path), mode=part)
    name = f"y_pred_pcqm4m-v2_{part}.npz"
    with np.load(tmp_path / "ours" / name) as ours, np.load(tmp_path / name) as expected:
        assert ours.files == expected.files
        assert ours["y_pred"].dtype == expected["y_pred"].dtype
        assert np.array_equal(ours["y_pred"], expected["y_pred"])
    with pytest.raises(ValueError, match=f"{part}: .* for each of its 147,.* molecules, got 147,"):
        ogb_scores.write_submission(tmp_path, part, prediction[1:])
