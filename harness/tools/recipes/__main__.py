"""Write docs/recipes.md."""

from __future__ import annotations

from .page import path, text

if __name__ == "__main__":
    path().write_text(text(), encoding="utf-8")
