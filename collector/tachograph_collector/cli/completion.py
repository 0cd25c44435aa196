"""``tachograph completion SHELL``: click's own completion, as a script for the shell to read."""

from __future__ import annotations

import click

from tachograph_collector.cli.errors import EXIT_CODES_HELP

_EPILOG = f"""\b
Examples:
  tachograph completion bash >> ~/.bashrc
  tachograph completion zsh >> ~/.zshrc
  tachograph completion fish > ~/.config/fish/completions/tachograph.fish

A new shell completes then. For this one alone: eval "$(tachograph completion bash)".

{EXIT_CODES_HELP}
"""


@click.command(epilog=_EPILOG)
@click.argument("shell", type=click.Choice(("bash", "zsh", "fish")))
def completion(shell: str) -> None:
    """Write what makes a shell complete commands and options.

    SHELL is bash (4.4 or newer), zsh or fish. The shell asks the installed tachograph itself, so what it offers is what
    that version has.
    """
    from click.shell_completion import get_completion_class

    from tachograph_collector.cli.main import cli

    made = get_completion_class(shell)
    assert made is not None, f"click knows no completion for {shell}"
    # click's own source() of bash asks the bash that is installed for its version first; that is not needed to write.
    parts = made(cli, {}, "tachograph", "_TACHOGRAPH_COMPLETE")
    click.echo(parts.source_template % parts.source_vars())
