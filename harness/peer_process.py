"""Runs Python texts that it is sent, one a line as a JSON string, and answers each with the last line it printed.

Started as a script of its own, it imports nothing of this project: a peer meets its own process alone. What a text or
the peer's native code prints goes to stderr; answers have a descriptor of their own.

The second argument names a package. It is imported once, and texts run in a fork of the process that did: where one
ends its process, the next fork is there at once, and the answer says how the last one ended.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import linecache
import os
import sys
from typing import Any, TextIO


def answer(text: str, number: int, arguments: list[str]) -> str:
    """The last line that the text prints; of one that raises, a JSON object that says what."""
    file = f"<program {number}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    sys.argv = [file, *arguments]
    printed = io.StringIO()
    space: dict[str, Any] = {"__name__": "__main__", "__file__": file}
    try:
        with contextlib.redirect_stdout(printed):
            exec(compile(text, file, "exec", dont_inherit=True), space)
    except Exception as error:
        return json.dumps({"error": f"{type(error).__name__}: {error}"})
    finally:
        linecache.cache.pop(file, None)
    return printed.getvalue().strip().rpartition("\n")[2]


def serve(answers: TextIO) -> None:
    """Until the other end is closed."""
    for number, line in enumerate(sys.stdin):
        answers.write(answer(json.loads(line), number, sys.argv[1:2]) + "\n")
        answers.flush()


def serve_in_forks(answers: TextIO) -> None:
    """The same, each time from the beginning. One text is asked at a time, so none is lost with a fork that read it."""
    while True:
        child = os.fork()
        if child == 0:
            serve(answers)
            answers.flush()
            os._exit(0)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if status == 0:
            return
        answers.write(json.dumps({"died": status}) + "\n")
        answers.flush()


def main() -> None:
    """Take answers off the standard output, then serve."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    if len(sys.argv) < 3:
        return serve(answers)
    with contextlib.suppress(ImportError):
        importlib.import_module(sys.argv[2])
    return serve_in_forks(answers)


if __name__ == "__main__":
    main()
