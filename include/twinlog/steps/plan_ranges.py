"""Step `plan_ranges`: plan what there is to copy, as ranges of upstream offsets, packed into lanes.

The step reads progress without a fence, so the plan is a hint: for people to see, and to leave the Spark job out if
there is nothing to copy. The step `copy` resolves the ranges again, behind its fence.
"""

from twinlog.copying.ranges import run

__all__ = ["run"]
