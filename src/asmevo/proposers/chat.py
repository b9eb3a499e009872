"""What the language-model proposer asks of a model, wherever it runs: text in, text out, within a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, Protocol

from msgspec import Struct


class Message(Struct, frozen=True):
    """One turn of a conversation."""

    role: Literal["system", "user", "assistant"]
    text: str


class ChatLimits(Struct, frozen=True):
    """For one answer: `seconds` with all tries, `answer_bytes` of what comes back, `tokens` asked for, `tries`."""

    seconds: float = 60.0
    answer_bytes: int = 1 << 20
    tokens: int = 4096
    tries: int = 3


class ChatModel(Protocol):
    """A model. It is handed text and hands back text; nothing else."""

    @property
    def name(self) -> str:
        """For the ledger: which model, and where."""
        ...

    def answer(
        self, messages: Sequence[Message], schema: dict[str, Any], seed: int, out_of_time: Callable[[], bool]
    ) -> str:
        """The model's next turn. A backend that can forces it into the JSON schema. Raises ProposerError."""
        ...
