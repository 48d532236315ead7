"""State the checks of copies that another engine makes; they do not apply to those that twinlog makes."""

from __future__ import annotations

from twinlog.judge.check import Seen, row

OBSERVED = tuple(
    row(
        f"wFFF nothing-{kind}: {kind}_found = 0",
        f"the engine that copies has left no record {kind}",
        f"`twinlog gate --report FILE` names them, and since when; {advice}",
        seen=Seen.CYCLE,
    )
    for kind, advice in (
        ("missing", "see what filters or drops records there, and let it copy the topic anew"),
        ("doubled", "clients must bear it, as after each restart of an at-least-once engine: accept it"),
        ("changed", "see which transform changes them; if it is meant, accept it"),
        ("reordered", "no engine should: see whether two of them copy the topic"),
        ("foreign", "see who else writes to the copy"),
    )
)
