from __future__ import annotations

import gzip
import hashlib
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from wlkernelnn.datasets import cache_folder, content_sha256, download, find_file
from wlkernelnn.datasets.files.download import data_folders

CONTENT = b"smiles,y\nCCO,1\n" * 1000
CHECKSUM = hashlib.sha256(CONTENT).hexdigest()


class Handler(SimpleHTTPRequestHandler):
    """Serves a folder; what is called short.csv is announced longer than it is."""

    def send_header(self, keyword: str, value: str) -> None:
        if keyword == "Content-Length" and self.path.endswith("short.csv"):
            value = str(int(value) + 500)
        super().send_header(keyword, value)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("served")
    (folder / "whole.csv").write_bytes(CONTENT)
    (folder / "short.csv").write_bytes(CONTENT)
    (folder / "packed.csv.gz").write_bytes(gzip.compress(CONTENT))
    (folder / "broken.csv.gz").write_bytes(gzip.compress(CONTENT)[:-10])
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(folder))) as http:
        thread = threading.Thread(target=http.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{http.server_port}"
        http.shutdown()
        thread.join()


@pytest.mark.parametrize("name", ["whole.csv", "packed.csv.gz"])
def test_a_right_file_arrives(server: str, tmp_path: Path, name: str) -> None:
    target = tmp_path / "new" / name
    assert download(f"{server}/{name}", target, ["0" * 64, CHECKSUM], progress=True) == target
    assert content_sha256(target) == CHECKSUM
    assert [path.name for path in target.parent.iterdir()] == [name]


def test_a_file_url_will_do(tmp_path: Path) -> None:
    (tmp_path / "from.csv").write_bytes(CONTENT)
    download((tmp_path / "from.csv").as_uri(), tmp_path / "to.csv", [CHECKSUM])
    assert (tmp_path / "to.csv").read_bytes() == CONTENT


@pytest.mark.parametrize(
    ("name", "checksum", "kind", "message"),
    [
        ("whole.csv", "f" * 64, ValueError, f"has SHA-256 {CHECKSUM}, expected {'f' * 64}"),
        ("missing.csv", CHECKSUM, OSError, r"missing\.csv: could not be downloaded .*404"),
        ("short.csv", CHECKSUM, OSError, r"short\.csv: came cut short, 15,000 of 15,500 bytes"),
        ("broken.csv.gz", CHECKSUM, ValueError, "not a whole gzip file"),
    ],
)
def test_a_wrong_file_is_not_kept(
    server: str, tmp_path: Path, name: str, checksum: str, kind: type[Exception], message: str
) -> None:
    target = tmp_path / name
    target.write_text("what was there before")
    with pytest.raises(kind, match=message):
        download(f"{server}/{name}", target, [checksum])
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert target.read_text() == "what was there before"


def test_nobody_answers(tmp_path: Path) -> None:
    with pytest.raises(OSError, match=r"http://127\.0\.0\.1:1/x\.csv: could not be downloaded"):
        download("http://127.0.0.1:1/x.csv", tmp_path / "x.csv", [CHECKSUM])
    assert not list(tmp_path.iterdir())


def test_cache_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.setenv("WLKERNELNN_CACHE", str(tmp_path / "own"))
    assert cache_folder() == tmp_path / "own"
    monkeypatch.delenv("WLKERNELNN_CACHE")
    assert cache_folder() == tmp_path / "xdg" / "wlkernelnn"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder() == tmp_path / ".cache" / "wlkernelnn"


def test_folders_are_searched_in_order(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("root", "environment", "cache/data"):
        (tmp_path / name).mkdir(parents=True)
    root, environment, cache = tmp_path / "root", tmp_path / "environment", tmp_path / "cache" / "data"
    monkeypatch.setenv("WLKERNELNN_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("WLKERNELNN_DATA", raising=False)
    assert data_folders() == [cache]
    monkeypatch.setenv("WLKERNELNN_DATA", str(environment))
    assert data_folders() == [environment, cache]
    assert data_folders(root) == [root, cache]

    name = "group/set.csv"
    assert find_file(name, root) is None
    (cache / "set.csv.gz").touch()
    assert find_file(name, root) == find_file(name) == cache / "set.csv.gz"
    (environment / "set.csv").touch()
    assert find_file(name) == environment / "set.csv"
    assert find_file(name, root) == cache / "set.csv.gz"
    (environment / "group").mkdir()
    (environment / "group" / "set.csv.gz").touch()
    assert find_file(name) == environment / "group" / "set.csv.gz"


def test_a_folder_that_is_not_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="nowhere: root is not a folder"):
        find_file("x.csv", tmp_path / "nowhere")
    monkeypatch.setenv("WLKERNELNN_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(FileNotFoundError, match=r"nowhere: \$WLKERNELNN_DATA is not a folder"):
        find_file("x.csv")


def test_content_checksum_looks_through_gzip(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(CONTENT)
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(CONTENT))
    assert content_sha256(tmp_path / "a.csv") == content_sha256(tmp_path / "a.csv.gz") == CHECKSUM
    (tmp_path / "a.csv.gz").write_bytes(CONTENT)
    with pytest.raises(ValueError, match=r"a\.csv\.gz: not a whole gzip file"):
        content_sha256(tmp_path / "a.csv.gz")
