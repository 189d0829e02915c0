"""Entry point of `ix`. The commands are in `ixchat/commands`; they need the extra `cli`."""

from __future__ import annotations

import sys

EXIT_MISTAKE = 2  # what the user typed or configured cannot work
EXIT_INTERRUPTED = 130


def main() -> None:
    """Run `ix`; a user's mistake is one line on standard error, never a traceback."""
    try:
        from ixchat.commands.app import app
    except ModuleNotFoundError as error:
        if error.name not in {"typer", "rich"}:
            raise
        sys.exit("ix needs the command-line packages: pip install 'ixchat[cli,local]'")
    from ixinfra.errors import IxError

    try:
        app(prog_name="ix")
    except IxError as error:
        print(f"ix: {error}", file=sys.stderr)
        sys.exit(EXIT_MISTAKE)
    except KeyboardInterrupt:
        sys.exit(EXIT_INTERRUPTED)


if __name__ == "__main__":
    main()
