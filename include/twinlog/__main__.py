"""The script `twinlog`, and `python -m twinlog` for environments where it is not on the path."""

import signal
import sys

from twinlog.cli.interrupt import end_at_once


def main() -> int:
    """Run the command line; Ctrl-C while its modules are imported is one line, too."""
    signal.signal(signal.SIGINT, end_at_once)
    from twinlog.cli.main import main as run

    return run()


if __name__ == "__main__":
    sys.exit(main())
