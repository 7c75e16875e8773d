"""What is remembered between starts: one SQLite database, `.cache/state.db`.

A record is a JSON value under a kind and a name (`action`, `plan`, `doit`, …), with a checksum; digests of files have
a table of their own, since there are many. Every record is true by itself, so that the loss of some costs time only:
nothing waits for the disk (`synchronous=OFF`), and what a crash of the machine may have mixed up fails its checksum.

    sqlite3 .cache/state.db "select kind, count(*) from record group by kind"
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import sqlite3
import sys
import threading
import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from gymbuild.cache.witness import Signature
from gymbuild.system.locks import files_have_locks, lock_file

NAME = "state.db"
FORMAT = 1
"""SQLite's `user_version`: a database of another format is emptied, never misread."""
_OLDER = ("state", "digests", "doit.db", "graph", "configs", "config-dependencies", "interpreters", "ignored")
"""Files of gymbuilds that had no database."""
_PATIENCE = 60.0
"""Seconds to wait while another builder writes."""
_SCHEMA = f"""
BEGIN IMMEDIATE;
CREATE TABLE IF NOT EXISTS record (
    kind TEXT, name TEXT, value TEXT NOT NULL, checksum INTEGER NOT NULL, PRIMARY KEY (kind, name)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS digest (
    path TEXT PRIMARY KEY, device TEXT, inode TEXT, size TEXT, mtime TEXT, ctime TEXT, digest TEXT NOT NULL
) WITHOUT ROWID;
PRAGMA user_version = {FORMAT};
COMMIT;
"""
_left_by_parent: list[sqlite3.Connection] = []
"""Connections that were open when this process was forked: SQLite's rule is not to touch them, not even to close."""


