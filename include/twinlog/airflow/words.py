"""Say in Airflow's words what hints and messages say in commands: a person at a task's log may have no shell.  Pure."""

from __future__ import annotations

import re

WAYS = {
    "failback --save": "Dag failback, home off",
    "failback": "Dag failback, home on",
    "failover": "Dag failover",
    "accept": "Dag failover, mode accept",
    "recovery abort": "Dag failover, mode abort",
    "drill": "Dag drill",
    "gate": "Dag failover_readiness",
    "audit": "Dag audit",
    "translate": "Dag translate_group",
    "topics rebuild": "Dag rebuild",
    "metadata plan": "Dag sync_metadata, dry run",
    "metadata apply": "Dag sync_metadata",
    "run --once": "Dag replicate",
    "plan": "Dag replicate, dry run",
    "groups": "the flow's page",
    "status": "the flow's page",
    "recovery status": "the flow's page",
}
"""For each command the Dag that does the same, with fields of its form; a command that no Dag does (`resume`) stays."""

_COMMAND = re.compile(
    rf"(`)?\btwinlog (?!accept [^-])({'|'.join(WAYS)})\b"
    r"((?: --(?:dry-run|full)\b"
    r"| --(?:mode|flow|topic|tail|profile|reason|seen|until) (?:'[^']*'|[^\s`;,]+))*+)(?! --)(?(1)`)"
)
_OPTION = re.compile(r"--([a-z-]+)(?: (?!--)'?([^'\s]+)'?)?")


def in_airflow(text: str) -> str:
    """Return a text in which each command that a Dag does is the Dag, with the fields of its form."""
    return _COMMAND.sub(_way, text)


def _way(found: re.Match[str]) -> str:
    name, *fields = WAYS[found[2]].split(", ")
    fields += [
        f"{option.replace('-', ' ')} {value}".rstrip()
        for option, value in _OPTION.findall(found[3])
        if option not in {"reason", "until"}
    ]
    return f"{name} ({', '.join(fields)})" if fields else name
