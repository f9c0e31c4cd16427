"""The published molecule data sets: what they hold, and where their files come from.

MoleculeNet is Wu et al. 2018 (Chemical Science 9, 513); tasks, metrics and recommended splits of its sets are
the paper's, except that QM7 is split at random instead of stratified. The checksums of Lipophilicity.csv and
bace.csv are those that several public projects recorded; the others were computed from the files.
"""

from __future__ import annotations

from dataclasses import dataclass

from wlkernelnn.datasets.graphs.splits import SplitKind


@dataclass(frozen=True)
class MoleculeSet:
    """A published data set: what it holds and where its file comes from.

    Attributes:
        name: Name for :func:`~wlkernelnn.datasets.load_molecules`.
        file: Where the file lies in a folder of data sets; its bare name and ``.gz`` will do as well.
        size: Rows in the file.
        smiles_column, target_columns: Columns of the file that are read.
        metric: The metric its results are given in.
        unit: Unit of the targets.
        split: The split recommended for it (80/10/10, seed 0), which ``split_idx`` holds.
        source: Where the data come from.
        licence: What that source says about their use.
        url: Address of the file, ``""`` where there is none that can be checked.
        sha256: SHA-256 of the known versions of the file (decompressed).
    """

    name: str
    file: str
    size: int
    target_columns: tuple[str, ...]
    metric: str
    unit: str
    source: str
    licence: str = "none stated"
    smiles_column: str = "smiles"
    split: SplitKind = "random"
    url: str = ""
    sha256: tuple[str, ...] = ()

    @property
    def task(self) -> str:
        """``"regression"`` or ``"classification"``."""
        return "classification" if self.metric == "roc_auc" else "regression"


_MOLECULENET = "https://deepchemdata.s3-us-west-1.amazonaws.com/datasets/"
_CHEMPROP = "https://raw.githubusercontent.com/wengong-jin/chemprop/master/data/"
_TOX21 = (
    "NR-AR NR-AR-LBD NR-AhR NR-Aromatase NR-ER NR-ER-LBD NR-PPAR-gamma SR-ARE SR-ATAD5 SR-HSE SR-MMP SR-p53"
)
_QM8 = "E1-CC2 E2-CC2 f1-CC2 f2-CC2 E1-PBE0 E2-PBE0 f1-PBE0 f2-PBE0 E1-CAM E2-CAM f1-CAM f2-CAM"

