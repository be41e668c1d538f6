"""Access control of the dashboard: a token once, then a cookie; no request of another site.

The link that the dashboard prints contains the token. The first request with it receives a cookie, and is redirected to
the address without the token, so that the token is neither in the history of the browser nor in a copied address. The
cookie holds a value that is derived from the token.
"""

from __future__ import annotations

import hashlib
import hmac
from http.cookies import CookieError, SimpleCookie
from typing import Final
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

COOKIE: Final = "soulslab_dashboard"
"""Beginning of the cookie's name; its port follows, because cookies of one host are sent to all of its ports."""
TOKEN_QUERY: Final = "token"  # noqa: S105  (the name of the parameter, not a token)
_YEAR_S: Final = 365 * 24 * 3600
_REFUSED: Final = 4403  # a code of the application (4000 to 4999) of a closed websocket

_HEADERS: Final = {
    # The pages load nothing from other hosts. Vue compiles templates, and NiceGUI puts scripts into the page.
    "Content-Security-Policy": (
        "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; "
        "img-src 'self' data: blob:; font-src 'self' data:; connect-src 'self'; object-src 'none'; base-uri 'none'; "
        "form-action 'self'; frame-ancestors 'none'"
    ),
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


class TokenGuard:
    """Middleware that lets a request or a websocket pass only with the token or its cookie."""

    def __init__(self, app: ASGIApp, token: str, port: int, *, is_secure: bool) -> None:
        """Guard an application at a port; ``is_secure`` limits the cookie to TLS."""
        self._app = app
        self._cookie = f"{COOKIE}_{port}"
        self._token = token.encode()
        self._session = hmac.new(self._token, b"soulslab dashboard", hashlib.sha256).hexdigest()
        self._is_secure = is_secure

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See the ASGI specification."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        problem = self._problem(scope, headers)
        if scope["type"] == "websocket":
            if problem:
                await receive()
                await send({"type": "websocket.close", "code": _REFUSED, "reason": problem})
                return
            await self._app(scope, receive, send)
            return
        query = parse_qsl(scope["query_string"].decode("latin-1"))
        tokens = [value for name, value in query if name == TOKEN_QUERY]
        if tokens:
            response = self._exchange_token(scope, tokens[0], [each for each in query if each[0] != TOKEN_QUERY])
            await response(scope, receive, send)
        elif problem:
            await PlainTextResponse(f"{problem}\n", 401)(scope, receive, send)
        else:
            await self._answer(scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Call the application, and ignore its error if the browser has disconnected meanwhile."""
        is_gone = False

        async def receive_and_note() -> Message:
            nonlocal is_gone
            message = await receive()
            is_gone = is_gone or message["type"] == "http.disconnect"
            return message

        try:
            await self._app(scope, receive_and_note, _with_headers(send))
        except RuntimeError:
            if not is_gone:
                raise

    def _problem(self, scope: Scope, headers: Headers) -> str:
        """Return why a request is refused, or ""."""
        origin = headers.get("origin")
        is_reading = scope["type"] == "http" and scope["method"] in ("GET", "HEAD")
        if origin is not None and not is_reading and urlsplit(origin).netloc != headers.get("host"):
            return "the request comes from another site"
        try:
            cookie = SimpleCookie(headers.get("cookie", "")).get(self._cookie)
        except CookieError:
            cookie = None
        if cookie is None:
            return "the token is missing; open the link that soulslab dashboard printed"
        if not hmac.compare_digest(cookie.value.encode(), self._session.encode()):
            return "the token is wrong; open the link that soulslab dashboard printed last"
        return ""

    def _exchange_token(self, scope: Scope, token: str, query: list[tuple[str, str]]) -> Response:
        """Return the answer to a request with a token: a redirect that sets the cookie, or a refusal."""
        if not hmac.compare_digest(token.encode(), self._token):
            return PlainTextResponse("the token is wrong; open the link that soulslab dashboard printed last\n", 401)
        # Only the path: two slashes at its start would name another host. The server has decoded it.
        path = "/" + quote(scope["path"].lstrip("/"))
        response = RedirectResponse(f"{path}?{urlencode(query)}" if query else path, 303)
        # Not "strict": a browser would not send the cookie after the redirect of a link on a page of another site.
        # Websockets, and requests that change something, are refused by their origin.
        response.set_cookie(
            self._cookie, self._session, max_age=_YEAR_S, httponly=True, secure=self._is_secure, samesite="lax"
        )
        return response


def _with_headers(send: Send) -> Send:
    """Return a function that adds the headers of `_HEADERS` to a response."""

    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in _HEADERS.items():
                headers[name] = value
        await send(message)

    return send_with_headers
