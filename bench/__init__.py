"""Benchmarks: the papers' tables, published sets of molecules, and races. One module each, by its name."""

#: The module of every benchmark, by the name that ``wlkernelnn benchmark`` knows.
BENCHMARKS: dict[str, str] = {
    "ablation": "molecules.ablation",
    "awd-lm": "language.awd_lm",
    "awd-stability": "language.awd_stability",
    "cep": "molecules.cep.cep",
    "chembl": "molecules.chembl",
    "colour-speed": "speed.any_network",
    "documents": "language.documents",
    "gp-speed": "kernels.gaussian_processes",
    "graph-kernels": "kernels.graph_kernels",
    "intervals": "molecules.intervals.intervals",
    "joint": "molecules.joint",
    "kernel-speed": "speed.kernels",
    "lfp": "signals.lfp",
    "moleculeace": "molecules.moleculeace",
    "moleculenet": "molecules.moleculenet",
    "ogb": "molecules.ogb",
    "organic-ri": "molecules.organic_ri",
    "predict-speed": "speed.prediction",
    "ptb": "language.ptb",
    "report": "harness.report",
    "ring-nodes": "kernels.ring_nodes",
    "rkm-speed": "speed.rkm",
    "rrnn": "language.rrnn.rrnn",
    "rrnn-speed": "speed.rrnn",
    "speed": "speed.molecules",
    "sst": "language.sst",
    "sst-trees": "language.sst_trees",
    "store-speed": "speed.store",
    "string-speed": "speed.strings",
    "theorems": "kernels.theorems",
    "time-to-accuracy": "speed.time_to_accuracy",
    "zinc": "molecules.zinc",
}

__all__ = ["BENCHMARKS"]
