"""Reports as Markdown: the tables that the terminal shows, for a pull request, an issue or a page."""

from __future__ import annotations

from typing import IO, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text
from rich.theme import Theme

from hyperpod_ray.ops.steering import printable

WIDTH = 100_000
"""Characters of a line: Markdown wraps by itself."""


class MarkdownConsole(Console):
    """A console that writes each table as a Markdown table and each other text as a paragraph, without colours."""

    def __init__(self, stream: IO[str], *, theme: Theme) -> None:
        super().__init__(
            file=stream,
            theme=theme,
            width=WIDTH,
            color_system=None,
            highlight=False,
            markup=False,
            force_terminal=False,
        )

    def print(self, *objects: Any, **options: Any) -> None:
        """Write objects; tables as Markdown."""
        for element in objects:
            if isinstance(element, Table):
                self.file.write(self._table(element))
            else:
                super().print(element, **{**options, "end": "\n\n"})

    def _table(self, table: Table) -> str:
        columns = table.columns
        lines = [f"**{table.title}**\n"] if table.title else []
        lines.append(_row([self._text(column.header) for column in columns]))
        lines.append(_row(["---:" if column.justify == "right" else "---" for column in columns]))
        cells = [[self._text(cell) for cell in column.cells] for column in columns]
        lines += [_row(list(row)) for row in zip(*cells, strict=True)]
        return "\n".join(lines) + "\n\n"

    def _text(self, cell: Any) -> str:
        if isinstance(cell, str):
            return printable(cell)
        if isinstance(cell, Text):
            return printable(cell.plain)
        return "".join(segment.text for segment in self.render(cell) if not segment.control)


def _row(cells: list[str]) -> str:
    return "| " + " | ".join(" ".join(cell.split()).replace("|", "\\|") for cell in cells) + " |"