_SETS = (
    MoleculeSet(
        name="chembl2321810",
        file="CHEMBL2321810.smi",
        size=1017,
        target_columns=("Act",),
        metric="rmse",
        unit="activity on a negative log10 scale (pIC50-like)",
        split="scaffold",
        source="ChEMBL document CHEMBL2321810, as packaged with rdkit (Contrib/FreeWilson/data)",
        licence="ChEMBL: CC BY-SA 3.0; rdkit: BSD-3-Clause",
    ),
    MoleculeSet(
        name="esol",
        file="moleculenet/delaney-processed.csv",
        size=1128,
        target_columns=("measured log solubility in mols per litre",),
        metric="rmse",
        unit="log10(mol/L)",
        source="Delaney 2004, MoleculeNet",
        url=_MOLECULENET + "delaney-processed.csv",
        sha256=("8c06a76f0c6487d29ab0f903e6a7a7139f189ab3c1178f159c8be8964602f189",),
    ),
    MoleculeSet(
        name="freesolv",
        file="moleculenet/SAMPL.csv",
        size=642,
        target_columns=("expt",),
        metric="rmse",
        unit="kcal/mol",
        source="FreeSolv, MoleculeNet",
        licence="FreeSolv: Creative Commons, see its repository for the terms",
        url=_MOLECULENET + "SAMPL.csv",
        sha256=("ab5895d914ee87cb563bd7b9611e869527bba45bec6b014d34dc495a0f9dcb72",),
    ),
    MoleculeSet(
        name="lipophilicity",
        file="moleculenet/Lipophilicity.csv",
        size=4200,
        target_columns=("exp",),
        metric="rmse",
        unit="log D at pH 7.4",
        source="AstraZeneca deposit CHEMBL3301361, MoleculeNet",
        licence="ChEMBL: CC BY-SA 3.0",
        url=_MOLECULENET + "Lipophilicity.csv",
        sha256=("aed41590cb30609d51d8e08ad3ff06495a76e80e211358801f596b10da69bacd",),
    ),
    MoleculeSet(
        name="cep",
        file="cep/cep-processed.csv",
        size=29978,
        target_columns=("PCE",),
        metric="rmse",
        unit="power conversion efficiency in %",
        source="Harvard Clean Energy Project, the subset of Duvenaud et al. 2015 (HIPS/neural-fingerprint)",
        licence="repository: MIT; database: none stated",
        url="https://raw.githubusercontent.com/HIPS/neural-fingerprint/master/data/"
        "2015-06-02-cep-pce/cep-processed.csv",
        sha256=("99c3def57a412e0ac3922194d0605b6a8a9056938706a44bc4ba1d35fe8bc8c0",),
    ),
    MoleculeSet(
        name="bbbp",
        file="moleculenet/BBBP.csv",
        size=2050,
        target_columns=("p_np",),
        metric="roc_auc",
        unit="crosses the blood-brain barrier",
        split="scaffold",
        source="Martins et al. 2012, MoleculeNet",
        url=_MOLECULENET + "BBBP.csv",
        sha256=(
            "d07a38487aeac5cee5508413e468043ef3097451d2a112701c2d60be9ec6b662",
            "6aecd84110e8c0549bc4e2e486c52267d4e775178fca8999f5465029e31e75bb",  # with Unix line ends
        ),
    ),
    MoleculeSet(
        name="bace",
        file="moleculenet/bace.csv",
        size=1513,
        smiles_column="mol",
        target_columns=("Class",),
        metric="roc_auc",
        unit="inhibits human beta-secretase 1",
        split="scaffold",
        source="Subramanian et al. 2016, MoleculeNet",
        url=_MOLECULENET + "bace.csv",
        sha256=("f3fb9ce90bada3e2bd6148b0df13f8f8145a357bf87df0dd5b391ede974fc737",),
    ),
    MoleculeSet(
        name="clintox",
        file="moleculenet/clintox.csv",
        size=1478,
        target_columns=("FDA_APPROVED", "CT_TOX"),
        metric="roc_auc",
        unit="approved by the FDA; failed trials for toxicity",
        source="MoleculeNet, as in wengong-jin/chemprop",
        licence="repository: MIT",
        url=_CHEMPROP + "clintox.csv",
        sha256=("cc561402d058a0d996a9f5e5d02bc20f6652b7003525b32c3598b8da4b24e9b7",),
    ),
    MoleculeSet(
        name="sider",
        file="moleculenet/sider.csv",
        size=1427,
        target_columns=tuple(f"SIDER{i}" for i in range(1, 28)),
        metric="roc_auc",
        unit="has side effects in an organ class",
        source="SIDER 4 in MoleculeNet's grouping, as in OpenDrugAI/AttentiveFP",
        url="https://raw.githubusercontent.com/OpenDrugAI/AttentiveFP/"
        "dda6708342ffe255ded73c459ad64214a4615542/data/sider.csv",
        sha256=("8e7175d0953a4dad444e5967feed30a9ceee615e989674c6460bc1310eb4d0e8",),
    ),
    MoleculeSet(
        name="tox21",
        file="moleculenet/tox21.csv",
        size=7831,
        target_columns=tuple(_TOX21.split()),
        metric="roc_auc",
        unit="active in an assay",
        source="Tox21 challenge 2014, MoleculeNet",
        url=_MOLECULENET + "tox21.csv.gz",
        sha256=("7d7e7facd853a63e79ddce4e9c3fcb7a0d83a1c300b603031c0f2c64fbe77761",),
    ),
    MoleculeSet(
        name="hiv",
        file="moleculenet/HIV.csv",
        size=41127,
        target_columns=("HIV_active",),
        metric="roc_auc",
        unit="inhibits HIV replication",
        split="scaffold",
        source="NCI DTP AIDS antiviral screen, MoleculeNet",
        url=_MOLECULENET + "HIV.csv",
        sha256=(
            "9ffa7fe57dc86c342627ee1d5255e937e2ab812393c73c4d16c697022f6e1d22",
            "b72f0cf00cd1f45ae5c415f21aef10e69187e30dd24029ddb345fbca35b0d798",  # with Unix line ends
        ),
    ),
    MoleculeSet(
        name="qm7",
        file="qm/qm7.csv",
        size=6830,
        target_columns=("u0_atom",),
        metric="mae",
        unit="kcal/mol",
        source="QM7 in MoleculeNet, as in wengong-jin/chemprop",
        licence="repository: MIT",
        url=_CHEMPROP + "qm7.csv.gz",
        sha256=("eb793e3172c4a74cfb74ef805e6cdea79d1db16fd1f40a42f459297ad6457548",),
    ),
    MoleculeSet(
        name="qm8",
        file="qm/qm8.csv",
        size=21786,
        target_columns=tuple(_QM8.split()),
        metric="mae",
        unit="hartree (E1, E2); oscillator strength (f1, f2)",
        source="QM8 in MoleculeNet, as in wengong-jin/chemprop",
        licence="repository: MIT",
        url=_CHEMPROP + "qm8.csv.gz",
        sha256=("c34fed8b60e9c3f6fdfd24133f93954a00a19e382603a7a167166482b7cf533f",),
    ),
    MoleculeSet(
        name="organic_ri",
        file="organic_ri/properties.csv",
        size=100000,
        smiles_column="Mol_Smiles",
        target_columns=("Pol_DFT",),
        metric="rmse",
        unit="bohr^3 (polarizability)",
        source="the wheel of chemml 1.3 on PyPI (`pip download --no-deps chemml==1.3`), in it "
        "chemml/published/RI/input_files/properties.csv",
        licence="BSD-3-Clause",
        sha256=("581da60f86c231000d0a04af49a2e4c039bd4f52277a929fbaea0d4605fff520",),
    ),
)

#: The data sets that :func:`~wlkernelnn.datasets.load_molecules` knows, by name.
MOLECULE_SETS: dict[str, MoleculeSet] = {spec.name: spec for spec in _SETS}
