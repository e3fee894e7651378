"""Write docs/recipes.md, the page that says what to change to add an operation, statement, pass or backend."""

from __future__ import annotations

from .page import path, text

if __name__ == "__main__":
    path().write_text(text(), encoding="utf-8")
