"""A local HTTP server that speaks the chat-completions protocol, well or badly, as a test tells it to."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from msgspec import Struct, field


class ChatServer(Struct):
    """`url` is the base address; `requests` are the bodies that came, `headers` theirs."""

    url: str = ""
    requests: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    stopping: threading.Event = field(default_factory=threading.Event)


class Handler(BaseHTTPRequestHandler):
    """Hands each request to the test's `behave`."""

    protocol_version = "HTTP/1.1"
    chat: ChatServer
    behave: Callable[[Handler, int], None]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.chat.requests.append(json.loads(body))
        self.chat.headers.append(dict(self.headers))
        self.close_connection = True
        with suppress(BrokenPipeError, ConnectionResetError):  # a client that gives up is what some tests are about
            type(self).behave(self, len(self.chat.requests))

    def log_message(self, *words: Any) -> None:
        pass

    def send(self, status: int, body: bytes, **headers: str) -> None:
        """One whole response."""
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), "Connection": "close", **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def say(self, text: Any) -> None:
        """A completion with this text; what is no text is sent as JSON."""
        content = text if isinstance(text, str) else json.dumps(text)
        message = {"role": "assistant", "content": content}
        answer = {"id": "x", "object": "chat.completion", "choices": [{"index": 0, "message": message}]}
        self.send(200, json.dumps(answer).encode())


@contextmanager
def chat_server(behave: Callable[[Handler, int], None]) -> Iterator[ChatServer]:
    """Runs while it is entered; `behave` gets each request with its number from 1."""
    chat = ChatServer()
    kind = type("Handler", (Handler,), {"chat": chat, "behave": staticmethod(behave)})
    server = ThreadingHTTPServer(("127.0.0.1", 0), kind)
    server.daemon_threads = True
    server.block_on_close = False
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    chat.url = f"http://127.0.0.1:{server.server_port}/v1"
    try:
        yield chat
    finally:
        chat.stopping.set()
        server.shutdown()
        server.server_close()
        thread.join()
