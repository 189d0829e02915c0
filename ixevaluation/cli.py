"""Entry point of `rose-eval`. The commands are in `ixevaluation/commands.py`; they need the extra `eval`."""

from __future__ import annotations

import sys

EXIT_INCOMPLETE = 3  # a run lost an item, so there is no score
EXIT_MISTAKE = 2  # what the user typed, configured or supplied cannot work

MISSING = {"typer", "rich"}


def main() -> None:
    """Run `rose-eval`; a mistake is one line on standard error, never a traceback."""
    try:
        from ixevaluation.commands import app
    except ImportError as error:
        # A missing extra is named by our own error, or is a package the commands import themselves.
        if type(error).__name__ != "MissingExtraError" and error.name not in MISSING:
            raise
        print("rose-eval needs the evaluation packages: pip install 'ixchat[eval,local]'", file=sys.stderr)
        sys.exit(EXIT_MISTAKE)
    from ixinfra.errors import IncompleteRunError, IxError

    try:
        app(prog_name="rose-eval")
    except IncompleteRunError as error:
        print(f"rose-eval: {error}", file=sys.stderr)
        sys.exit(EXIT_INCOMPLETE)
    except IxError as error:
        print(f"rose-eval: {error}", file=sys.stderr)
        sys.exit(EXIT_MISTAKE)
    except KeyboardInterrupt:
        print("rose-eval: stopped", file=sys.stderr)
        sys.exit(EXIT_INCOMPLETE)


if __name__ == "__main__":
    main()
