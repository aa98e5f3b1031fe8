"""Who may come in, and what a page may do.

The desk shows what only the custodian may see, so it listens to this machine alone, takes nobody
without the token of its first address, and believes no write that another site could have made.
What it hands out is stored nowhere. The analyst's page shows a release, which the promise covers:
it only reads, and has no secrets. Neither answers to a foreign name, where its own are known: a
site elsewhere may let its name lead to this machine, and its scripts would read what is here.
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
"""What a page may load and run: files of this program, no inline script, no eval, no frames."""

REPORT_POLICY = (
    "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; "
    "base-uri 'none'; frame-ancestors 'none'"
)
"""For the self-contained reports, which bring their style along and run nothing."""

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
MAX_FORM = 2**20  # bytes of what is typed into a form


class TooMuch(HushtableError):  # noqa: N818 - reads as what happened
    """More bytes were sent than are taken."""


class NotAllowed(HushtableError):  # noqa: N818 - reads as what happened
    """A write without the word that only a page of this desk has."""


class Shield:
    """Set the headers of every answer, and let no message of a foreign error out.

    Parameters
    ----------
    app : ASGI application
        What answers.
    headers : mapping
        Headers beside those that all pages have.
    """

    def __init__(self, app: ASGIApp, headers: Mapping[str, str] | None = None) -> None:
        self._app = app
        self._headers = {**_HEADERS, **(headers or {})}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
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
            # Its message may quote private values, so only its kind is told, and nothing is logged.
            if not begun:
                told = words.INTERNAL_ERROR.format(kind=type(error).__name__)
                await PlainTextResponse(told, 500)(scope, receive, sending)


def own_names(port: int) -> set[str]:
    """Give the names that a browser on this machine calls a port by."""
    names = ("127.0.0.1", "localhost", "[::1]")
    # Browsers leave the usual port out.
    return {f"{name}:{port}" for name in names} | (set(names) if port == 80 else set())


class Named:
    """Answer only whoever calls by a name that is known.

    Parameters
    ----------
    app : ASGI application
        What answers.
    names : collection of str
        What the header ``Host`` may say, in small letters.
    told : str
        What others are told.
    """

    def __init__(self, app: ASGIApp, *, names: Collection[str], told: str) -> None:
        self._app = app
        self._names = frozenset(names)
        self._told = told

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request pass, or refuse it."""
        known = scope["type"] != "http" or Headers(scope=scope).get("host", "").lower() in (
            self._names
        )
        await (self._app if known else PlainTextResponse(self._told, 400))(scope, receive, send)


@dataclass(frozen=True)
class Door:
    """Let in whoever knows the token, and recognize them by a cookie afterwards.

    Token and key last as long as the program runs. A ticket is a token that lets in once: for an
    address that others on this machine may see, such as an argument of the program that opens the
    browser.
    """

    token: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)
    _key: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)
    _tickets: set[str] = field(default_factory=set, repr=False)

    def admits(self, token: str) -> bool:
        """Tell whether this is the token, or a ticket, which is then used up."""
        if hmac.compare_digest(token.encode(), self.token.encode()):
            return True
        digest = sha256(token.encode()).hexdigest()
        if digest not in self._tickets:
            return False
        self._tickets.remove(digest)
        return True

    def new_ticket(self) -> str:
        """Make a token that lets in once."""
        ticket = secrets.token_urlsafe(32)
        self._tickets.add(sha256(ticket.encode()).hexdigest())
        return ticket

    def new_cookie(self) -> str:
        """Make a cookie for one browser."""
        nonce = secrets.token_urlsafe(16)
        return f"{nonce}.{self._sign('cookie', nonce)}"

    def knows(self, cookie: str) -> bool:
        """Tell whether this program made the cookie."""
        nonce, _, signature = cookie.partition(".")
        return hmac.compare_digest(signature.encode(), self._sign("cookie", nonce).encode())

    def csrf(self, cookie: str) -> str:
        """Give the word that every write of this browser must carry."""
        return self._sign("write", cookie)

    def _sign(self, purpose: str, text: str) -> str:
        return hmac.new(self._key, f"{purpose}:{text}".encode(), sha256).hexdigest()


class Guard:
    """Keep everybody out of the desk but browsers on this machine that came with the token.

    Parameters
    ----------
    app : ASGI application
        The desk.
    door : Door
        Whom it lets in.
    port : int
        Where it listens: each desk on a machine has a cookie of its own.
    max_upload : int
        Bytes that may be sent to a path that ends in ``/upload``.
    """

    def __init__(self, app: ASGIApp, *, door: Door, port: int, max_upload: int) -> None:
        self._app = app
        self._door = door
        self._cookie = f"hushtable-{port}"
        self._max_upload = max_upload

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request pass, or answer why not."""
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})  # there is none on the desk
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
        """Answer instead of the desk, or give nothing and let the request pass."""
        request = Request(scope)
        if request.method not in {"GET", "HEAD", "POST"}:
            return PlainTextResponse(words.METHOD_NOT_ALLOWED, 405)
        if scope["path"].startswith("/static/"):
            return None
        if scope["path"] == "/" and "token" in request.query_params:
            return self._entrance(request.query_params["token"])
        cookie = request.cookies.get(self._cookie, "")
        told = self._stranger(request, cookie)
        if told:
            return PlainTextResponse(told, 403)
        scope.setdefault("state", {})["csrf"] = self._door.csrf(cookie)
        return None

    def _entrance(self, token: str) -> Response:
        if not self._door.admits(token):
            return PlainTextResponse(words.WRONG_TOKEN, 403)
        entrance = RedirectResponse("/", 303)
        entrance.set_cookie(
            self._cookie, self._door.new_cookie(), httponly=True, samesite="strict", path="/"
        )
        return entrance

    def _stranger(self, request: Request, cookie: str) -> str:
        """Say why a browser is not let in, or nothing."""
        if not self._door.knows(cookie):
            return words.NO_COOKIE
        origin, site = request.headers.get("origin"), request.headers.get("sec-fetch-site")
        own = f"http://{request.headers['host']}"
        if request.method == "POST" and (
            origin not in (None, own) or site not in (None, "same-origin")
        ):
            return words.FOREIGN_ORIGIN
        return ""


def require_csrf(request: Request, given: Any) -> None:
    """Refuse a write that does not carry the word of its browser."""
    wanted: str = request.state.csrf
    if not isinstance(given, str) or not hmac.compare_digest(given.encode(), wanted.encode()):
        raise NotAllowed(words.MISSING_CSRF)


def _counted(receive: Receive, limit: int) -> Receive:
    """Stop reading a body that is longer than it may be, whatever it declared."""
    total = 0

    async def counting() -> Message:
        nonlocal total
        message = await receive()
        total += len(message.get("body", b""))
        if total > limit:
            raise TooMuch(_too_much(limit))
        return message

    return counting


def _too_much(limit: int) -> str:
    return words.TOO_MUCH.format(limit=f"{limit:,}")
