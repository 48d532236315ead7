"""Run the command line as `python -m twinlog`, for environments where the script is not on the path."""

import sys

from twinlog.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
