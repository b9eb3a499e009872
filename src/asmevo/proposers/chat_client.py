"""A language model behind an OpenAI-compatible HTTP endpoint (`POST <url>/chat/completions`).

The other side is a stranger: its answer is bounded in time (as a whole, however it drips) and size and is checked to
be a chat completion. A redirect is never followed, because the key would go with it; the environment's proxies and
`.netrc` are not used. The key is sent in one header and nowhere else: it is cut out of whatever the endpoint says.

The answer is asked for in the JSON schema (`response_format`). A backend that does not know that says 400 or 422; then
it is asked once more without, and the caller's own check of the answer has to do.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
import time
from collections.abc import Callable, Sequence
from typing import Any

import httpx
from msgspec import Struct, field
from pydantic import BaseModel, ValidationError

from asmevo.proposers.chat import ChatLimits, Message
from asmevo.proposers.proposer import ProposerError

KEY_VARIABLE = "ASMEVO_LLM_KEY"
_PATH = "/chat/completions"
_FORM_REFUSED = frozenset({400, 422})
_WORTH_ANOTHER_TRY = frozenset({408, 429, 500, 502, 503, 504})
_POLL_SECONDS = 0.05
_FIRST_PAUSE_SECONDS = 0.25
_SHOWN_CHARACTERS = 160


class _Turn(BaseModel):
    content: str | None = None


class _Choice(BaseModel):
    message: _Turn


class _Completion(BaseModel):
    choices: list[_Choice]


class _Reply(Struct, frozen=True):
    status: int
    data: bytes


class ChatClient(Struct):
    """One model at one endpoint. `url` is the base (`https://host/v1`) or the whole address."""

    url: str
    model: str
    key: str | None = None
    limits: ChatLimits = field(default_factory=ChatLimits)
    _forces: bool = True

    def __post_init__(self) -> None:
        self.url = _checked_url(self.url, self.key is not None)
        if self.key is not None and not (self.key.isascii() and self.key.isprintable()):
            raise ProposerError(f"the key in {KEY_VARIABLE} has characters that no header can carry")

    def __repr__(self) -> str:
        """Without the key: what is printed may end up in a log."""
        return f"ChatClient({self.url!r}, {self.model!r})"

    @property
    def name(self) -> str:
        """See ChatModel."""
        return f"{self.model} at {httpx.URL(self.url).host}"

    def answer(
        self, messages: Sequence[Message], schema: dict[str, Any], seed: int, out_of_time: Callable[[], bool]
    ) -> str:
        """See ChatModel."""
        deadline = time.monotonic() + self.limits.seconds

        def stop() -> bool:
            return time.monotonic() > deadline or out_of_time()

        reply = self._tried(self._body(messages, schema, seed), stop)
        if self._forces and reply.status in _FORM_REFUSED:
            self._forces = False
            reply = self._tried(self._body(messages, schema, seed), stop)
        if reply.status != httpx.codes.OK:
            raise ProposerError(f"was answered with status {reply.status} by its endpoint{self._shown(reply.data)}")
        return self._content(reply.data)

    def _body(self, messages: Sequence[Message], schema: dict[str, Any], seed: int) -> bytes:
        body: dict[str, Any] = {
            "model": self.model,
            "messages": [{"role": each.role, "content": each.text} for each in messages],
            "max_tokens": self.limits.tokens,
            "temperature": 0,
            "seed": seed,
            "stream": False,
        }
        if self._forces:
            form = {"name": "edit_scripts", "strict": True, "schema": schema}
            body["response_format"] = {"type": "json_schema", "json_schema": form}
        return json.dumps(body).encode()

    def _tried(self, body: bytes, stop: Callable[[], bool]) -> _Reply:
        """The first reply that another try would not better, else the last. Raises ProposerError."""
        failure, reply = "", None
        for number in range(self.limits.tries):
            if number:
                self._pause(_FIRST_PAUSE_SECONDS * 2 ** (number - 1), stop)
            try:
                reply = asyncio.run(self._in_time(body, stop))
            except httpx.HTTPError as error:
                failure, reply = self._clean(str(error)) or type(error).__name__, None
                continue
            if reply.status not in _WORTH_ANOTHER_TRY:
                return reply
        if reply is None:
            raise ProposerError(f"cannot reach its endpoint: {failure}")
        return reply

    def _pause(self, seconds: float, stop: Callable[[], bool]) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if stop():
                raise self._late()
            time.sleep(_POLL_SECONDS)

    async def _in_time(self, body: bytes, stop: Callable[[], bool]) -> _Reply:
        exchange = asyncio.create_task(self._exchange(body))
        try:
            while not exchange.done():
                if stop():
                    raise self._late()
                await asyncio.wait({exchange}, timeout=_POLL_SECONDS)
            return exchange.result()
        finally:
            exchange.cancel()

    async def _exchange(self, body: bytes) -> _Reply:
        # Not compressed, so that a small answer cannot grow large when it is unpacked.
        headers = {"Content-Type": "application/json", "Accept-Encoding": "identity"}
        if self.key is not None:
            headers["Authorization"] = f"Bearer {self.key}"
        async with (
            httpx.AsyncClient(follow_redirects=False, trust_env=False, timeout=self.limits.seconds) as client,
            client.stream("POST", self.url, content=body, headers=headers) as response,
        ):
            if 300 <= response.status_code < 400:
                raise ProposerError("was sent to another address by its endpoint, which is not followed")
            data = bytearray()
            async for chunk in response.aiter_raw():
                data += chunk
                if len(data) > self.limits.answer_bytes:
                    raise ProposerError(f"sent an answer of more than {self.limits.answer_bytes} bytes")
            return _Reply(response.status_code, bytes(data))

    def _content(self, data: bytes) -> str:
        try:
            completion = _Completion.model_validate_json(data)
        except ValidationError:
            raise ProposerError(f"sent something that is no chat completion{self._shown(data)}") from None
        if not completion.choices or completion.choices[0].message.content is None:
            raise ProposerError("sent a chat completion without text")
        return self._without_key(completion.choices[0].message.content)

    def _late(self) -> ProposerError:
        return ProposerError(f"did not answer within its {self.limits.seconds:g} seconds or the search's budget")

    def _shown(self, data: bytes) -> str:
        words = self._clean(data.decode(errors="replace"))
        return f": {words}" if words else ""

    def _clean(self, words: str) -> str:
        printable = "".join(each if each.isprintable() else " " for each in self._without_key(words))
        return " ".join(printable.split())[:_SHOWN_CHARACTERS]

    def _without_key(self, words: str) -> str:
        return words.replace(self.key, "(key)") if self.key else words


def _checked_url(text: str, has_key: bool) -> str:
    """The whole address. Raises ProposerError for what is no address, or would send a key in the clear."""
    try:
        url = httpx.URL(text.strip().rstrip("/"))
    except httpx.InvalidURL as error:
        raise ProposerError(f"`{text[:_SHOWN_CHARACTERS]}` is no address: {error}") from None
    if url.userinfo:
        raise ProposerError(f"the address must not carry a password; put the key into {KEY_VARIABLE}")
    if url.scheme not in ("http", "https") or not url.host:
        raise ProposerError(f"`{text[:_SHOWN_CHARACTERS]}` is no http or https address")
    if has_key and url.scheme == "http" and not _is_this_machine(url.host):
        raise ProposerError(f"the key would go to {url.host} in the clear; use https")
    return str(url) if url.path.endswith(_PATH) else str(url.copy_with(path=url.path.rstrip("/") + _PATH))


def _is_this_machine(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
