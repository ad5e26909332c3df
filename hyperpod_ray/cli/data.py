"""`hyperpod-ray data`: the platform data of this version, its sources, and what is stale."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

import typer

from hyperpod_ray.cli.options import Output, command
from hyperpod_ray.ops import output
from hyperpod_ray.ops.errors import CONDITION_FALSE, OK
from hyperpod_ray.ops.output import Format


def register(app: typer.Typer) -> None:
    """Add the command."""

    @command(app, examples=["data", "data --fail-on-stale", "data -o json"])
    def data(
        fail_on_stale: Annotated[
            bool, typer.Option("--fail-on-stale", help="Exit code 3 when a row is stale, expired or behind.")
        ] = False,
        form: Output = Format.table,
    ) -> int:
        """Show the age and source of versions, limits, prices and pins."""
        from hyperpod_ray.core.provenance import data_sets
        from hyperpod_ray.core.today import today

        day = today()
        rows = data_sets(day)
        if form is Format.json:
            sets = [{**asdict(row), "as_of": str(row.as_of), "stale_on": str(row.stale_on)} for row in rows]
            output.write_json("data", {"day": str(day), "data": sets})
        else:
            _show(rows, form)
        outdated = [row for row in rows if row.state != "current"]
        return CONDITION_FALSE if fail_on_stale and outdated else OK


def _show(rows: list[Any], form: Format) -> None:
    table = output.table("Data", "File", "=As of", ">Age", "=Stale on", "State", "Source")
    for row in rows:
        style = {"current": "good", "behind": "busy"}.get(row.state, "bad")
        # the terminal names each source below the table, in full
        where = row.source if form is Format.markdown else ""
        table.add_row(
            row.what, row.file, str(row.as_of), f"{row.age_days} d", str(row.stale_on), _word(row.state, style), where
        )
    console = output.console(form)
    if form is Format.table:
        table.columns.pop()
    console.print(table)
    for row in rows:
        if form is Format.table:
            console.print(f"{row.what}: {row.source}", style="quiet")
        if row.note:
            console.print(f"{row.what}: {row.note}", style="note")


def _word(word: str, style: str) -> Any:
    """A coloured word."""
    from rich.text import Text

    return Text(word, style=style)
