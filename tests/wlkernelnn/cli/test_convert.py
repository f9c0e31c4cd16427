from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml

from wlkernelnn.cli.convert.chemprop import ALIASES, COUNTERPARTS, INSTEAD, NEEDLESS, SAME, WITHOUT
from wlkernelnn.cli.main import main

COMMAND = """chemprop train --data-path {table} --task-type regression --split-type scaffold_balanced
--epochs 50
--message-hidden-dim 300 --depth=3 -s structure --metrics rmse mae --features-generators morgan_count -q
--aggregation norm --aggregation-norm 100 --max-lr 1e-3 --data-seed 7 --batch-norm --activation RELU"""
CONFIG = """# as version 2 writes it
data-path = {table}
smiles-columns = [structure]
ignore-columns = [name]
split-sizes = [0.7, 0.1, 0.2]
no-cache = False
output-dir = "runs/a b"
epochs = 50
checkpoint = None
multi-hot-atom-featurizer-mode = V2
"""


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "my set.csv"
    path.write_text("structure,name,logS,logP\nCCO,a,1,2\n")
    return path


def convert(*words: object, out: Path) -> tuple[dict[str, Any], str]:
    """Options that ``train`` takes, and the file's comments."""
    path = out / "config.yaml"
    assert main(["convert", "--output-path", str(path), *map(str, words)]) == 0
    with pytest.raises(SystemExit) as left:
        main(["train", "--config", str(path), "--print-config"])
    assert left.value.code == 0
    return yaml.safe_load(path.read_text()), path.read_text().partition("model:")[0]


def test_a_command(table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = shlex.split(COMMAND.format(table=shlex.quote(str(table))))
    options, comments = convert(*words, out=tmp_path)
    assert options == {
        "model": "wl",
        "data_path": str(table),
        "task_type": "regression",
        "split": "scaffold",
        "epochs": 50,
        "hidden_channels": 300,
        "num_iterations": 3,
        "smiles_columns": ["structure"],
        "metric": "rmse",
        "features": "ogb+morgan",
        "pooling": "sum",
        "lr": 1e-3,
        "output_dir": "runs/my set",
        "target_columns": ["name", "logS", "logP"],  # chemprop takes all but the SMILES
    }
    left_out = ["--aggregation-norm 100", "--batch-norm", "data_seed 7: there is one scaffold split"]
    err = capsys.readouterr().err
    for line in left_out:
        assert f"#   {line}\n" in comments
        assert f"left out, no such option here: {line}" in err
    assert "activation" not in comments  # relu is what networks here have
    assert convert(shlex.join(words), out=tmp_path)[0] == options  # one word


def test_a_config_and_the_command_over_it(table: Path, tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    config.write_text(CONFIG.format(table=table))
    options, comments = convert(config, out=tmp_path)
    assert options["split_sizes"] == [0.7, 0.1, 0.2]
    assert options["output_dir"] == "runs/a b"
    assert (options["smiles_columns"], options["target_columns"]) == (["structure"], ["logS", "logP"])
    assert "--multi-hot-atom-featurizer-mode V2" in comments
    assert "checkpoint" not in comments
    assert "the columns of targets are named" in comments
    over, _ = convert("chemprop", "train", "--config-path", config, "--epochs", 3, out=tmp_path)
    assert over == {**options, "epochs": 3}


def test_a_config_with_a_blank_in_its_name(table: Path, tmp_path: Path) -> None:
    (config := tmp_path / "my config.toml").write_text(CONFIG.format(table=table))
    assert convert(config, out=tmp_path)[0]["data_path"] == str(table)


def test_columns_that_are_no_targets(tmp_path: Path) -> None:
    (table := tmp_path / "set.csv").write_text("s,weight,a,b,rxn,part,y\n")
    words = ["train", "--data-path", table, "--weight-column", "weight", "--descriptors-columns", "a", "b"]
    words += ["--reaction-columns", "rxn", "--splits-column", "part"]
    assert convert(*words, out=tmp_path)[0]["target_columns"] == ["y"]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("", {"task_type": "regression"}),
        ("-t regression-mve", {"task_type": "regression", "loss": "mve"}),
        ("-t regression-quantile", {"task_type": "regression", "loss": "quantile"}),
        (
            "-l pinball --alpha 0.2",
            {"task_type": "regression", "loss": "quantile", "quantiles": [0.1, 0.5, 0.9]},
        ),
        (
            "--loss_function quantile_interval --quantile_loss_alpha 0.2",
            {"task_type": "regression", "loss": "quantile", "quantiles": [0.1, 0.5, 0.9]},
        ),
        ("-t multiclass-dirichlet --alpha 0.2", {"task_type": "classification"}),
    ],
)
def test_a_task_brings_its_loss(words: str, expected: dict[str, Any], tmp_path: Path) -> None:
    options, comments = convert(*f"train -i a.csv -s s --target-columns y {words}".split(), out=tmp_path)
    assert {name: options.get(name) for name in ("task_type", "loss", "quantiles")} == {
        "loss": None,
        "quantiles": None,
        **expected,
    }
    lost = "dirichlet" in words
    assert ("#   the loss of multiclass_dirichlet\n" in comments) is lost
    assert ("#   quantiles [0.1, 0.5, 0.9]: they belong to the loss quantile\n" in comments) is lost


