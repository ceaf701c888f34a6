"""Where learned models lie: numbered versions, a file that names the current one, SHA-256 of each in a manifest.

Touches only the folder that it is given. A model is packed JSON: reading one executes nothing, and what does not match
its manifest is refused before it is unpacked.

    DIR/rad/current          the number of the version in use
    DIR/rad/3/model.json.gz
    DIR/rad/3/manifest.json  SHA-256 of model.json.gz, its size unpacked, what it reached on the held-out set
"""

from __future__ import annotations

import errno
import gzip
import hashlib
import json
import os
import tempfile
import zlib
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from estimator import files

SHIPPED = Path(__file__).parent / "models"
_CURRENT, _MODEL, _MANIFEST = "current", "model.json.gz", "manifest.json"
_MOST_DIGITS = 9
_MOST_LETTERS = 64  # digits, and room around them
_TAKEN = (errno.EEXIST, errno.ENOTEMPTY)
_MOST_BYTES = 64 * 1024 * 1024
_AGAIN = "install the version again, or roll back"
_GZIP = 16 + zlib.MAX_WBITS  # what zlib calls the format of gzip


class ModelError(ValueError):
    """A learned model that cannot be used; the message names the file and the cure."""


class OvertakenError(RuntimeError):
    """Another version was installed, or made current, since one looked."""


@dataclass(frozen=True)
class Seen:
    """What was in a store when one looked.

    Attributes:
        stamp: of the version in use (`Store.stamp`); None where that cannot be told.
        newest: the highest number; 0 where there is none.
    """

    stamp: tuple[int | None, ...] | None
    newest: int


@dataclass(frozen=True)
class Version:
    """One version of a learned model.

    Attributes:
        number: counts up from 1.
        current: whether it is in use.
        about: what the manifest says: when and from what it was fitted, what it reached.
    """

    number: int
    current: bool
    about: dict[str, Any]


