"""Step `sync_topics`: give every replicated topic its copy on the target, with enough partitions.

The step creates remote topics and the flow's own topics, adds partitions, and never shrinks a topic. It records
recreated topics and lost ranges in the ledger. One refused topic does not stop the others. Running the step again
changes nothing more.
"""

from twinlog.lifecycle.sync_topics import run

__all__ = ["run"]
