"""Access control and response headers of the web applications.

The workbench shows private information. It listens on the loopback interface only, requires the
token in the address that it prints, and rejects writes that another site could have sent. Its
responses are not cached. The release explorer shows a release, which the promise covers: it is
read-only and has no secrets. Both reject requests under unknown host names if their own names are
known, because of DNS rebinding: another site may point its name to this machine, and its scripts
could then read the pages.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hushtable.errors import HushtableError
from hushtable.web import words

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
"""Content security policy: own files only, no inline scripts, no eval, no frames."""

REPORT_POLICY = (
    "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; "
    "base-uri 'none'; frame-ancestors 'none'"
)
"""Policy of self-contained reports, which have inline styles and no scripts."""

_HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
LOOPBACK = ("127.0.0.1", "::1", "localhost")
MAX_FORM = 2**20  # bytes of a form without files


class RequestTooLarge(HushtableError):  # noqa: N818 - reads as what happened
    """The request is larger than the limit."""


class NotAllowed(HushtableError):  # noqa: N818 - reads as what happened
    """A write without the CSRF token of this browser."""


class ResponseHeaders:
    """Middleware that sets security headers, and hides the messages of unexpected errors."""

    def __init__(self, app: ASGIApp, headers: Mapping[str, str] | None = None) -> None:
        self._app = app
        self._headers = {**_HEADERS, **(headers or {})}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun = False

        async def sending(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                headers = MutableHeaders(scope=message)
                for name, value in self._headers.items():
                    headers.setdefault(name, value)
            await send(message)

        try:
            await self._app(scope, receive, sending)
        except Exception as error:
            # The message may contain private values: show only its type, and log nothing.
            if not begun:
                told = words.INTERNAL_ERROR.format(kind=type(error).__name__)
                await PlainTextResponse(told, 500)(scope, receive, sending)


def own_names(port: int) -> set[str]:
    """Return the values of the Host header that a browser on this machine sends for a port."""
    names = ("127.0.0.1", "localhost", "[::1]")
    # Browsers omit the default port.
    return {f"{name}:{port}" for name in names} | (set(names) if port == 80 else set())


class HostNameCheck:
    """Middleware that rejects requests with an unknown Host header.

    Parameters
    ----------
    app : ASGI application
        The wrapped application.
    names : collection of str
        Allowed values of the ``Host`` header, in lower case.
    message : str
        Message for other requests.
    """

    def __init__(self, app: ASGIApp, *, names: Collection[str], message: str) -> None:
        self._app = app
        self._names = frozenset(names)
        self._message = message

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Forward a request, or reject it."""
        known = scope["type"] != "http" or Headers(scope=scope).get("host", "").lower() in (
            self._names
        )
        await (self._app if known else PlainTextResponse(self._message, 400))(scope, receive, send)


@dataclass(frozen=True)
class TokenGate:
    """Token and cookies that authenticate a browser.

    Token and key are valid while the program runs. A ticket is a token that is valid once. It is
    used in addresses that other users of this machine may see, such as a command-line argument of
    the browser.
    """

    token: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)
    _key: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)
    _tickets: set[str] = field(default_factory=set, repr=False)

    def admits(self, token: str) -> bool:
        """Return whether this is the token or an unused ticket; use up the ticket."""
        if hmac.compare_digest(token.encode(), self.token.encode()):
            return True
        digest = sha256(token.encode()).hexdigest()
        if digest not in self._tickets:
            return False
        self._tickets.remove(digest)
        return True

    def new_ticket(self) -> str:
        """Create a token that is valid once."""
        ticket = secrets.token_urlsafe(32)
        self._tickets.add(sha256(ticket.encode()).hexdigest())
        return ticket

    def new_cookie(self) -> str:
        """Create a cookie for one browser."""
        nonce = secrets.token_urlsafe(16)
        return f"{nonce}.{self._sign('cookie', nonce)}"

    def knows(self, cookie: str) -> bool:
        """Return whether this program created the cookie."""
        nonce, _, signature = cookie.partition(".")
        return hmac.compare_digest(signature.encode(), self._sign("cookie", nonce).encode())

    def csrf(self, cookie: str) -> str:
        """Return the CSRF token that every write of this browser must contain."""
        return self._sign("write", cookie)

    def _sign(self, purpose: str, text: str) -> str:
        return hmac.new(self._key, f"{purpose}:{text}".encode(), sha256).hexdigest()


