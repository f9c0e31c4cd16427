# What a first user does with the base install alone: import, help, train, predict. $1: the environment's bin.
"$1/python" - <<'PYTHON'
import importlib.util

import wlkernelnn.bench, wlkernelnn.datasets, wlkernelnn.estimators, wlkernelnn.kernels, wlkernelnn.sequence

assert "site-packages" in wlkernelnn.datasets.__file__, wlkernelnn.datasets.__file__
for extra in ("numba", "ogb", "grakel", "torch_scatter", "pytest"):
    assert importlib.util.find_spec(extra) is None, f"the base install brings {extra}"
PYTHON
"$1/wlkernelnn" --help > help.txt
"$1/wlkernelnn" benchmark --help >> help.txt
for verb in train predict evaluate fingerprint explain; do "$1/wlkernelnn" $verb --help >> help.txt; done
"$1/python" - <<'PYTHON'
rows = [("C" * n + end, n) for n in range(1, 16) for end in ("", "O", "N", "c1ccccc1")]
open("measured.csv", "w").writelines(["smiles,y\n", *(f"{smiles},{y}\n" for smiles, y in rows)])
PYTHON
"$1/wlkernelnn" train --data-path measured.csv --target-columns y --output-dir machine
"$1/wlkernelnn" train --data-path measured.csv --target-columns y --output-dir run --model wl --epochs 2 --hidden-channels 8
for model in machine run; do
    "$1/wlkernelnn" predict --test-path measured.csv --model-path $model --preds-path $model.csv
    [ "$(wc -l < $model.csv)" = 61 ]
done
"$1/wlkernelnn" benchmark chembl --quick --output-dir chembl
