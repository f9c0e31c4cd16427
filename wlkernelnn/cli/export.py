"""Write the networks of a run into one file for torch.export or ONNX."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from .options import VerbParser, add_options, pick


@dataclass
class ExportOptions:
    """What is written, and where.

    Args:
        model_path: A run folder of "wlkernelnn train" with networks (model wl or stack), or one network's
            folder in it.
        output_path: A name in .pt2, for torch.export.load, or in .onnx, for ONNX Runtime. The file takes
            tensors of atoms and bonds, not SMILES, and says in its about.json which features these are.
    """

    model_path: Path
    output_path: Path


def main(argv: list[str] | None = None) -> None:
    parser = VerbParser("export", __doc__)
    add_options(parser, "Options", ExportOptions)
    options = ExportOptions(**pick(parser.parse_args(argv), ExportOptions))
    # Help does not wait for torch.
    from wlkernelnn.datasets import featurize
    from wlkernelnn.models import export_network
    from wlkernelnn.training import Ensemble, load_run

    model = load_run(options.model_path)
    if not isinstance(model, Ensemble):
        raise ValueError(
            f"{options.model_path}: holds a kernel machine, which compares molecules with those that it was "
            "trained on: only networks (model wl or stack) become a file of tensors"
        )
    features = model.about["features"]
    data, _ = featurize(["CCO", "c1ccccc1"], features=features, num_workers=0)
    told = ("features", "target_names", "task", "classes", "unit")
    about = {name: model.about[name] for name in told if name in model.about}
    inputs = export_network(model.networks, options.output_path, data, about)
    number = f"{len(model.networks)} networks" if len(model.networks) > 1 else "1 network"
    print(f"{number}, of {', '.join(inputs)} (features {features}): {options.output_path}")
