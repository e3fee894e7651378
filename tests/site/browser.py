"""Look at pages with a headless browser: require programs, show a page, and read what it became."""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass

import pytest
from headless import BROWSER, HEADLESS
from run_matrix import PROGRAMS_VARIABLE

SAID = re.compile(r"CONSOLE[^\]]*\] (.*)$", re.MULTILINE)


def require(program: str, present: bool, reason: str) -> None:
    """Skip a test whose program is absent, with the reason; fail it if the row of the matrix requires the program."""
    if present:
        return
    if program in os.environ.get(PROGRAMS_VARIABLE, "").split(","):
        pytest.fail(f"{reason}, and this row requires it")
    pytest.skip(reason)


def require_browser() -> None:
    """Skip or fail a test where no browser is installed."""
    require("chromium", BROWSER is not None, "no Chromium here")


@dataclass(frozen=True)
class Shown:
    """What a page became: its text of HTML, and the lines on its console."""

    html: str
    console: list[str]

    @property
    def body(self) -> str:
        """Return what stands in the body."""
        return self.html.partition("<body>")[2].partition("</body>")[0]


def show(address: str, size: tuple[int, int], *options: str) -> Shown:
    """Open a page in a window of a size; the page says that it is done by its title."""
    window = f"--window-size={size[0]},{size[1]}"
    command = [str(BROWSER), *HEADLESS, window, "--enable-logging=stderr", *options, "--dump-dom", address]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert "<title>done</title>" in done.stdout, done.stdout[-2000:] + done.stderr[-2000:]
    return Shown(done.stdout, SAID.findall(done.stderr))
