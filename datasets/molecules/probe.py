"""Whether another version of RDKit gives the features that a model was trained with."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import rdkit

from wlkernelnn.datasets.chemistry.standardize import standardize_chunk

from .chunks import featurize_chunk
from .features import get_features

# All that versions of RDKit may see in another way: aromaticity, stereochemistry, rings, valences, metals.
_SMILES = (
    *("C", "[Na+].[Cl-]", "[2H]OC", "C[O]", "C[N+](=O)[O-]", "FP(F)(F)(F)F", r"C/C=C/C=C\C", "CC=CC#CC=O"),
    *("N[C@@H](C)C(=O)O", "C[S@](=O)CC", "[Pt@SP1](F)(Cl)(Br)I", "C[C@H]1CC[C@@H](C)CC1", "*C=*"),
    *("C1CC2CCC1CC2",),
    *(
        "c1ccc2c(c1)[nH]c1ccccc12",
        "c1ccsc1-c1ccco1",
        "O=c1cc[nH]cc1",
        "[cH-]1cccc1.[Fe+2]",
        "c1ccc2cccc-2cc1",
    ),
    *("[NH3]->[Pt](Cl)(Cl)<-[NH3]", "C12C3C4C1C5C2C3C45", "Cn1cnc2c1c(=O)n(C)c(=O)n2C", "CC(=O)Nc1ccc(O)cc1"),
    "CC1(C)S[C@@H]2[C@H](NC(=O)Cc3ccccc3)C(=O)N2[C@H]1C(=O)O",
)

# And what its standardisation may.
_SALTS = (
    *("CC(=O)[O-].[Na+]", "O=C(O[Na])c1ccccc1", "CN(=O)=O", "C[NH3+].[Cl-]", "[NH3+]CC(=O)[O-]", "CS(C)=O"),
    *("C[N+](C)(C)C.F[P-](F)(F)(F)(F)F", "CCN.Cl.O", "CC.CCC(C)C", "[Cl-].[Na+]", "C[N+]#N", "C[Zn]C"),
    *("Oc1ccccc1S(=O)(=O)[O-]", "[O-][n+]1ccccc1", "CN=[N+]=[N-]", "c1cc[n+](C)cc1.[I-]"),
)


@cache
def probed(features: str) -> dict[str, Any]:
    """The version of RDKit, and what it makes of some molecules, as JSON has it.

    ``codes`` is a digest of codes and counts, ``values`` are the numbers of the last molecule.
    """
    columns, smiles = get_features(features), [*_SMILES]
    if columns.standardize:
        smiles = [text for text, _, _ in standardize_chunk((*_SALTS, *_SMILES))]
    part, reasons = featurize_chunk(smiles, columns)
    numbers = part.pop("graph_x")
    counts = numbers if numbers.dtype == np.uint8 else numbers[:, :0]
    digest = hashlib.sha256(repr(sorted(reasons)).encode())
    for name in sorted(part):
        # A row of the table stands for its number.
        values = part["node_table"][part["node_type"]] if name == "node_type" else part[name]
        digest.update(name.encode() + (b"" if name == "node_table" else values.astype(np.int64).tobytes()))
    digest.update(counts.tobytes())
    last = [] if numbers.dtype == np.uint8 else [float(f"{value:.6g}") for value in numbers[-1]]
    return {"version": rdkit.__version__, "codes": digest.hexdigest()[:16], "values": last}


def check_probed(path: Path, features: str, trained: Any) -> None:
    """Refuse features that this RDKit gives in another way than the one of a training.

    Raises:
        ValueError: It does; names both versions. Or ``trained`` is not as :func:`probed` gives it.
    """
    if not isinstance(trained, dict) or not {"version", "codes", "values"} <= {*trained}:
        raise ValueError(f"{path}: about.rdkit: expected version, codes and values, got {trained!r}")
    if trained["version"] == rdkit.__version__:
        return
    here = probed(features)
    same = here["codes"] == trained["codes"] and len(here["values"]) == len(trained["values"])
    if not same or not np.allclose(here["values"], trained["values"], rtol=1e-3, atol=1e-6):
        raise ValueError(
            f"{path}: the run was trained with RDKit {trained['version']}, and RDKit {rdkit.__version__} "
            f"gives other features {features!r}: predict with the RDKit of the training"
        )
