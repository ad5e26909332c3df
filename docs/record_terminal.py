"""Records a terminal: runs commands on a pseudo terminal and draws what they print as an SVG without external assets.

    .venv/bin/python docs/record_terminal.py docs/terminal.svg 'hyperpod-ray status dev' …

`make terminal` records the picture in the README on the sandbox: `status`, a lost node, `status` again. `NODE`
in a command stands for the last worker of the environment that `--env` names.
"""

from __future__ import annotations

import argparse
import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

WIDTH = 118
FONT = re.compile(r"@font-face \{.*?\}\n", re.DOTALL)


def run(command: str) -> str:
    """What a command writes to a terminal of that width, escape sequences included."""
    main, side = pty.openpty()
    variables = {**os.environ, "COLUMNS": str(WIDTH), "TERM": "xterm-256color", "FORCE_COLOR": "1"}
    process = subprocess.Popen(["bash", "-c", command], stdin=side, stdout=side, stderr=side, env=variables)
    os.close(side)
    out = b""
    while True:
        try:
            data = os.read(main, 65536)
        except OSError:  # the terminal is closed
            break
        if not data:
            break
        out += data
    process.wait()
    os.close(main)
    return out.decode(errors="replace").replace("\r\n", "\n").rstrip()


def worker(env: str) -> str:
    """The id of the last worker that runs."""
    done = subprocess.run(
        ["hyperpod-ray", "nodes", env, "--group", "workers", "-o", "json"], capture_output=True, text=True, check=True
    )
    return str([node["id"] for node in json.loads(done.stdout)["nodes"] if node["status"] == "Running"][-1])


def drawn(lines: list[tuple[str, str]], *, title: str) -> str:
    """The SVG of commands and their output."""
    console = Console(record=True, width=WIDTH, file=open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115, PTH123
    for command, out in lines:
        console.print(Text(f"$ {command}", style="bold #a6e22e"))
        console.print(Text.from_ansi(out))
        console.print()
    svg = console.export_svg(title=title, theme=MONOKAI, unique_id="terminal")
    # rich names a font of another host; the reader's own fixed-width font does as well
    svg = FONT.sub("", svg).replace("Fira Code, monospace", "ui-monospace, Menlo, Consolas, monospace")
    return "\n".join(line.rstrip() for line in svg.splitlines()) + "\n"


def main() -> int:
    """Run the commands and write the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("commands", nargs="+")
    parser.add_argument("--env", default="dev", help="environment whose worker NODE stands for (default dev)")
    parser.add_argument("--quiet", action="append", default=[], help="run and do not draw a command with this word")
    arguments = parser.parse_args()
    lines = []
    for command in arguments.commands:
        real = command.replace("NODE", worker(arguments.env)) if "NODE" in command else command
        out = run(real)
        if not any(word in command for word in arguments.quiet):
            lines.append((real, out))
    arguments.out.write_text(drawn(lines, title="hyperpod-ray, on the sandbox"), encoding="utf-8")
    sys.stdout.write(f"wrote {arguments.out}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
