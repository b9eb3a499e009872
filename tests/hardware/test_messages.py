"""What goes between the processes, whole and broken; the room's face."""

from __future__ import annotations

import random

from asmevo import hardware
from asmevo.hardware.messages import (
    Begun,
    Damage,
    Failure,
    Launched,
    Look,
    Message,
    Ran,
    decode,
    encode,
    framed,
    messages,
)

SENT: list[Message] = [
    Begun(1, 0),
    Ran((Launched(0, 0, 0.25),), (((b"abc", b""),), ()), (Damage(0, 1, True, 3, 4),)),
    Failure("hipInit", 100, "no device"),
]


def test_what_is_sent_arrives() -> None:
    raw = b"".join(map(framed, SENT))
    assert list(messages(raw)) == SENT
    assert decode(encode(Look())) == Look()


def test_a_cut_or_damaged_stream_gives_what_stands_before_and_never_an_error() -> None:
    raw = b"".join(map(framed, SENT))
    for end in range(len(raw)):
        found = list(messages(raw[:end]))
        assert found == SENT[: len(found)]
    rng = random.Random(1)
    for _ in range(500):
        damaged = bytearray(raw)
        damaged[rng.randrange(len(raw))] ^= 1 << rng.randrange(8)
        assert len(list(messages(bytes(damaged)))) <= len(raw)
    assert list(messages(rng.randbytes(200))) == []


def test_damage_in_words() -> None:
    assert str(Damage(0, 0, True, 3, 4)) == "3 bytes behind its end (4 changed)"
    assert str(Damage(0, 0, False, 12, 1)) == "12 bytes before its begin (1 changed)"


def test_the_face_has_all_that_it_names() -> None:
    assert sorted(hardware.__all__) == sorted(hardware._WHERE)
    for name in hardware.__all__:
        assert getattr(hardware, name).__module__.startswith("asmevo.hardware.")
