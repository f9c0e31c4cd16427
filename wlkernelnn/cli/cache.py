"""Show or clear the cache of packed data sets, which hold SMILES and targets."""

from __future__ import annotations

import argparse


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser("wlkernelnn cache", description=__doc__)
    parser.add_argument("action", nargs="?", choices=("show", "clear"), default="show", help="default: show")
    action = parser.parse_args(argv).action

    # Help does not wait for torch.
    from wlkernelnn.datasets.graphs.store_cache import MOST_BYTES, shrink, store_folder, stores

    folder = store_folder()
    if folder is None:
        print("there is no cache ($WLKERNELNN_CACHE is empty, or the user has no home)")
        return
    if action == "clear":
        print(f"{shrink(folder, -1):,} data sets removed from {folder}")
        return
    sizes = [size for _, size in stores(folder)]
    print(
        f"{folder}: {len(sizes):,} data sets, {sum(sizes) / 1e9:.2f} GB of at most {MOST_BYTES / 1e9:.1f} "
        "GB; $WLKERNELNN_CACHE says where, and nothing is kept where it is empty"
    )
