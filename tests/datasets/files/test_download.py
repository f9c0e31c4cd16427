"""Finding, downloading and reading files."""

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
from wlkernelnn.datasets.files.download import data_folders, read_text

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


def test_no_cache_is_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WLKERNELNN_DATA", raising=False)
    monkeypatch.setenv("WLKERNELNN_CACHE", "")
    assert cache_folder() is None
    for name in ("WLKERNELNN_CACHE", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Path, "home", classmethod(lambda cls: _unknown_user()))
    assert cache_folder() is None
    with pytest.raises(
        FileNotFoundError, match=r"no folder for data sets: neither root nor \$WLKERNELNN_DATA"
    ):
        find_file("esol.csv")


def _unknown_user() -> Path:
    raise RuntimeError("Could not determine home directory.")


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


TEXT = "née\r\n\u0085 8\u00a01/2\n"


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz", "a.TXT.GZ"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_text_is_as_it_was_written(tmp_path: Path, name: str, encoding: str) -> None:
    content = TEXT.encode(encoding)
    path = tmp_path / name
    path.write_bytes(gzip.compress(content) if name.lower().endswith("gz") else content)
    # A byte order mark goes, however the encoding is called.
    assert read_text(path, "utf-8" if "8" in encoding else encoding) == TEXT


def test_wrong_encodings(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes("ab\ncd\n\ne né\n".encode("latin-1"))
    with pytest.raises(ValueError, match=r"a\.txt: line 4: byte 0xe9 at 10 is not utf-8 \(invalid cont"):
        read_text(path)
    assert read_text(path, "latin-1").endswith("né\n")
    with pytest.raises(ValueError, match=r"line 4: byte 0xe9 at 10 is not ascii"):
        read_text(path, "ascii")
    path.write_bytes("ab".encode("utf-16"))
    with pytest.raises(ValueError, match=r"line 1: byte 0xff at 0 is not utf-8"):
        read_text(path)
    with pytest.raises(ValueError, match="unknown encoding 'utf-9'"):
        read_text(path, "utf-9")


def test_files_that_are_not_there_or_damaged(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"a\.txt: no such file"):
        read_text(tmp_path / "a.txt")
    path = tmp_path / "a.txt.gz"
    for content in (gzip.compress(b"x" * 1000)[:-9], b"not compressed"):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"a\.txt\.gz: not a whole gzip file"):
            read_text(path)