class Database:
    """The database of one checkout, shared by all builders. It is made by the first thing that is put in.

    Args:
        path: the file.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._connected: sqlite3.Connection | None = None
        self._identity: tuple[int, int, int] | None = None
        self._soft = False
        self._thread = threading.RLock()

    def get(self, kind: str, name: str) -> Any:
        """The value of a record; None where there is none, or a damaged one."""
        row = self._one("SELECT value, checksum FROM record WHERE kind = ? AND name = ?", (kind, _key(name)))
        return None if row is None else _value(kind, _key(name), *row)

    def all(self, kind: str) -> dict[str, Any]:
        """Every record of a kind, by name; damaged ones are passed over."""
        rows = self._rows("SELECT name, value, checksum FROM record WHERE kind = ?", (kind,))
        found = {_name(key): _value(kind, key, value, checksum) for key, value, checksum in rows}
        return {name: value for name, value in found.items() if value is not None}

    def put(self, records: Iterable[tuple[str, str, Any]]) -> None:
        """Write records in one transaction: all of them or none.

        Args:
            records: kind, name and JSON value; None removes a record.

        Raises:
            OSError: they cannot be written; all is as before.
        """
        rows = []
        removed = []
        for kind, name, value in records:
            key = _key(name)
            if value is None:
                removed.append((kind, key))
                continue
            text = json.dumps(value, separators=(",", ":"))
            rows.append((kind, key, text, _checksum(kind, key, text)))

        def write(connection: sqlite3.Connection) -> None:
            connection.executemany("DELETE FROM record WHERE kind = ? AND name = ?", removed)
            connection.executemany("INSERT OR REPLACE INTO record VALUES (?, ?, ?, ?)", rows)

        if rows or (removed and os.path.exists(self.path)):
            self._write(write)

    def replace_all(self, kind: str, values: dict[str, Any]) -> None:
        """Have exactly these records of a kind; those that are the same already are not written.

        Raises:
            OSError: they cannot be written; all is as before.
        """
        old = self.all(kind)
        changed = [(kind, name, value) for name, value in values.items() if old.get(name) != value]
        self.put([*((kind, name, None) for name in old if name not in values), *changed])

    def digest(self, path: str) -> tuple[Signature, str] | None:
        """The digest that a file had, with the signature that it was hashed under."""
        row = self._one(
            "SELECT device, inode, size, mtime, ctime, digest FROM digest WHERE path = ?", (_key(path),)
        )
        if row is None:
            return None
        device, inode, size, mtime, ctime = map(int, row[:5])
        return (device, inode, size, mtime, ctime), str(row[5])

    def put_digests(self, digests: Iterable[tuple[str, Signature, str]]) -> None:
        """Remember digests of files by path.

        Raises:
            OSError: they cannot be written.
        """
        # as text: an inode may have 64 bits, and SQLite's integers are signed
        rows = [(_key(path), *map(str, found), digest) for path, found, digest in digests]
        if rows:
            self._write(
                lambda connection: connection.executemany(
                    "INSERT OR REPLACE INTO digest VALUES (?, ?, ?, ?, ?, ?, ?)", rows
                )
            )

    # -- the connection ------------------------------------------------------------------------------------------

    def _one(self, query: str, values: tuple[object, ...]) -> tuple[Any, ...] | None:
        rows = self._rows(query, values)
        return rows[0] if rows else None

    def _rows(self, query: str, values: tuple[object, ...]) -> list[tuple[Any, ...]]:
        """What a query finds: nothing where there is no database, or none that can be read."""
        with self._thread:
            for attempt in range(2):
                try:
                    with self._locked():
                        connection = self._connection()
                        return [] if connection is None else connection.execute(query, values).fetchall()
                except sqlite3.Error as error:
                    if attempt or not self._mended(error):
                        return []
        return []

    def _write(self, change: Callable[[sqlite3.Connection], object]) -> None:
        with self._thread:
            for attempt in range(2):
                try:
                    with self._locked():
                        connection = self._connection() or self._create()
                        with _transaction(connection):
                            change(connection)
                        return
                except sqlite3.Error as error:
                    if attempt or not self._mended(error):
                        raise _os_error(error, self.path) from error

    def _connection(self) -> sqlite3.Connection | None:
        """The connection to the file that is there now; None where there is none."""
        identity = self._identity_now()
        if self._connected is not None and self._identity != identity:
            self._forget()
        if identity is None:
            return None
        if self._connected is None:
            connection = self._open("rw")
            self._check_format(connection)
            self._connected, self._identity = connection, identity
        return self._connected

    def _create(self) -> sqlite3.Connection:
        folder = os.path.dirname(self.path)
        os.makedirs(folder, exist_ok=True)
        _remove_older(folder)
        self._connected = self._open("rwc")
        self._connected.executescript(_SCHEMA)
        self._identity = self._identity_now()
        return self._connected

    def _open(self, mode: str) -> sqlite3.Connection:
        from urllib.parse import quote

        locks = "&vfs=unix-none" if self._soft else ""
        connection = sqlite3.connect(
            f"file:{quote(os.fsencode(self.path))}?mode={mode}{locks}",
            uri=True,
            timeout=_PATIENCE,
            isolation_level=None,
            check_same_thread=False,
        )
        connection.execute("PRAGMA synchronous = OFF")
        return connection

    def _check_format(self, connection: sqlite3.Connection) -> None:
        (found,) = connection.execute("PRAGMA user_version").fetchone()
        if found == FORMAT:
            return
        if found:
            print(f"{self.path} is of another gymbuild; what it holds is dropped", file=sys.stderr)
            connection.executescript("DROP TABLE IF EXISTS record; DROP TABLE IF EXISTS digest;")
        connection.executescript(_SCHEMA)

    def _identity_now(self) -> tuple[int, int, int] | None:
        try:
            status = os.stat(self.path)
        except OSError:
            return None
        return (os.getpid(), status.st_dev, status.st_ino)

    def _forget(self) -> None:
        if self._connected is not None:
            if self._identity is not None and self._identity[0] != os.getpid():
                _left_by_parent.append(self._connected)
            else:
                self._connected.close()
        self._connected = self._identity = None

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """Where the file system has no locks, ours is held in their place."""
        if not self._soft:
            yield
            return
        with lock_file(self.path + ".lock"):
            yield

    def _mended(self, error: sqlite3.Error) -> bool:
        """Whether another try may go well: the file was damaged and is gone, or our own locks are used from now on."""
        name = _error_name(error)
        if name in ("SQLITE_CORRUPT", "SQLITE_NOTADB"):
            self._forget()
            print(f"warning: {self.path} was damaged ({error}); it is made anew", file=sys.stderr)
            with contextlib.suppress(OSError):
                os.unlink(self.path)
            return True
        if name == "SQLITE_READONLY" or name.startswith("SQLITE_READONLY_DBMOVED"):
            self._forget()
            return self._identity_now() is None
        if name.startswith(("SQLITE_BUSY", "SQLITE_IOERR", "SQLITE_PROTOCOL")) and not self._soft:
            self._soft = not files_have_locks(os.path.dirname(self.path))
            if self._soft:
                self._forget()
            return self._soft
        return False


@contextlib.contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[None]:
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        with contextlib.suppress(sqlite3.Error):
            connection.execute("ROLLBACK")
        raise


def _remove_older(folder: str) -> None:
    """Remove what gymbuilds without a database have remembered; it is found out again."""
    found = [name for name in _OLDER if os.path.isfile(os.path.join(folder, name))]
    for name in found:
        for path in (name, name + ".table"):
            with contextlib.suppress(OSError):
                os.unlink(os.path.join(folder, path))
    if found:
        print(f"{folder} held records of an older gymbuild; they are dropped and made anew", file=sys.stderr)


def _key(name: str) -> str | bytes:
    """A name as SQLite takes it: text, or bytes where it is not valid text (paths may be that)."""
    return name if name.isascii() or _is_text(name) else name.encode("utf-8", "surrogatepass")


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _name(key: str | bytes) -> str:
    return key if isinstance(key, str) else key.decode("utf-8", "surrogatepass")


def _checksum(kind: str, key: str | bytes, text: str) -> int:
    name = key.encode() if isinstance(key, str) else key
    return zlib.crc32(text.encode(), zlib.crc32(b"%b\0%b\0" % (kind.encode(), name)))


def _value(kind: str, key: str | bytes, text: Any, checksum: Any) -> Any:
    if not isinstance(text, str) or _checksum(kind, key, text) != checksum:
        return None
    return json.loads(text)


def _error_name(error: sqlite3.Error) -> str:
    return str(getattr(error, "sqlite_errorname", ""))


def _os_error(error: sqlite3.Error, path: str) -> OSError:
    """SQLite's error as one of the operating system, which callers know how to tell."""
    name = _error_name(error)
    folder = os.path.dirname(path)
    if os.path.isdir(path):
        number = errno.EISDIR
    elif name == "SQLITE_FULL":
        number = errno.ENOSPC
    elif name.startswith("SQLITE_BUSY"):
        number = errno.EAGAIN
    elif name.startswith(("SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_PERM")):
        try:
            os.close(os.open(path if os.path.exists(path) else folder, os.O_RDONLY))
            writable = os.statvfs(folder).f_flag & os.ST_RDONLY == 0
            number = errno.EACCES if writable else errno.EROFS
        except OSError as found:
            number = found.errno or errno.EIO
    else:
        number = errno.EIO
    return OSError(number, os.strerror(number), path)


_databases: dict[str, Database] = {}


def database(cache: str) -> Database:
    """The database of a `.cache/`: one object for each in a process.

    Args:
        cache: the folder; it need not be there.
    """
    if cache not in _databases:
        _databases[cache] = Database(os.path.join(cache, NAME))
    return _databases[cache]


__all__ = ["Database", "database"]
