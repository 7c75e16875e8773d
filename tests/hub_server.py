"""A dataset hub on loopback: what the hub's own client asks for, answered from memory, by the standard library alone.

The protocol is read off `huggingface_hub` (1.8 and 2.4): files under `/datasets/REPOSITORY/resolve/REVISION/PATH`, with the
commit, the ETag and, for large files, a redirect to another server, where the bytes are; errors named in `X-Error-Code`; and the two
listings of `/api/datasets/`.
"""

from __future__ import annotations

import hashlib
import json
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from urllib.parse import unquote, urlsplit

MAIN_COMMIT = "0123456789abcdef0123456789abcdef01234567"


@dataclass(frozen=True)
class Request:
    """One request as it came in."""

    method: str
    path: str
    authorization: str | None


@dataclass
class HubServer:
    """Serves datasets while it is entered: `with HubServer() as hub: … hub.url …`."""

    token: str | None = None
    """What a client has to send; None when everybody may read."""
    failing: int | None = None
    """A status that answers everything while it is set."""
    breaking_off: bool = False
    """While it is set, the connection is closed where a large file's bytes should come."""
    requests: list[Request] = field(default_factory=list)
    """Every request to the hub itself, in the order of arrival."""
    downloads: list[Request] = field(default_factory=list)
    """The same for the server that large files are on."""
    _commits: dict[tuple[str, str], str] = field(default_factory=dict)
    _files: dict[tuple[str, str], dict[str, bytes]] = field(default_factory=dict)

    def add(
        self, repository: str, files: dict[str, bytes], commit: str = MAIN_COMMIT, branch: str | None = "main"
    ) -> None:
        """Publish a commit of a dataset.

        Args:
            repository: `owner/name`.
            files: path → content.
            commit: 40 hex digits.
            branch: a name for the commit, too.
        """
        self._files[repository, commit] = files
        self._commits[repository, commit] = commit
        if branch:
            self._commits[repository, branch] = commit

    @property
    def url(self) -> str:
        """What `HF_ENDPOINT` has to be."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> HubServer:
        hub = self

        class Hub(_Handler):
            served = hub

        class Storage(_Handler):
            served = hub
            stores = True

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
        self._storage = ThreadingHTTPServer(("127.0.0.1", 0), Storage)
        self._threads = [
            threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
            for server in (self._server, self._storage)
        ]
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for server in (self._server, self._storage):
            server.shutdown()
            server.server_close()
        for thread in self._threads:
            thread.join()

    def answer(self, path: str, authorization: str | None) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and body for a GET of this path; a HEAD gets the same without the body."""
        if self.failing is not None:
            return self.failing, {}, b"failing on purpose"
        parts = unquote(path).strip("/").split("/")
        if self.token is not None and authorization != f"Bearer {self.token}":
            return 401, {"X-Error-Code": "RepoNotFound"}, b"Invalid credentials"
        match parts:
            case ["datasets", owner, name, "resolve", revision, *inner]:
                return self._resolve(f"{owner}/{name}", revision, "/".join(inner))
            case ["api", "datasets", owner, name, "revision", revision]:
                return self._info(f"{owner}/{name}", revision)
            case ["api", "datasets", owner, name]:
                return self._info(f"{owner}/{name}", "main")
            case ["api", "datasets", owner, name, "tree", revision, *inner]:
                return self._tree(f"{owner}/{name}", revision, "/".join(inner))
        return 404, {}, b"no such page"

    def _commit(self, repository: str, revision: str) -> str | tuple[int, dict[str, str], bytes]:
        if all(name != repository for name, _ in self._commits):
            return 404, {"X-Error-Code": "RepoNotFound"}, b"Repository not found"
        commit = self._commits.get((repository, revision))
        return commit or (404, {"X-Error-Code": "RevisionNotFound"}, b"Invalid rev id")

    def _resolve(self, repository: str, revision: str, path: str) -> tuple[int, dict[str, str], bytes]:
        commit = self._commit(repository, revision)
        if not isinstance(commit, str):
            return commit
        content = self._files[repository, commit].get(path)
        if content is None:
            return 404, {"X-Error-Code": "EntryNotFound", "X-Repo-Commit": commit}, b"Entry not found"
        digest = hashlib.sha256(content).hexdigest()
        if path.endswith(".parquet"):
            headers = {
                "X-Repo-Commit": commit,
                "X-Linked-Etag": f'"{digest}"',
                "X-Linked-Size": str(len(content)),
                "Location": f"http://127.0.0.1:{self._storage.server_address[1]}/{digest}",
            }
            return 302, headers, b""
        return 200, {"X-Repo-Commit": commit, "ETag": f'"{_blob_id(content)}"'}, content

    def stored(self, path: str) -> tuple[int, dict[str, str], bytes]:
        """The same for the server that large files are on, which asks for no token: on a real hub the address is signed."""
        digest = path.strip("/")
        for files in self._files.values():
            for content in files.values():
                if hashlib.sha256(content).hexdigest() == digest:
                    return 200, {"ETag": f'"{digest}"'}, content
        return 404, {}, b"no such blob"

    def _info(self, repository: str, revision: str) -> tuple[int, dict[str, str], bytes]:
        commit = self._commit(repository, revision)
        if not isinstance(commit, str):
            return commit
        siblings = [{"rfilename": path} for path in sorted(self._files[repository, commit])]
        return _json({"id": repository, "sha": commit, "private": False, "siblings": siblings})

    def _tree(self, repository: str, revision: str, folder: str) -> tuple[int, dict[str, str], bytes]:
        commit = self._commit(repository, revision)
        if not isinstance(commit, str):
            return commit
        files = sorted(self._files[repository, commit].items())
        return _json(
            [
                {"type": "file", "path": path, "size": len(content), "oid": _blob_id(content)}
                for path, content in files
                if not folder or path.startswith(folder + "/")
            ]
        )


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    served: HubServer
    stores = False

    def do_GET(self) -> None:
        self._answer(with_body=True)

    def do_HEAD(self) -> None:
        self._answer(with_body=False)

    def _answer(self, with_body: bool) -> None:
        authorization = self.headers.get("Authorization")
        path = urlsplit(self.path).path
        if self.stores:
            self.served.downloads.append(Request(self.command, path, authorization))
            status, headers, body = self.served.stored(path)
        else:
            self.served.requests.append(Request(self.command, path, authorization))
            status, headers, body = self.served.answer(path, authorization)
        wanted = self.headers.get("Range", "")
        if status == 200 and wanted.startswith("bytes=") and wanted.endswith("-"):
            start = int(wanted[len("bytes=") : -1])
            headers["Content-Range"] = f"bytes {start}-{len(body) - 1}/{len(body)}"
            status, body = 206, body[start:]
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if with_body and self.stores and self.served.breaking_off:
            # Not a part of them: a client that goes on where it left off would have them all in the end.
            self.close_connection = True
        elif with_body:
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing: what came in is in `requests`."""


def _json(value: object) -> tuple[int, dict[str, str], bytes]:
    return 200, {"Content-Type": "application/json"}, json.dumps(value).encode()


def _blob_id(content: bytes) -> str:
    """Git's name for a file's content."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
