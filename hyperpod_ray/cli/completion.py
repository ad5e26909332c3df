"""`hyperpod-ray completion`: the script that a shell loads to complete commands, options and environments."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import typer

from hyperpod_ray.cli.options import command
from hyperpod_ray.core.names import PROGRAM
from hyperpod_ray.ops import output
from hyperpod_ray.ops.errors import OK

VARIABLE = "_HYPERPOD_RAY_COMPLETE"
"""Set by the script when the shell asks for completions."""


def register(app: typer.Typer) -> None:
    """Add the command to the root."""

    @command(
        app,
        examples=[
            "completion bash > ~/.local/share/bash-completion/completions/hyperpod-ray",
            'completion zsh > "${fpath[1]}/_hyperpod-ray"',
            "completion fish > ~/.config/fish/completions/hyperpod-ray.fish",
        ],
    )
    def completion(shell: Annotated[Literal["bash", "zsh", "fish"], typer.Argument(help="Your shell.")]) -> int:
        """Print the completion script of a shell. For the current shell: source <(hyperpod-ray completion bash)."""
        from typer import completion as shells

        source: Any = shells  # its functions are public by documentation only
        script = str(source.get_completion_script(prog_name=PROGRAM, complete_var=VARIABLE, shell=shell))
        if shell == "zsh":
            # loaded by `source` instead of from fpath, zsh may not have started its completion system yet
            script = script.replace(
                "compdef ", "(( $+functions[compdef] )) || { autoload -Uz compinit && compinit }\ncompdef "
            )
            script = script.replace(
                "#(( $+functions[compdef] )) || { autoload -Uz compinit && compinit }\ncompdef", "#compdef"
            )
        output.write_line(script)
        return OK


def prepare() -> None:
    """Teach the parser the shells' protocols; needed only when a shell asks."""
    from typer import completion as shells

    source: Any = shells
    source.completion_init()
