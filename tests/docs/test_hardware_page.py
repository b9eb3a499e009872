"""docs/hardware.md names numbers; they are the code's."""

from __future__ import annotations

from pathlib import Path

from asmevo.doors.gpu import SECONDS
from asmevo.hardware import Plan, measurement
from asmevo.hardware.request import GUARD

PAGE = Path(__file__).resolve().parent.parent.parent / "docs" / "hardware.md"
WORDS = {2: "two", 3: "three"}


def test_every_number_is_the_codes() -> None:
    text = " ".join(PAGE.read_text().split())
    plan = Plan()
    rule = (
        f"{measurement._ERRORS:g} * {measurement._ERROR_OF_MEDIAN} * {measurement._DEVIATION_OF_MAD} * "
        f"sqrt(MAD_a^2 + MAD_b^2) / sqrt({measurement.TIMED})"
    )
    for words in (
        f"in {WORDS[plan.rounds]} rounds, each time in a process of its own and {WORDS[plan.launches]} times in it",
        f"guard zones of {GUARD >> 10} KiB",
        f"({SECONDS:g} s for a process)",
        f"each {measurement.WARM_UP} times to warm up and {measurement.TIMED} times for their times",
        rule,
    ):
        assert words in text, words
    assert measurement._RESOLUTION == 0.001  # "more than a microsecond"
    order = " ".join(map(str, measurement.launch_order(4)))
    assert f"in the order {order} ..." in text
