"""The script `twinlog`, and `python -m twinlog` for environments where it is not on the path."""

import os
import signal
import sys
from types import FrameType
from typing import NoReturn


def end_at_once(number: int, frame: FrameType | None) -> NoReturn:
    """End on Ctrl-C while modules are imported: nothing has begun."""
    os.write(2, b"error: interrupted\n")
    os._exit(130)


def main() -> int:
    """Run the command line."""
    signal.signal(signal.SIGINT, end_at_once)
    from twinlog.cli.main import main as run

    return run()


if __name__ == "__main__":
    sys.exit(main())
