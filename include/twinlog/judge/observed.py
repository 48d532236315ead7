"""State the checks of copies that another engine makes, and what to do about all others if it does."""

from __future__ import annotations

from twinlog.judge.check import row

WHAT_TO_DO = {
    "missing": "see what filters or drops records there, and let it copy the topic anew",
    "changed": "see which transform changes them; if it is meant, accept it",
    "reordered": "no engine should: see whether two of them copy the topic",
    "foreign": "see who else writes to the copy: a client, or another source that is copied into the same topic",
    "doubled": "clients must bear it, as after each restart of an at-least-once engine: accept it",
}
"""What to do about records of each kind of finding, the worst first."""

CAUSES = {
    "key": "a transform of keys",
    "value": "a transform (SMT), or null made empty",
    "headers": "a transform, or headers that say where a record comes from",
    "timestamp": "an engine that gives records its own time",
    "offset": "a record before them that was doubled, left out or added",
}
"""Names the likely cause of a changed field of copies."""

OBSERVED = tuple(
    row(
        f"wFFF nothing-{kind}: {kind}_found = 0 cycle",
        f"the engine that copies has left no record {kind}",
        f"`twinlog gate --report FILE` names them, and since when; {advice}",
        f"{kind}_how",
    )
    for kind, advice in WHAT_TO_DO.items()
)

_EXACT = "positions are exact once a copy was seen for five minutes: run a cycle then"
_COMPARED = "a cycle compares what it reads, once it was seen for five minutes: run one then"

OF_ENGINE = {
    "flow-has-run": "nothing was ever read by this flow; run `twinlog run --once` or its Dag",
    "flow-in-service": "delete the line twinlog.copied.by if twinlog copies now",
    "heartbeat-age": "see whether the engine writes heartbeats to the source, and copies them",
    "acl-parity": "see `twinlog metadata plan`, and grant the rights by hand",
    "quota-parity": "see `twinlog metadata plan`, and set the quotas by hand",
    "schema-parity": "see what copies schemas beside the engine",
    "canary": "the engine copies nothing, or too slowly: see its lag and its log",
    "rpo-within-budget": "see whether the engine lags or stands still; what it has copied since, a cycle finds",
    "copy-there": "the engine does not copy the topic, or not all its partitions: see its patterns and its log;"
    " without the source it cannot be copied again",
    "audit-age": _COMPARED,
    "audit-promised": f"{_COMPARED}; what was not observed, or has no counterpart any more, stays unproved",
    "audit-coverage": f"what was found wrong counts, too; the gate's coverage says which other reasons; {_COMPARED}",
    "nothing-copied-twice": "do not fail over to this partition; report it, this is a defect of twinlog",
    "downstream-counted-once": "do not fail over to this partition; report it, this is a defect of twinlog",
    "map-not-beyond-progress": "somebody else writes to the flow's state: see state-writers",
    "map-whole": "a part of the map was lost: groups cannot be translated there, and nobody knows whether records are"
    " missing",
    "nothing-deleted-early": "records were deleted from the copy, or its retention was shorter: raise it, and let the"
    " engine copy the topic anew",
    "nothing-expired-uncopied": "these records are lost: raise retention on the source, or let the engine copy more"
    " quickly",
    "copy-not-cut-off": "the copy was deleted, recreated or lost records; let the engine copy the topic anew",
    "partition-parity": "let the engine add the partitions, or add them by hand",
    "progress-never-goes-back": "the copy was made anew, or somebody else writes to the flow's state",
    "map-known": f"groups would start at a guess; {_EXACT}; copies of what the source has lost stay without a place",
    "lag-records": "stop the producers, end open transactions, wait until the engine is through, run a cycle"
    " (`twinlog run --once`), and ask again",
    "group-covered": f"see the reason in `twinlog groups`; {_EXACT}",
    "group-same-record": "do not let the group go on there: it would skip records; report it, this is a defect of"
    " twinlog",
    "group-not-rewound": "it would skip what it was to read again: reset it there by hand, or accept it",
    "final-group-pass": "stop the consumers or let them finish, until the engine has passed their positions on, and ask"
    " again",
}
"""What to do if a check fails, by its name: twinlog changes nothing of what the engine copies."""
