"""Runs Python texts that it is sent, one a line as a JSON string, and answers each with the last line it printed.

Started as a script of its own, it imports nothing of this project: a peer meets its own process alone. What a text or
the peer's native code prints goes to stderr; answers have a descriptor of their own.
"""
from __future__ import annotations

import contextlib
import io
import json
import linecache
import os
import sys
from typing import Any


def answer(text: str, number: int, arguments: list[str]) -> str:
    """The last line that the text prints; of one that raises, a JSON object that says what."""
    file = f"<program {number}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    sys.argv = [file, *arguments]
    printed = io.StringIO()
    space: dict[str, Any] = {"__name__": "__main__", "__file__": file}
    try:
        with contextlib.redirect_stdout(printed):
            exec(compile(text, file, "exec"), space)
    except Exception as error:
        return json.dumps({"error": f"{type(error).__name__}: {error}"})
    finally:
        linecache.cache.pop(file, None)
    return printed.getvalue().strip().rpartition("\n")[2]


def serve() -> None:
    """Until the other end is closed."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for number, line in enumerate(sys.stdin):
        answers.write(answer(json.loads(line), number, sys.argv[1:][:1]) + "\n")
        answers.flush()


if __name__ == "__main__":
    serve()