def test_targets_of_molecules_beside_those_of_atoms(table: Path, tmp_path: Path) -> None:
    words = ["train", "-i", table, "--atom-target-columns", "logP"]
    assert convert(*words, out=tmp_path)[0]["target_columns"] == ["name", "logS"]
    assert convert(*words, "--mol-target-columns", "logS", out=tmp_path)[0]["target_columns"] == ["logS"]


@pytest.mark.parametrize(
    "command", ["python -m chemprop.train", "python3 -m chemprop train", "python -m chemprop.cli.main train"]
)
def test_a_module_and_options_that_were_renamed(command: str, tmp_path: Path) -> None:
    words = f"{command} -i a.csv --target-columns y -vv --no-batch-norm".split()
    options, comments = convert(*words, out=tmp_path)
    assert options["data_path"] == "a.csv"
    assert "no such option" not in comments


def test_comments_are_of_the_value(tmp_path: Path) -> None:
    words = "train -i a.csv -s s --target-columns y --split random --aggregation sum -l mse"
    comments = convert(*words.split(), out=tmp_path)[1]
    assert "#   --split random: the same molecule stays in one part\n" in comments
    assert "scaffold" not in comments
    assert "norm" not in comments
    assert "cross-entropy" not in comments


def test_version_1(tmp_path: Path) -> None:
    command = """chemprop_train --data_path far.csv --dataset_type classification --save_dir out --num_folds 5
    --features_generator rdkit_2d_normalized --no_features_scaling --metric prc-auc --hidden_size 64 --no_cuda
    --split_type cv --warmup_epochs 2.0 --class_balance"""
    options, comments = convert(*command.split(), "--target_columns", "y", out=tmp_path)
    assert options == {
        "model": "wl",
        "data_path": "far.csv",
        "task_type": "classification",
        "output_dir": "out",
        "features": "ogb+rdkit",
        "metric": "average_precision",
        "hidden_channels": 64,
        "accelerator": "cpu",
        "warmup_epochs": 2,
        "class_weight": "balanced",
        "target_columns": ["y"],
    }
    for line in (
        "--num-folds 5: train --cv 5 scores models by 5-fold cross-validation, and keeps none",
        "--no-features-scaling",
        "--split cv",
    ):
        assert f"#   {line}\n" in comments
    (tmp_path / "config.json").write_text(json.dumps({"data_path": "far.csv", "depth": 4, "dropout": 0.1}))
    options, _ = convert(tmp_path / "config.json", out=tmp_path)
    assert (options["num_iterations"], options["dropout"]) == (4, 0.1)


def test_what_version_1_leaves_in_its_folder(tmp_path: Path) -> None:
    """``args.json`` has what follows from the options, too."""
    options = {
        "data_path": "far.csv",
        "metric": "mae",
        "loss_function": "mse",
        "depth_solvent": 3,
        "gpu": None,
    }
    derived: dict[str, Any] = {"metrics": ["mae"], "num_tasks": 1, "task_names": ["y"], "cuda": False}
    derived |= {"device": {"_type": "python_object (type = device)"}, "adding_bond_types": True}
    derived |= {"features_scaling": True, "reproducibility": {"command_line": "python train.py"}}
    (tmp_path / "args.json").write_text(json.dumps(options | derived))
    found, comments = convert(tmp_path / "args.json", out=tmp_path)
    assert found == {
        "model": "wl",
        "data_path": "far.csv",
        "metric": "mae",
        "loss": "squared",
        "task_type": "regression",
        "output_dir": "runs/far",
    }
    assert "Left out" not in comments


