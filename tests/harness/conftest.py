"""Make recorded launches by hand, and the panel that judges them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from stackgrad.harness.testing.executors import present_backends
from stackgrad.harness.testing.replay import ExecutorPanel

_HERE = str(Path(__file__).parent)
if _HERE not in sys.path:
    sys.path.append(_HERE)


@pytest.fixture
def panel() -> ExecutorPanel:
    """Return a panel of the CPU and the reference, with JAX as a judge."""
    return ExecutorPanel(present_backends(["cpu"])[0])