class LocalGuard:
    """Middleware that restricts the workbench to authenticated browsers on this machine.

    Parameters
    ----------
    app : ASGI application
        The workbench.
    gate : TokenGate
        Token and cookies.
    port : int
        Port of the workbench; each port has its own cookie.
    max_upload : int
        Maximum size in bytes of a request to a path that ends in ``/upload``.
    """

    def __init__(self, app: ASGIApp, *, gate: TokenGate, port: int, max_upload: int) -> None:
        self._app = app
        self._gate = gate
        self._cookie = f"hushtable-{port}"
        self._max_upload = max_upload

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Forward a request, or reject it with a reason."""
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})  # the workbench has no websockets
            return
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        refusal = self._refusal(scope)
        if refusal is not None:
            await refusal(scope, receive, send)
            return
        limit = self._max_upload if scope["path"].endswith("/upload") else MAX_FORM
        declared = Headers(scope=scope).get("content-length", "0")
        if not declared.isdecimal() or int(declared) > limit:
            await PlainTextResponse(_too_much(limit), 413)(scope, receive, send)
            return
        await self._app(scope, _counted(receive, limit), send)

    def _refusal(self, scope: Scope) -> Response | None:
        """Return a response that rejects the request, or None to forward it."""
        request = Request(scope)
        if request.method not in {"GET", "HEAD", "POST"}:
            return PlainTextResponse(words.METHOD_NOT_ALLOWED, 405)
        if scope["path"].startswith("/static/"):
            return None
        if scope["path"] == "/" and "token" in request.query_params:
            return self._entrance(request.query_params["token"])
        cookie = request.cookies.get(self._cookie, "")
        if told := self._reason(request, cookie):
            return PlainTextResponse(told, 403)
        scope.setdefault("state", {})["csrf"] = self._gate.csrf(cookie)
        return None

    def _entrance(self, token: str) -> Response:
        if not self._gate.admits(token):
            return PlainTextResponse(words.WRONG_TOKEN, 403)
        entrance = RedirectResponse("/", 303)
        entrance.set_cookie(
            self._cookie, self._gate.new_cookie(), httponly=True, samesite="strict", path="/"
        )
        return entrance

    def _reason(self, request: Request, cookie: str) -> str:
        """Return why a browser is rejected, or an empty string."""
        if not self._gate.knows(cookie):
            return str(words.NO_COOKIE)
        origin, site = request.headers.get("origin"), request.headers.get("sec-fetch-site")
        own = f"http://{request.headers['host']}"
        if request.method == "POST" and (
            origin not in (None, own) or site not in (None, "same-origin")
        ):
            return str(words.FOREIGN_ORIGIN)
        return ""


def require_csrf(request: Request, given: Any) -> None:
    """Raise an error if a write does not contain the CSRF token of its browser."""
    wanted: str = request.state.csrf
    if not isinstance(given, str) or not hmac.compare_digest(given.encode(), wanted.encode()):
        raise NotAllowed(words.MISSING_CSRF)


def _counted(receive: Receive, limit: int) -> Receive:
    """Wrap `receive` to reject a body that exceeds the limit, whatever its declared length."""
    total = 0

    async def counting() -> Message:
        nonlocal total
        message = await receive()
        total += len(message.get("body", b""))
        if total > limit:
            raise RequestTooLarge(_too_much(limit))
        return message

    return counting


def _too_much(limit: int) -> str:
    return str(words.TOO_MUCH.format(limit=f"{limit:,}"))
