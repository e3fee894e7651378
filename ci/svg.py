"""This module draws: shapes and text as an SVG picture, with a light background, readable on a dark page as well.

Positions are in pixels, from the top left. Text is as wide as a browser makes it, so boxes leave room.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from html import escape

INK, PALE, LINE = "#1f2933", "#66727f", "#9aa5b1"
BLUE, ORANGE, GREEN = "#2563eb", "#d97706", "#059669"
SANS = "system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, sans-serif"
MONO = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"


@dataclass
class Picture:
    """Represent a picture that is being drawn.

    Attributes:
        width: its width.
        height: its height.
        title: a sentence that describes the picture, for readers who do not see it.
        parts: the elements of the picture, as SVG.
    """

    width: int
    height: int
    title: str
    parts: list[str] = field(default_factory=list)

    def add(self, element: str) -> None:
        """Append an SVG element, given as text, to the picture."""
        self.parts.append(element)

    def box(self, x: float, y: float, width: float, height: float, fill: str = "#ffffff", edge: str = LINE) -> None:
        """Draw a rectangle with rounded corners."""
        size = f'x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="4"'
        self.add(f'<rect {size} fill="{fill}" stroke="{edge}"/>')

    def line(self, x: float, y: float, to_x: float, to_y: float, color: str = LINE, dashed: bool = False) -> None:
        """Draw a line."""
        dashes = ' stroke-dasharray="3 3"' if dashed else ""
        ends = f'x1="{x:g}" y1="{y:g}" x2="{to_x:g}" y2="{to_y:g}"'
        self.add(f'<line {ends} stroke="{color}"{dashes}/>')

    def arrow(self, points: Iterable[tuple[float, float]], color: str = PALE) -> None:
        """Draw an arrow along points; its head is at the last one."""
        path = " ".join(f"{x:g},{y:g}" for x, y in points)
        end = f'marker-end="url(#head-{color[1:]})"'
        self.add(f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="1.5" {end}/>')

    def dot(self, x: float, y: float, color: str, radius: float = 5) -> None:
        """Draw a filled circle."""
        self.add(f'<circle cx="{x:.1f}" cy="{y:g}" r="{radius:g}" fill="{color}"/>')

    def text(
        self,
        x: float,
        y: float,
        words: str,
        *,
        size: int = 13,
        color: str = INK,
        anchor: str = "start",
        mono: bool = False,
        bold: bool = False,
    ) -> None:
        """Write a line of text; y is its base line, and `anchor` is start, middle or end."""
        family = f' font-family="{escape(MONO)}"' if mono else ""
        weight = ' font-weight="600"' if bold else ""
        look = f'font-size="{size}" fill="{color}" text-anchor="{anchor}"{family}{weight}'
        self.add(f'<text x="{x:g}" y="{y:g}" {look} xml:space="preserve">{escape(words)}</text>')

    def svg(self) -> str:
        """Return the picture as the text of an SVG file."""
        heads = "".join(
            f'<marker id="head-{color[1:]}" markerWidth="8" markerHeight="8" refX="7" refY="4" orient="auto">'
            f'<path d="M0,0 L8,4 L0,8 z" fill="{color}"/></marker>'
            for color in (PALE, BLUE, ORANGE, GREEN)
        )
        size = f'width="{self.width}" height="{self.height}" viewBox="0 0 {self.width} {self.height}"'
        head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" font-family="{escape(SANS)}">'
        ground = f'<rect width="{self.width}" height="{self.height}" rx="6" fill="#fbfcfd"/>'
        title = f"<title>{escape(self.title)}</title>"
        return "\n".join([head, title, f"<defs>{heads}</defs>", ground, *self.parts, "</svg>"]) + "\n"