class Store:
    """The versions of one method's model."""

    def __init__(self, folder: Path, method: str) -> None:
        """Name a folder; it is made when the first version is put into it.

        Args:
            folder: the folder of all models.
            method: name of the method.
        """
        self.folder = folder / method
        self.method = method

    @property
    def current(self) -> int | None:
        """Number of the version in use; None where nothing was installed.

        Raises:
            ModelError: the file that names it is damaged.
        """
        path = self.folder / _CURRENT
        try:
            text = files.read(path, _MOST_LETTERS).decode("ascii").strip()
        except FileNotFoundError:
            return None
        except ValueError:  # letters that are no number's, too many of them, or no regular file
            text = ""
        except OSError as error:
            raise _unread(path, error) from None
        if not text.isdecimal() or len(text) > _MOST_DIGITS:
            raise ModelError(f"{path} names no version: write the number of one of the folders beside it")
        return int(text)

    def stamp(self) -> tuple[int | None, ...]:
        """Tell what changes as soon as another version is current, or one of its files comes late or is mended.

        Raises:
            ModelError: the file that names the version is damaged.
        """
        number = self.current
        made: tuple[int | None, ...] = (number,)
        for name in (_MANIFEST, _MODEL):
            try:
                found = (self.folder / str(number) / name).stat()
            except OSError:
                made += (None,)
            else:
                made += (found.st_ino, found.st_ctime_ns, found.st_size)  # of a chmod, too
        return made

    def seen(self) -> Seen:
        """Tell what is there now, for `install` to notice what comes meanwhile."""
        try:
            stamp = self.stamp()
        except ModelError:
            stamp = None
        return Seen(stamp, max(self._numbers(), default=0))

    def versions(self) -> list[Version]:
        """List what is there, oldest first; a version whose manifest cannot be read is left out."""
        found: list[Version] = []
        current = self.current
        for number in self._numbers():
            try:
                about = self._manifest(number)
            except ModelError:
                continue
            found.append(Version(number, number == current, about.get("about", {})))
        return sorted(found, key=lambda version: version.number)

    def load(self, number: int | None = None) -> dict[str, Any]:
        """Read a model.

        Args:
            number: the version; None takes the current one.

        Raises:
            ModelError: there is none, it does not match its manifest, or it is no model of this method.
        """
        if number is None:
            number = self.current
            if number is None:
                raise ModelError(f"{self.folder} holds no model: run `radctl retrain --data DIR`")
        path = self.folder / str(number) / _MODEL
        manifest = self._manifest(number)
        data = _read(path)
        digest = hashlib.sha256(data).hexdigest()
        if digest != manifest.get("sha256"):
            raise ModelError(f"{path} is not what its manifest says: install it again, or roll back")
        try:
            model = json.loads(_unpacked(data, manifest.get("bytes")), object_hook=_as_is)
        except (ValueError, zlib.error, RecursionError) as error:
            raise ModelError(f"{path} is no packed JSON ({error}): install it again, or roll back") from None
        if not isinstance(model, dict) or model.get("method") != self.method:
            raise ModelError(f"{path} is no model of the method {self.method}")
        return model

    def install(self, model: dict[str, Any], about: dict[str, Any], over: Seen | None = None) -> int:
        """Put a new version in place and make it current.

        Args:
            model: what `load` will give back; ``method`` is added.
            about: what to keep of how it was made.
            over: what was there when the model was found fit to replace it; None for whatever is there.

        Returns:
            The new version's number.

        Raises:
            OvertakenError: it is no longer there: nothing is installed.
            OSError: it cannot be put there, as on a full disk.
        """
        data = json.dumps({**model, "method": self.method}, separators=(",", ":"), sort_keys=True).encode()
        packed = gzip.compress(data, mtime=0)  # without a time, equal models are equal files
        manifest = {"about": about, "bytes": len(data), "sha256": hashlib.sha256(packed).hexdigest()}
        try:
            with files.for_all_to_read():
                self.folder.mkdir(parents=True, exist_ok=True)
                with tempfile.TemporaryDirectory(dir=self.folder, prefix=".new-") as name:
                    made = Path(name) / "made"
                    made.mkdir()
                    (made / _MODEL).write_bytes(packed)
                    (made / _MANIFEST).write_text(json.dumps(manifest, indent=1, sort_keys=True) + "\n", "utf-8")
                    number = self._put(made, over)
            self.use(number)
        except OSError as error:
            error.filename = error.filename or str(self.folder)  # of a full disk none is named
            raise
        return number

    def _put(self, made: Path, over: Seen | None) -> int:
        """Give a version the next number, which another process may take first."""
        while True:
            if over is not None and self.seen() != over:
                raise OvertakenError
            number = max(self._numbers(), default=0) + 1
            try:
                made.rename(self.folder / str(number))
            except OSError as error:
                if error.errno not in _TAKEN:
                    raise
            else:
                return number

    def _numbers(self) -> list[int]:
        """List the numbers of folders of versions; what has a longer name, as a copy with its time, is none."""
        names = [path.name for path in self.folder.iterdir()] if self.folder.is_dir() else []
        return [int(name) for name in names if name.isdecimal() and len(name) <= _MOST_DIGITS]

    def use(self, number: int) -> None:
        """Make a version current, in one step for those who read.

        Raises:
            ModelError: there is no such version, or it is damaged.
        """
        self.load(number)
        handle, name = tempfile.mkstemp(dir=self.folder, prefix=".current-")
        try:
            with os.fdopen(handle, "w", encoding="ascii") as file:
                file.write(f"{number}\n")
                os.fchmod(handle, 0o644)  # not by its name: the folder is not root's alone
            Path(name).replace(self.folder / _CURRENT)
        finally:
            Path(name).unlink(missing_ok=True)

    def rollback(self) -> int | None:
        """Go back to the version before the current one; from the first, to what comes with the package (`store_for`).

        Versions that are damaged are passed over.

        Returns:
            The number that is current now; None where none is.

        Raises:
            ModelError: no version is current.
        """
        current = self.current
        if current is None:
            raise ModelError(f"{self.folder} holds no version: nothing to go back to")
        older = [version.number for version in self.versions() if version.number < current]
        for number in reversed(older):
            with suppress(ModelError):
                self.use(number)
                return number
        (self.folder / _CURRENT).unlink()
        return None

    def _manifest(self, number: int) -> dict[str, Any]:
        path = self.folder / str(number) / _MANIFEST
        try:
            manifest = json.loads(_read(path))
        except ModelError:
            raise
        except (ValueError, RecursionError) as error:
            raise ModelError(f"{path} cannot be read ({error}): install the version again") from None
        if not isinstance(manifest, dict) or not isinstance(manifest.get("about"), dict):
            raise ModelError(f"{path} is no manifest: install the version again")
        return manifest


def store_for(method: str, models_dir: Path | None) -> Store:
    """Choose the store of a method: the site's own models where it has any, else those that come with the package."""
    if models_dir is not None:
        store = Store(models_dir, method)
        if store.current is not None:
            return store
    return Store(SHIPPED, method)


def _read(path: Path) -> bytes:
    try:
        size = path.stat().st_size
        if size > _MOST_BYTES:
            raise ModelError(f"{path} is larger than any model of ours: {_AGAIN}")
        return files.read(path, size)
    except FileNotFoundError:
        raise ModelError(f"{path} is missing: {_AGAIN}") from None
    except files.FileRefusedError as error:
        raise ModelError(f"{error}: {_AGAIN}") from None
    except OSError as error:
        raise _unread(path, error) from None


def _unread(path: Path, error: OSError) -> ModelError:
    cure = "let everybody read it and enter its folder" if isinstance(error, PermissionError) else _AGAIN
    return ModelError(f"{path} cannot be read ({error.strerror}): {cure}")


def _as_is(found: dict[str, Any]) -> dict[str, Any]:
    """Leave an object of a model as it is; between two of them, as this is no C, threads that answer users run."""
    return found


def _unpacked(data: bytes, size: object) -> bytes:
    """Unpack a model; never more than the size that its manifest states, and than any model of ours has.

    Raises:
        ValueError: the manifest states no such size, or the model has another.
        zlib.error: it is not packed.
    """
    if not isinstance(size, int) or not 0 < size <= _MOST_BYTES:
        raise ValueError("its manifest states no size, or one larger than any model of ours")
    unpacker = zlib.decompressobj(_GZIP)
    made = unpacker.decompress(data, size + 1)
    if len(made) != size or not unpacker.eof:
        raise ValueError(f"its manifest states {size} bytes, unpacked it has another size")
    return made
