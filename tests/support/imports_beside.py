"""Run a twinlog command, and tell on stderr, as JSON, what threads other than the main one have loaded meanwhile.

python tests/support/imports_beside.py WORD ...
"""

from __future__ import annotations

import json
import sys
import threading


def main(words: list[str]) -> int:
    """Return the command's exit code."""
    tried: list[str] = []

    def heard(event: str, arguments: tuple[str, ...]) -> None:
        beside = threading.current_thread() is not threading.main_thread()
        if event == "import" and beside and arguments[0] not in sys.modules:
            tried.append(arguments[0])

    sys.addaudithook(heard)
    from twinlog.cli.main import main as twinlog

    code = twinlog(words)
    print(json.dumps([name for name in tried if name in sys.modules]), file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
