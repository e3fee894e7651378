"""Run Python texts that arrive on stdin as JSON strings, and answer each with the last line that it printed.

If this file is run as a script, it imports nothing of this project: a peer meets only its own process. Output of a text
or of native code of the peer goes to stderr; answers have a file descriptor of their own.

The second argument names a package. It is imported once, and texts run in a fork of the process that imported it. If a
text ends its process, the next fork is ready at once, and the answer says how the last fork ended.
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
    """Run a Python text and return the last line that it prints; an exception becomes a JSON object.

    Args:
        text: the Python program.
        number: the number of the program, for its file name in tracebacks.
        arguments: the command line arguments that the program sees.
    """
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
    """Run each text that arrives on stdin and write its answer, until stdin closes."""
    for number, line in enumerate(sys.stdin):
        answers.write(answer(json.loads(line), number, sys.argv[1:2]) + "\n")
        answers.flush()


def serve_in_forks(answers: TextIO) -> None:
    """Run texts in a forked process, and fork again each time that a text ends the process.

    The sender asks one text at a time, so no text is lost with a fork that has read it.
    """
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
    """Redirect standard output to stderr, and answer texts on a copy of the original standard output."""
    answers = os.fdopen(os.dup(1), "w")
    # From now on, output to descriptor 1 goes to stderr and cannot mix with answers.
    os.dup2(2, 1)
    if len(sys.argv) < 3:
        return serve(answers)
    with contextlib.suppress(ImportError):
        importlib.import_module(sys.argv[2])
    return serve_in_forks(answers)


if __name__ == "__main__":
    main()
