"""This script draws docs/pictures/dashboard.png, a picture of the dashboard of benchmarks.

    make dashboard OFFLINE=1
    python ci/dashboard_picture.py

A headless browser opens the pages that were published from the results in asv_bench/results.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from headless import BROWSER, HEADLESS, serving
from offline_dashboard import VENDOR

ROOT = Path(__file__).resolve().parent.parent
PAGES = ROOT / "asv_bench/.asv/html"
PICTURE = ROOT / "docs/pictures/dashboard.png"
WINDOW = (1230, 860)
LIMIT = 200_000
"""The most bytes that the picture may have."""


class PictureError(Exception):
    """Signal that the dashboard cannot be pictured."""


def draw(pages: Path, page: str = "index.html") -> bytes:
    """Return the picture of a page of a dashboard, in the format PNG.

    Args:
        pages: the folder of a dashboard that needs no other server.
        page: the page, with the part after `#` that chooses what it shows.

    Raises:
        PictureError: the dashboard or a browser is missing, a file of a page is missing, or the picture is too large.
    """
    if not (pages / VENDOR).is_dir():
        raise PictureError(f"{pages / VENDOR} is missing; cure: make dashboard OFFLINE=1")
    if BROWSER is None:
        raise PictureError("no Chromium here; cure: install it")
    with serving(pages) as server, tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "picture.png"
        options = [f"--window-size={WINDOW[0]},{WINDOW[1]}", "--hide-scrollbars", "--virtual-time-budget=60000"]
        command = [BROWSER, *HEADLESS, *options, f"--screenshot={file}", f"{server.address}/{page}"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
        # A benchmark without a number, as that of an absent peer, has no file of data; its graph stays empty.
        lost = [path for path in server.lost if not path.partition("?")[0].endswith(".json")]
        if lost or not file.is_file():
            raise PictureError(f"the page was not drawn; missing: {lost}; {done.stderr[-500:]}")
        picture = file.read_bytes()
    if len(picture) > LIMIT:
        raise PictureError(f"the picture has {len(picture)} bytes, at most {LIMIT} are wanted")
    return picture


def main() -> int:
    """Draw the picture, and return the exit status."""
    try:
        PICTURE.write_bytes(draw(PAGES))
    except PictureError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
