"""Step `publish`: report the cycle, and keep the report in the ledger.

The ledger also keeps what is at risk, and what the source looked like: the gate reads both if the source is lost.
Running the step again writes the same report anew.
"""

from twinlog.monitoring.publish import run

__all__ = ["run"]
