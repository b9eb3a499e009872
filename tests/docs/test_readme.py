"""Documents hold no number that nothing made."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent


def test_the_table_of_targets_is_what_the_data_says() -> None:
    done = subprocess.run(
        [sys.executable, "tools/readme.py", "--check"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
