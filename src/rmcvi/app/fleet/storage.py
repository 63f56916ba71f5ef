"""Objects by their names, on any storage that fsspec knows: s3://, gs://, sftp://, file://.

What is asked of a storage is little: an object that was written can be read, and is listed. Nothing
is renamed, appended to or changed, and an object that was written in part (file systems allow it)
does no harm: it is `sealed`, or named by a sealed one that is written after it.
"""

import contextlib
import hashlib
import importlib
import json
import os
import shutil
import tempfile
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from rmcvi.app.run.speech import Refusal
from rmcvi.core.files import to_json


def is_remote(place: str) -> bool:
    """Whether a fleet's place is not simply a directory."""
    return "://" in place or "::" in place


def sealed(plain: dict[str, Any]) -> bytes:
    """Plain values, so that it can be seen whether they are whole."""
    text = to_json(plain)
    return f"{zlib.crc32(text.encode())} {text}\n".encode()


def unsealed(content: bytes) -> dict[str, Any] | None:
    """The same again; None if they are not as they were written."""
    crc, _, text = content.decode("utf-8", "replace").strip().partition(" ")
    return json.loads(text) if crc == str(zlib.crc32(text.encode())) else None


class Storage:
    """What is under one address."""

    def __init__(self, url: str):
        self.url = url.rstrip("/")
        try:
            core: Any = importlib.import_module("fsspec.core")
        except ImportError:
            raise Refusal(f"{url}: needs fsspec; install rmcvi with its extra 'remote'") from None
        try:
            self._system, root = core.url_to_fs(self.url)
        except (ImportError, ValueError) as error:
            raise Refusal(f"{url}: {str(error).rstrip('.')}") from None
        self._root = root.rstrip("/")

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}" if name else self._root

    def names(self, folder: str = "") -> list[str]:
        """Objects and folders in a folder; none if there is none."""
        self._system.invalidate_cache()
        try:
            found = self._system.ls(self._path(folder), detail=False)
        except FileNotFoundError:
            return []
        return sorted({name.rstrip("/").rpartition("/")[2] for name in found})

    def read(self, name: str) -> bytes:
        """The content of an object."""
        return self._system.cat_file(self._path(name))

    def write(self, name: str, content: bytes) -> None:
        """A new object, whole when this returns."""
        self._make_room(name)
        self._system.pipe_file(self._path(name), content)

    def get(self, name: str, path: Path) -> None:
        """An object as a file here."""
        path.parent.mkdir(parents=True, exist_ok=True)
        self._system.get_file(self._path(name), str(path))

    def put(self, path: Path, name: str) -> None:
        """A file here as an object."""
        self._make_room(name)
        self._system.put_file(str(path), self._path(name))

    def _make_room(self, name: str) -> None:
        self._system.makedirs(self._path(name).rpartition("/")[0], exist_ok=True)

    def remove(self, names: Iterable[str]) -> None:
        """Objects that are needed no more, or are gone already."""
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                self._system.rm_file(self._path(name))

    def remove_all(self) -> None:
        """Everything."""
        self._system.rm(self._root, recursive=True)


def scratch(place: str, name: str) -> Path:
    """A folder on this machine to work in, the same for all that work on the same thing."""
    home = Path(tempfile.gettempdir()) / f"rmcvi-{os.getuid()}"
    home.mkdir(mode=0o700, exist_ok=True)
    if home.is_symlink() or home.stat().st_uid != os.getuid():
        raise Refusal(f"{home}: belongs to another user, expected a folder of ours")
    folder = home / f"{hashlib.blake2b(place.encode(), digest_size=8).hexdigest()}-{name}"
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


def emptied(folder: Path) -> Path:
    """The same folder with nothing in it but its locks."""
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        elif path.suffix != ".lock":
            path.unlink()
    return folder
