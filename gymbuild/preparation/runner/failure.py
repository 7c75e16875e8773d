"""What an error of a script says, and whether it may pass."""

from __future__ import annotations

import os
import sys

_NETWORK_CLASSES = frozenset(
    [
        "builtins.ConnectionError",
        "builtins.TimeoutError",
        "asyncio.exceptions.TimeoutError",
        "concurrent.futures._base.TimeoutError",
        "subprocess.TimeoutExpired",
        "socket.gaierror",
        "socket.herror",
        "socket.timeout",
        "ssl.SSLError",
        "urllib.error.URLError",
        "http.client.IncompleteRead",
        "http.client.BadStatusLine",
        "requests.exceptions.ConnectionError",
        "requests.exceptions.Timeout",
        "requests.exceptions.ChunkedEncodingError",
        "httpx.NetworkError",
        "httpx.TimeoutException",
        "httpx.RemoteProtocolError",
        "httpx.ProxyError",
        "httpx2.NetworkError",
        "httpx2.TimeoutException",
        "httpx2.RemoteProtocolError",
        "httpx2.ProxyError",
        "httpcore.NetworkError",
        "httpcore.TimeoutException",
        "httpcore.RemoteProtocolError",
        "httpcore.ProxyError",
        "httpcore2.NetworkError",
        "httpcore2.TimeoutException",
        "httpcore2.RemoteProtocolError",
        "httpcore2.ProxyError",
        "urllib3.exceptions.MaxRetryError",
        "urllib3.exceptions.TimeoutError",
        "urllib3.exceptions.NewConnectionError",
        "urllib3.exceptions.ProtocolError",
        "urllib3.exceptions.ProxyError",
        "urllib3.exceptions.SSLError",
        "aiohttp.client_exceptions.ClientConnectionError",
        "aiohttp.client_exceptions.ClientPayloadError",
        "huggingface_hub.errors.OfflineModeIsEnabled",
        "huggingface_hub.errors.LocalEntryNotFoundError",
        "huggingface_hub.errors.InferenceTimeoutError",
    ]
)
_NETWORK_NAMES = frozenset(
    [
        "OfflineModeIsEnabled",
        "LocalEntryNotFoundError",
        "ConnectTimeout",
        "ReadTimeout",
        "EndpointConnectionError",
    ]
)
"""Classes that are in several modules, by the version of their library."""
_PASSING_ERRNO = frozenset(
    [
        "ENOSPC",
        "EDQUOT",
        "ENETUNREACH",
        "EHOSTUNREACH",
        "ENETDOWN",
        "EHOSTDOWN",
        "ETIMEDOUT",
        "ECONNREFUSED",
        "ECONNRESET",
        "ECONNABORTED",
        "ENETRESET",
    ]
)
_MISTAKES = (NameError, AttributeError, TypeError, ImportError, SyntaxError, AssertionError)


def may_pass(error: BaseException) -> bool:
    """Whether an exception, or one that it came from, tells of a network, or room on a disk, that may be there another time.

    Libraries are told by the names of their exception classes, since none of them can be imported here.
    The first exception of the chain that decides, decides: an HTTP status, or a class of network errors.
    """
    pending: list[BaseException | None] = [error]
    done = set()
    while pending:
        following = pending.pop(0)
        if following is None or id(following) in done:
            continue
        error = following
        done.add(id(error))
        verdict = _network_verdict(error)
        if verdict is not None:
            return verdict
        grouped = getattr(error, "exceptions", None)
        if isinstance(grouped, (list, tuple)):
            pending.extend(item for item in grouped if isinstance(item, BaseException))
        pending.append(error.__cause__)
        reason = getattr(error, "reason", None)
        if isinstance(reason, BaseException):
            pending.append(reason)
        if not error.__suppress_context__ and not isinstance(error, _MISTAKES):
            pending.append(error.__context__)
    return False


def _network_verdict(error: BaseException) -> bool | None:
    status = _http_status(error)
    if status is not None:
        return status in (408, 425, 429) or status >= 500
    classes = type(error).__mro__
    names = {c.__module__ + "." + c.__qualname__ for c in classes}
    names |= {c.__module__.partition(".")[0] + "." + c.__qualname__ for c in classes}
    if "ssl.SSLCertVerificationError" in names:
        return False
    if "urllib.error.URLError" in names:
        reason = getattr(error, "reason", None)
        if isinstance(reason, BaseException):
            return _network_verdict(reason) or False
        return not str(reason).startswith(("unknown url type", "no host given"))
    if names & _NETWORK_CLASSES or {c.__name__ for c in classes} & _NETWORK_NAMES:
        return True
    if isinstance(error, OSError) and error.errno is not None:
        import errno

        if errno.errorcode.get(error.errno) in _PASSING_ERRNO:
            return True
    return None


def _http_status(error: BaseException) -> int | None:
    response = getattr(error, "response", None)
    module = type(error).__module__
    for holder, name in (
        (response, "status_code"),
        (response, "status"),
        (error, "status_code"),
        (error, "status") if module.partition(".")[0] == "aiohttp" else (None, ""),
        (error, "code") if "urllib.error" in module else (None, ""),
    ):
        status = getattr(holder, name, None) if holder is not None else None
        if type(status) is int and 100 <= status < 600:
            return status
    return None


def describe(error: BaseException, root: str) -> dict[str, str]:
    """The error as the result carries it; its traceback begins in the script.

    Args:
        error: what the script raised.
        root: the checkout, whose modules are not taken for the standard library's.
    """
    search, sys.path[:] = sys.path[:], [path for path in sys.path if path and not path.startswith(root)]
    try:
        import traceback
    finally:
        sys.path[:] = search
    runner = os.path.dirname(os.path.abspath(__file__))
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith((runner, "<frozen importlib")):
        trace = trace.tb_next
    if isinstance(error, SystemExit):
        code = error.code
        message = "the script ended itself by sys.exit(" + ("" if code is None else repr(code)) + ")"
    else:
        message = "".join(traceback.format_exception_only(type(error), error)).strip()
    text = "".join(traceback.format_exception(type(error), error, trace))
    kind = "may_pass" if may_pass(error) else "failed"
    return {"kind": kind, "type": type(error).__qualname__, "message": message, "traceback": text}
