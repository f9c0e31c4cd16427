from __future__ import annotations

import pandas
import torch

from wlkernelnn.bench.about import about, environment


def test_about_names_the_command() -> None:
    known = about("some-name", ["--dir", "a b"], quick=True, packages=["pandas"])
    assert known["command"] == "wlkernelnn benchmark some-name --dir 'a b'"
    assert known["mode"] == "quick"
    assert {"processor", "pandas"} <= known.keys()


def test_environment_names_processor_and_versions() -> None:
    known = environment("pandas")
    assert known["torch"] == torch.__version__
    assert known["pandas"] == pandas.__version__
    assert "cores" in known["processor"]
