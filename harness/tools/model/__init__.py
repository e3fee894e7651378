"""This package holds the program model: kernels of the user's language as data, rendered as Python text or as IR."""

from __future__ import annotations

from .codec import from_json, to_json
from .ir import render_ir
from .loading import load, run_python, trace_program
from .nodes import Program
from .source import render_source

__all__ = ["Program", "from_json", "load", "render_ir", "render_source", "run_python", "to_json", "trace_program"]
