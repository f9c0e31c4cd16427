"""Say of every atom how much it adds to the predictions for its molecule."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from ..options import PositiveInt, VerbParser, add_options, pick

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

    from wlkernelnn.datasets import PackedGraphs

# Of the unit of predictions: what is smaller has no strong colour.
LEAST = 0.01
# Larger molecules are not drawn: it takes seconds, and shows nothing.
MOST_ATOMS = 200


@dataclass
class ExplainOptions:
    """What to explain, and where that goes.

    Args:
        test_path: A table as of predict, one file, which is held in memory as a whole.
        model_path: A run folder of "wlkernelnn train", or one network's folder in it.
        output_dir: Folder for report.html (a page with all molecules and drawings), drawings, rejects.csv and
            atoms.csv: row, smiles, atom (counted from 0), its
            element, and per target (in log-odds of classes) how much it adds. Of networks that is how much
            less is predicted when all that the network knows of this atom and its surroundings is left out;
            of several networks the mean. Where rings are nodes, the atoms of a ring share equally what its
            node has. Of a machine it is exact: molecules.csv has prediction = atoms + descriptors + mean and,
            of a kernel machine, the nearest training molecules, substructures.csv the
            substructures that add or take most. Of a joint model the weighted sum of both: molecules.csv has
            what its networks add as one column more, networks.
        smiles_columns: The column of SMILES; by default the one called smiles, or those that the model was
            trained on with --join-smiles. In atoms.csv, molecules of
            more than 200 atoms have it in their first row only.
        max_length: Longer SMILES, in characters, give no molecule.
        on_invalid: Rows that give no molecule: "skip" lists them in rejects.csv, "raise" stops.
        drawings: How many molecules are drawn, from the first on, as row-1.svg, ... (of several targets or
            classes row-1_target-1.svg, ...): red atoms add, blue ones take away; a molecule's largest
            contribution has the strongest colour (if it is at least a hundredth of the targets' standard
            deviation, or of log-odds). Molecules of more than 200 atoms are left out.
        batch_size: Molecules at once.
    """

    test_path: Path
    model_path: Path
    output_dir: Path
    smiles_columns: list[str] | None = None
    max_length: PositiveInt = 5000
    on_invalid: Literal["raise", "skip"] = "skip"
    drawings: int = 20
    batch_size: PositiveInt = 512


def main(argv: list[str] | None = None) -> None:
    parser = VerbParser("explain", __doc__)
    add_options(parser, "Options", ExplainOptions)
    options = ExplainOptions(**pick(parser.parse_args(argv), ExplainOptions))
    if options.drawings < 0:
        raise ValueError(f"--drawings: expected at least 0, got {options.drawings}")
    if options.test_path.is_dir():
        raise ValueError(f"--test-path: {options.test_path} is a folder, expected one table")
    # Help does not wait for torch.
    import numpy as np

    from wlkernelnn.datasets import load_molecules
    from wlkernelnn.datasets.molecules.ring_nodes import num_atoms
    from wlkernelnn.report import PAGE, tried, write_explanation_page
    from wlkernelnn.training import Ensemble, JointModel, load_run, mean_and_std
    from wlkernelnn.training.classes import decided, output_names
    from wlkernelnn.training.folder import MACHINE, NETWORKS
    from wlkernelnn.training.molecules.columns import columns_read, kernel_machine
    from wlkernelnn.training.molecules.explain import atom_contributions, drawing
    from wlkernelnn.utils.files import atomic_path, write_text

    from .machine import explained

    directory = options.output_dir
    _check_free(directory, options.test_path)
    model = load_run(options.model_path)
    if isinstance(model, JointModel) and model.about["task"] == "multiclass":
        raise ValueError(
            f"{options.model_path}: a joint model of more than two classes is not a sum: explain its parts, "
            f"the folders {MACHINE} and {NETWORKS} in it"
        )
    ordered = model.about["task"] == "ordinal"
    names = model.about["target_names"] if ordered else output_names(model.about)
    if taken := {"row", "smiles", "atom", "element"} & {*names}:
        raise ValueError(
            f"{options.model_path}: target {min(taken)!r}: atoms.csv has a column of this name already"
        )
    data = load_molecules(
        options.test_path,
        smiles_column=columns_read(model, options.smiles_columns),
        features=model.about["features"],
        max_length=options.max_length,
        on_invalid=options.on_invalid,
        rejects_path=directory / "rejects.csv",
        progress=True,
        cache=False,
    )
    tables: dict[str, pd.DataFrame] = {}
    if isinstance(model, Ensemble):
        contributions = atom_contributions(model.networks, data, options.batch_size)
        least = LEAST * model.networks[0].target_std.cpu().numpy()
    else:
        contributions, tables = explained(model, data, options.batch_size)
        least = LEAST * (model.machine if isinstance(model, JointModel) else model).scale_
    atoms = _atoms(data, names, contributions)
    for name, table in {**tables, "atoms.csv": atoms}.items():
        with atomic_path(directory / name) as temporary:
            table.to_csv(temporary, index=False)
    size, smiles = num_atoms(data), data.smiles
    begin = np.cumsum(size) - size
    drawings, largest = {}, []
    for i in np.flatnonzero(size <= MOST_ATOMS)[: options.drawings].tolist():
        row, of_atoms = int(data.row[i]), contributions[begin[i] : begin[i] + size[i]]
        drawings[i] = [
            drawing(smiles[i], of_atoms[:, t], float(least[t]), values=True) for t in range(len(names))
        ]
        largest.append(np.maximum(np.abs(of_atoms).max(axis=0), least))
        for task, svg in enumerate(drawings[i]):
            name = f"row-{row + 1}.svg" if len(names) == 1 else f"row-{row + 1}_target-{task + 1}.svg"
            write_text(directory / name, svg)

    def predicted() -> np.ndarray:
        mean = mean_and_std(model, data)[0]
        return np.array(model.about["classes"], dtype=object)[decided(mean, ordered)] if ordered else mean

    molecules = tables.get("molecules.csv")
    page = tried(
        lambda: write_explanation_page(
            directory / PAGE,
            data,
            names,
            _predicted(data, names, predicted()) if molecules is None else molecules,
            drawings,
            np.reshape(largest, (len(drawings), len(names))),
            str(options.model_path),
            model.about["task"] != "regression",
        ),
        f"no {PAGE}",
    )
    rejected = f" ({len(data.rejects):,} rows were rejected, see rejects.csv)" if data.rejects else ""
    if (machine := kernel_machine(model)) and machine.choice_ == "descriptors":
        print("the machine predicts from descriptors alone: atoms add nothing, see molecules.csv")
    large = f" (not those of more than {MOST_ATOMS} atoms)" if size.max(initial=0) > MOST_ATOMS else ""
    print(
        f"{len(data):,} molecules{rejected}: {len(atoms):,} atoms in {directory / 'atoms.csv'}, "
        f"{len(drawings):,} molecules drawn{large}"
    )
    if page is not None:
        print(f"report: {page}")


def _check_free(directory: Path, test_path: Path) -> None:
    """Refuse a folder with results of a run or of another explanation: drawings would be taken for these.

    Rejected rows, which a call that failed leaves there, are written anew.
    """
    from wlkernelnn.report import PAGE
    from wlkernelnn.training import check_free

    check_free(directory)
    if test_path.resolve() == (directory / "rejects.csv").resolve():
        raise ValueError(f"--output-dir: {test_path}, which is to be explained, would be overwritten")
    tables = (directory / f"{name}.csv" for name in ("atoms", "molecules", "substructures"))
    for path in (*tables, directory / PAGE, *directory.glob("row-*.svg")):
        if path.exists():
            raise FileExistsError(f"--output-dir: {path} is there already, choose another folder")


def _predicted(data: PackedGraphs, names: list[str], mean: np.ndarray) -> pd.DataFrame:
    """One row per molecule and target, of networks: predictions are no sums over atoms."""
    import numpy as np
    import pandas as pd

    return pd.DataFrame(
        {
            "row": np.repeat(data.row.numpy() + 1, len(names)),
            "smiles": np.repeat(np.array(data.smiles, dtype=object), len(names)),
            "target": names * len(data),
            "prediction": mean.ravel(),
        }
    )


def _atoms(data: PackedGraphs, names: list[str], contributions: np.ndarray) -> pd.DataFrame:
    """One row per atom."""
    import numpy as np
    import pandas as pd
    from rdkit import Chem

    from wlkernelnn.datasets.molecules.ring_nodes import num_atoms

    size, smiles = num_atoms(data), data.smiles
    molecules = map(Chem.MolFromSmiles, smiles)
    atom = np.arange(size.sum()) - np.repeat(np.cumsum(size) - size, size)
    # Of a large molecule, to repeat it for every atom would take the square of its size.
    shown = np.repeat(np.array(smiles, dtype=object), size)
    shown[(atom > 0) & np.repeat(size > MOST_ATOMS, size)] = ""
    return pd.DataFrame(
        {"row": np.repeat(data.row.numpy() + 1, size), "smiles": shown}
        | {
            "atom": atom,
            "element": [atom.GetSymbol() for molecule in molecules for atom in molecule.GetAtoms()],
        }
        | {name: contributions[:, task] for task, name in enumerate(names)}
    )
