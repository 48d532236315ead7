"""Step `copy`: fence the flow, read its progress, and copy all there is, lane by lane.

Records, progress and offset map are committed in the same transaction: whenever the step ends, running it again goes
on exactly there (docs/decisions/0001-fence.md).
"""

from twinlog.copying.copy import run

__all__ = ["run"]