@pytest.mark.parametrize("comment", ["", " # few", "  ; few [of] them # 'all'"])
def test_comments_in_a_config(tmp_path: Path, comment: str) -> None:
    lines = ["epochs = 3", "split = scaffold_balanced", "dropout: 0.1", "no-cuda", "data-path = 'far #1.csv'"]
    lines += ['target-columns = ["a # b", c]', "output-dir = runs/a#b", "smiles-columns = #SMILES"]
    (tmp_path / "config.toml").write_text("".join(f"{line}{comment}\n" for line in lines))
    assert convert(tmp_path / "config.toml", out=tmp_path)[0] == {
        "model": "wl",
        "epochs": 3,
        "split": "scaffold",
        "dropout": 0.1,
        "accelerator": "cpu",
        "data_path": "far #1.csv",
        "target_columns": ["a # b", "c"],
        "output_dir": "runs/a#b",
        "smiles_columns": ["#SMILES"],
        "task_type": "regression",
    }


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("", "which training? For example: wlkernelnn convert chemprop train"),
        (
            "chemprop predict --test-path a.csv",
            "(chemprop train …), got chemprop predict",
        ),
        ("chemprop train --data-path a.csv --hidden 3", "chemprop has no option --hidden"),
        ("chemprop train --dat-path a.csv", "no option --dat-path; do you mean --data-path?"),
        ("chemprop train --epochs 3", "--data-path is missing"),
        ("chemprop train --data-path a.csv --no-header-row", "names of columns in a.csv"),
        ("chemprop train --data-path a.csv --epochs many", "--epochs many: not as chemprop takes it"),
        ("chemprop train --data-path a.csv b.csv", "--data-path a.csv b.csv: not as chemprop takes it"),
        ("chemprop train --data-path a.csv --epochs 2 5", "--epochs 2 5: not as chemprop takes it"),
        ("chemprop train --data-path a.csv --dropout 0.1 0.2", "--dropout 0.1 0.2: not as chemprop takes it"),
        ("nowhere.toml", "nowhere.toml"),
    ],
)
def test_wrong_input(words: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["convert", *words.split()]) == 1
    assert message in capsys.readouterr().err


def test_every_option_has_one_meaning() -> None:
    assert not {*COUNTERPARTS} & {*NEEDLESS} | {*COUNTERPARTS, *NEEDLESS} & WITHOUT
    assert {*ALIASES.values()} <= {*COUNTERPARTS, *NEEDLESS} | WITHOUT
    assert not {*ALIASES} & ({*COUNTERPARTS, *NEEDLESS} | WITHOUT)
    assert {*SAME, *INSTEAD} <= WITHOUT


def test_several_columns_of_smiles_are_joined(tmp_path: Path) -> None:
    words = "train --data-path far.csv --smiles-columns drug solvent --target-columns y"
    options, comments = convert(*words.split(), out=tmp_path)
    assert (options["smiles_columns"], options["join_smiles"]) == (["drug", "solvent"], True)
    assert "--smiles-columns: joined to one molecule" in comments


def test_a_bounded_loss_reads_bounds(table: Path, tmp_path: Path) -> None:
    words = ("chemprop", "train", "--data-path", table, "--loss-function", "bounded-mse")
    options, comments = convert(*words, out=tmp_path)
    assert (options["loss"], options["censored"]) == ("squared", True)
    assert "--loss-function bounded-mse: squared, with the cells that are bounds (censored)" in comments


def test_a_table_without_targets_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "semi.csv"
    path.write_text("smiles;logS\nCCO;1\n")
    assert main(["convert", "chemprop", "train", "--data-path", str(path)]) == 1
    assert f"{path}: no column is left for targets (columns: 'smiles;logS')" in capsys.readouterr().err
