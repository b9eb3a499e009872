"""The timeline page, looked at by a browser: what must be drawn is there in pixels, and nothing is fetched."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pytest
from compiled_programs import all_files
from PIL import Image

from asmevo.analysis.occupancy import occupancy
from asmevo.program import Kernel, read_program
from asmevo.report.timeline_html import ISSUE_COLOUR, LINK_COLOUR, STALL_COLOURS, timeline_html
from asmevo.timing.timeline import timeline

_BROWSERS = ("chromium", "chromium-browser", "google-chrome")


def kernel(target: str, name: str) -> Kernel:
    return read_program(all_files()[f"{target}/{name}.hsaco"], f"{name}.hsaco").select()[0]


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "timeline.html"
    chosen = kernel("gfx1100", "matmul_f16")
    path.write_text(timeline_html(chosen, timeline(chosen, waves=2, trip_count=4), occupancy(chosen)))
    return path


def charts_below(image: Image.Image) -> Counter[tuple[int, ...]]:
    """Colours of the last two charts: 500 of the rows (pixels) above the page's end."""
    page = image.point(lambda value: 255 if value < 250 else 0).getbbox()
    assert page is not None
    part = image.crop((0, page[3] - 500, image.width, page[3]))
    return Counter(dict((colour, count) for count, colour in part.getcolors(1 << 24)))


def near(colours: Counter[tuple[int, ...]], colour: str) -> int:
    """Pixels of about a colour: thin lines are mixed with what is behind them."""
    wanted = rgb(colour)
    return sum(n for c, n in colours.items() if all(abs(a - b) < 70 for a, b in zip(c, wanted, strict=True)))


def rgb(colour: str) -> tuple[int, int, int]:
    return (int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16))


def test_a_browser_draws_the_charts(page: Path) -> None:
    browser = next((found for name in _BROWSERS if (found := shutil.which(name))), None)
    if browser is None:
        pytest.skip("no browser is installed (Debian: apt install chromium)")
    picture = page.with_suffix(".png")
    done = subprocess.run(
        [
            browser, "--headless", "--no-sandbox", "--disable-gpu", "--window-size=1500,2600",
            "--host-resolver-rules=MAP * ~NOTFOUND", "--enable-logging=stderr", "--virtual-time-budget=20000",
            f"--user-data-dir={page.parent / 'profile'}", f"--screenshot={picture}", page.as_uri(),
        ],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )  # fmt: skip
    complaints = [line for line in done.stderr.splitlines() if "CONSOLE" in line and "rror" in line]
    assert not complaints
    image = Image.open(picture).convert("RGB")
    colours = Counter(dict((colour, count) for count, colour in image.getcolors(1 << 24)))
    assert colours[rgb(ISSUE_COLOUR)] > 2_000  # issue slots and the bars of the units
    assert colours[rgb(STALL_COLOURS[0])] > 2_000  # the stalls that cost most
    assert sum(colours[rgb(each)] > 50 for each in STALL_COLOURS) >= 4  # several reasons
    assert near(colours, LINK_COLOUR) > 500  # links, drawn half transparent
    below = charts_below(image)
    assert below[rgb(ISSUE_COLOUR)] > 1_000  # how long units are held
    assert near(below, STALL_COLOURS[0]) > 300  # VGPRs live along the kernel
    assert near(below, STALL_COLOURS[2]) > 300  # SGPRs


def test_the_page_is_whole(page: Path) -> None:
    text = page.read_text()
    assert not re.search(r"<(script|link|img)[^>]*(src|href)=[\"']https?:", text)
    assert "buffer_load_b128 v[81:84]" in text  # an instruction of the loop, beside its bar
    assert "Occupancy 16 of 16 waves" in text


def test_a_kernel_without_loops_has_a_page() -> None:
    chosen = kernel("gfx942", "vector_add")
    assert "v_pk_add_f32" in timeline_html(chosen, timeline(chosen, waves=1), occupancy(chosen))
