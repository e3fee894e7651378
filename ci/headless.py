"""This module finds a browser that needs no screen, and serves a folder to it on this machine."""

from __future__ import annotations

import functools
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

BROWSER = shutil.which("chromium") or shutil.which("google-chrome") or shutil.which("chromium-browser")
"""The path of the browser, or None where none is installed."""

HEADLESS = ("--headless", "--no-sandbox", "--disable-gpu")
"""Options of the browser with which it opens no window."""


@dataclass
class Server:
    """Represent a server of a folder.

    Attributes:
        address: its address.
        lost: the paths that it was asked for and does not have.
    """

    address: str
    lost: list[str] = field(default_factory=list)


@contextmanager
def serving(folder: Path) -> Iterator[Server]:
    """Serve a folder on this machine, on a free port, until the block ends."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

        def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
            shown.lost.append(self.path)
            super().send_error(code, message, explain)

    shown = Server("")
    with ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(folder))) as server:
        shown.address = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield shown
        finally:
            server.shutdown()
            thread.join()
