"""This module gives commands the HTML templates of their reports, which Jinja2 fills in.

Pages load nothing and have no scripts. Templates that several reports share, the styles and the layout of a page, lie
beside this module; those of one report lie in the package that writes it.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from ...compiler.errors import StackgradError

if TYPE_CHECKING:
    from jinja2 import Environment

CURE = "pip install 'stackgrad[harness]'"


class MissingTemplates(StackgradError):
    """Signal that the package Jinja2 is not installed, so that pages cannot be written."""


@cache
def environment_of(package: str) -> Environment:
    """Return the Jinja2 environment with the templates of a package and the shared ones.

    Args:
        package: The name of a package that has a folder `templates`.

    Raises:
        MissingTemplates: Jinja2 is not installed.
    """
    try:
        from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
    except ImportError:
        raise MissingTemplates(f"Jinja2, which writes reports, is not installed; cure: {CURE}") from None
    made = Environment(
        loader=ChoiceLoader([PackageLoader(package), PackageLoader(__package__)]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["thousands"] = lambda number: f"{number:,}"
    made.filters["percent"] = lambda share, digits=0: f"{share:.{digits}%}"
    return made
