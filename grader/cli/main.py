"""`grader-cli`, from its start: Ctrl-C ends it as quietly while it is imported as later."""

from __future__ import annotations

import gc
import sys

from sandbox.protocol.entry_points import EntryPointInvalid

gc.set_threshold(20_000, 10, 10)  # as in the server: with Python's 700 the collector takes a twentieth of all imports

try:
    from grader.cli.commands import app
    from grader.cli.running import begin
except KeyboardInterrupt:
    sys.exit(130)  # Exit.INTERRUPTED, which may not be there yet
except EntryPointInvalid as error:
    sys.stderr.write(f"error: {error}\n")
    sys.exit(2)  # Exit.MISUSE


def main() -> None:
    """Run the command line."""
    begin(app)


if __name__ == "__main__":
    main()
