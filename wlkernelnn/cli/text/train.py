"""Train a classifier on a table of texts and labels, or a language model on a text file."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wlkernelnn.cli.before import check_idle, check_run_folder
from wlkernelnn.cli.data import RandomSplitOptions, one_column, score_text
from wlkernelnn.cli.options import VerbParser, add_options, command_line, config_text, how_to_go_on, pick
from wlkernelnn.training.options import ON_MACHINES
from wlkernelnn.training.string_options import StringNetworkOptions, text_model

from .options import TextDataOptions, TextFitOptions, TextModelOptions, TextRunOptions, VectorOptions

if TYPE_CHECKING:
    from wlkernelnn.machines import TextMachine
    from wlkernelnn.training import StringEnsemble

    # What was trained, the content of metrics.json, and what writes the page.
    Trained = tuple[StringEnsemble | TextMachine, dict[str, Any], Callable[..., Path]]

TASKS = ("classification", "language")


GROUPS: dict[str, type] = {
    "Data": TextDataOptions,
    "Split": RandomSplitOptions,
    "Run": TextRunOptions,
    "Model": TextModelOptions,
    "Network": StringNetworkOptions,
    "Vectors of tokens": VectorOptions,
    "Training": TextFitOptions,
}
OF_TASKS = {
    **dict.fromkeys(
        ("text_columns", "target_columns", "max_length", "on_invalid", "splits_column"), TASKS[:1]
    ),
    **dict.fromkeys(
        ("data_seed", "ensemble_size", "bidirectional", "group_by_length", "l2", "balance"), TASKS[:1]
    ),
    **dict.fromkeys(vars(VectorOptions()), TASKS[:1]),
    **dict.fromkeys(("valid_path", "test_path", "bptt"), TASKS[1:]),
}
OF_NETWORKS = dict.fromkeys(
    [
        *(name for name in vars(StringNetworkOptions()) if name not in ("model", "ngram")),
        *(name for name in vars(TextFitOptions()) if name not in ("balance", "seed")),
        *(*vars(VectorOptions()), "ensemble_size", "resume"),
    ],
    ("kernel",),
)
OF_KERNELS = {"decay": ("kernel",), "feedback": ("kernel",)}
# Options that may change when a run resumes: they change no network (of files, the content is compared).
MAY_DIFFER = (
    *ON_MACHINES,
    *("output_dir", "data_path", "valid_path", "test_path", "embeddings_path", "ensemble_size", "resume"),
)


def main(argv: list[str] | None = None) -> None:
    parser = VerbParser("text train", __doc__)
    for title, source in GROUPS.items():
        new = [field.name for field in fields(source) if field.name not in parser.defaults]
        add_options(parser, title, source, new)
    parsed = parser.parse_args(argv)
    data = TextDataOptions(**pick(parsed, TextDataOptions))
    run = TextRunOptions(**pick(parsed, TextRunOptions))
    split = RandomSplitOptions(**pick(parsed, RandomSplitOptions))
    vectors = VectorOptions(**pick(parsed, VectorOptions))

    # Help does not wait for torch.
    from wlkernelnn.datasets.files.table_chunks import MOLECULE_SUFFIXES, is_table
    from wlkernelnn.report import PAGE, tried
    from wlkernelnn.training.folder import with_seeds
    from wlkernelnn.training.processes import dismiss, follow
    from wlkernelnn.training.text.networks import encoder
    from wlkernelnn.utils.checks import check_count
    from wlkernelnn.utils.files import alone_in, write_text

    # All that can be refused before data are read.
    # Files of SMILES are texts for a language model.
    table = is_table(data.data_path) and not data.data_path.lower().endswith(MOLECULE_SUFFIXES)
    parsed.task_type = task = data.task_type or ("classification" if table else "language")
    parsed.model = text_model(parsed.model, task, vectors.embeddings_path is not None)
    network = StringNetworkOptions(**pick(parsed, StringNetworkOptions))
    options = TextFitOptions(**pick(parsed, TextFitOptions)).of(task)
    with_seeds(options, run.ensemble_size)
    if data.task_type is None and not table and data.target_columns:
        raise ValueError(_needs_table(data))
    check_idle(parser, parsed, "task_type", {task}, OF_TASKS)
    if parsed.model == "spectrum":
        if task == "language":
            raise ValueError("--model spectrum tells classes apart: a language model needs a network")
        check_idle(parser, parsed, "model", {"spectrum"}, OF_NETWORKS)
        check_count("--ngram", network.ngram)
        if data.level == "characters" and network.ngram != StringNetworkOptions.ngram:
            raise ValueError("--ngram is of runs of words with --model spectrum: --level characters has none")
    else:
        check_idle(parser, parsed, "model", {network.model}, OF_KERNELS)
        _check_vectors(parsed)
        encoder(network, 1)
    _check_file(data, split, task, table)
    if follow(options):
        return
    directory = run.output_dir
    check_run_folder(parser, parsed, directory, MAY_DIFFER)
    train = _train_classifier if task == "classification" else _train_language
    config_path = directory / "config.yaml"
    with alone_in(directory):
        keep = Namespace(**{**vars(parsed), "resume": False})  # what the run is, not how it came about
        if not run.resume:  # what is resumed may turn out to be another run
            write_text(config_path, config_text(keep))
        try:
            model, report, write_page = train(data, split, run, network, vectors, options)
        except (KeyboardInterrupt, ChildProcessError) as error:
            if parsed.model == "spectrum":  # begun anew
                raise
            raise type(error)(how_to_go_on(error, config_path)) from None
        if run.resume:
            write_text(config_path, config_text(keep))
        told = {"command": command_line(parser, keep), "config": config_text(keep)}
        page = tried(lambda: write_page(**told), f"no {PAGE}")
    dismiss(options)
    _show(model, directory, report)
    if page is not None:
        print(f"report: {page}")


def _check_vectors(parsed: Namespace) -> None:
    if parsed.embeddings_path is None and parsed.freeze_embeddings:
        raise ValueError(
            "--freeze-embeddings needs --embeddings-path: vectors that are drawn must be learned"
        )
    if parsed.embeddings_path is not None:
        if parsed.embedding_channels != VectorOptions.embedding_channels:
            raise ValueError("--embedding-channels: the file of --embeddings-path has a width of its own")
        if not parsed.embeddings_path.is_file():
            raise FileNotFoundError(f"--embeddings-path: {parsed.embeddings_path}: no such file")


def _needs_table(data: TextDataOptions) -> str:
    return f"--data-path: {data.data_path}: a classifier needs a table, .csv, .tsv or .parquet"


def _check_file(data: TextDataOptions, split: RandomSplitOptions, task: str, table: bool) -> None:
    path = Path(data.data_path)
    if not (path.is_file() or (task == "language" and path.is_dir())):
        raise FileNotFoundError(f"--data-path: {path}: no such file")
    if task == "classification":
        if not table:
            raise ValueError(_needs_table(data))
        if not data.target_columns:
            raise ValueError(f"--target-columns: which column of {path} has the labels?")
        return
    others = {"--valid-path": data.valid_path, "--test-path": data.test_path}
    given = {option: other for option, other in others.items() if other is not None}
    if len(given) == 1:
        raise ValueError(f"give --valid-path and --test-path, or neither, got {''.join(given)} alone")
    if given and path.is_dir():
        raise ValueError(f"--data-path: {path} is a folder of three parts: leave out {' and '.join(given)}")
    for option, other in given.items():
        if not other.is_file():
            raise FileNotFoundError(f"{option}: {other}: no such file")
    if (given or path.is_dir()) and tuple(split.split_sizes) != RandomSplitOptions.split_sizes:
        raise ValueError("--split-sizes cuts one text into parts: here each part has a file of its own")


def _train_classifier(
    data: TextDataOptions,
    split: RandomSplitOptions,
    run: TextRunOptions,
    network: StringNetworkOptions,
    vectors: VectorOptions,
    options: Any,
) -> Trained:
    from wlkernelnn.datasets import random_split, texts_from, write_rejects
    from wlkernelnn.report import write_text_page
    from wlkernelnn.training import train_text_machine, train_texts

    label_column = one_column(data.target_columns, "--target-columns")
    rejects_path = run.output_dir / "rejects.csv"
    texts = texts_from(
        data.data_path,
        text_column=one_column(data.text_columns, "--text-columns"),
        label_column=label_column,
        split_column=split.splits_column,
        level=data.level,
        max_length=data.max_length,
        on_invalid=data.on_invalid,
        rejects_path=None if run.resume else rejects_path,
    )
    train, valid, test = split.split_sizes
    parts = texts.split_idx or random_split(len(texts), (train, valid, test), split.data_seed)
    of_tokens: dict[str, Any] = {name: getattr(data, name) for name in ("level", "max_length", "min_count")}
    of_tokens["target_name"] = str(label_column)
    model: StringEnsemble | TextMachine
    if network.model == "spectrum":
        weights = "balanced" if options.balance else None
        of_tokens |= {"ngram": network.ngram, "class_weight": weights}
        model, report = train_text_machine(texts, parts, run.output_dir, **of_tokens)
    else:
        model, report = train_texts(
            texts,
            parts,
            run.output_dir,
            options,
            network=network,
            **of_tokens,
            **vars(vectors),
            ensemble_size=run.ensemble_size,
            resume=run.resume,
        )
    if run.resume:
        write_rejects(rejects_path, texts.rejects, column="text")
    return model, report, partial(write_text_page, run.output_dir, model, report, texts, parts)


def _train_language(
    data: TextDataOptions,
    split: RandomSplitOptions,
    run: TextRunOptions,
    network: StringNetworkOptions,
    vectors: VectorOptions,
    options: Any,
) -> Trained:
    from wlkernelnn.datasets import load_text
    from wlkernelnn.datasets.text.vocabulary import UNKNOWN
    from wlkernelnn.report import write_text_page
    from wlkernelnn.training import train_language

    source: str | list[str | Path] = data.data_path
    if data.valid_path is not None and data.test_path is not None:
        source = [data.data_path, data.valid_path, data.test_path]
    elif Path(data.data_path).is_file():
        shares = " / ".join(f"{size:.0%}" for size in split.split_sizes)
        print(f"{data.data_path}: cut into train / valid / test, its first / next / last {shares} of tokens")
    train, valid, test = split.split_sizes
    corpus = load_text(
        source, level=data.level, sizes=(train, valid, test), unknown=UNKNOWN, min_count=data.min_count
    )
    model, report = train_language(
        corpus, run.output_dir, options, network=network, level=data.level, resume=run.resume
    )
    return model, report, partial(write_text_page, run.output_dir, model, report)


def _show(model: StringEnsemble | TextMachine, directory: Path, report: dict[str, Any]) -> None:
    """Print the scores, and where everything is."""
    from rich.console import Console
    from rich.table import Column, Table

    about, metric = model.about, report["metric"]
    language = about["task"] == "language"
    what = f"{report['vocabulary']:,} tokens" + ("" if language else f", {len(about['classes'])} classes")
    print(f"{about['name']}: {metric} ({what})")
    counted = "tokens" if language else "texts"
    table = Table("part", *(Column(name, justify="right") for name in (counted, metric)))
    for part, count in report["counts"].items():
        table.add_row(part, f"{count:,}", score_text(report[part]) if part in report else "")
    Console().print(table)
    print(
        f"{report['parameters']:,} parameters, trained in {report['seconds']:.0f} s; run folder: {directory}"
    )
