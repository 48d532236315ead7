"""`twinlog run` as a process of its own whose lanes are threads of it: something to kill.

python follow_process.py run --follow --config mm2.properties
"""

import sys

from lab import ThreadRunner
from twinlog.cli.main import main
from twinlog.cli.replication.follow import WarmSpark

if __name__ == "__main__":
    runner = ThreadRunner()
    runner.cancel = lambda *_: None
    WarmSpark.runner = lambda self, master, **_: runner
    sys.exit(main())
