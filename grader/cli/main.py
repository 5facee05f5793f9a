"""`grader-cli`, from its start: Ctrl-C ends it as quietly while it is imported as later."""

from __future__ import annotations

import sys

try:
    from grader.cli.commands import app
    from grader.cli.running import begin
except KeyboardInterrupt:
    sys.exit(130)  # Exit.INTERRUPTED, which may not be there yet


def main() -> None:
    """Run the command line."""
    begin(app)


if __name__ == "__main__":
    main()
