"""Step `checkpoints`: translate the position of every group of the source, and write it for MM2's clients.

The step commits positions on the target for groups without members there, if `sync.group.offsets.enabled` is set
(KIP-545). The result holds the outcome of every position. Running the step again commits what has changed since.
"""

from twinlog.groups.checkpoints import run

__all__ = ["run"]
