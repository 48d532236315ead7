"""Give each command an example and the command that comes next, to stand below its help."""

from __future__ import annotations

from collections.abc import Mapping

EXAMPLES: Mapping[str, tuple[str, str]] = {
    "accept": ("no-gaps --for orders --reason 'nobody reads it' --until 7d", "gate"),
    "run": ("--once --flow 'A->B'", "status"),
    "pause": ("--flow 'A->B' --topic orders --reason 'load on B'", "resume"),
    "resume": ("--flow 'A->B'", "status"),
    "topics rebuild": ("--topic orders --dry-run", "audit --topic orders"),
    "topics forget": ("--topic orders --dry-run", "status"),
    "topics offsets": ("--topic orders --partition 3 --to 4712", "topics gaps"),
    "topics gaps": ("--flow 'A->B'", "accept"),
    "topics quarantine": ("--flow 'A->B'", "topics offsets"),
    "check": ("--config mm2.properties", "plan"),
    "plan": ("--config mm2.properties --topic orders", "run --once"),
    "status": ("--flow 'A->B'", "gate"),
    "groups": ("--flow 'A->B'", "translate"),
    "translate": ("--group billing", "drill"),
    "audit": ("--full --topic orders", "gate"),
    "metadata plan": ("--flow 'A->B' --save plan.json", "metadata apply --plan plan.json"),
    "metadata apply": ("--plan plan.json", "gate"),
    "metadata schemas": ("--flow 'A->B'", "metadata schemas --execute"),
    "gate": ("--mode planned --still-writing", "failover --dry-run"),
    "failover": ("--mode planned --dry-run", "recovery status"),
    "failback": ("--dry-run --flow 'A->B'", "recovery status"),
    "drill": ("--groups 'billing.*'", "drill history"),
    "recovery status": ("--flow 'A->B'", "failback --dry-run"),
    "recovery abort": ("--reason 'A answers again'", "recovery status"),
    "recovery follow": ("--reason 'clients are on A'", "run --once"),
    "evidence verify": ("evidence.json --key public.pem", "failover --dry-run"),
    "migrate takeover": ("--flow 'A->B' --dry-run", "run --once"),
    "migrate handover": ("--flow 'A->B' --dry-run", "status"),
    "migrate claim": ("--flow 'A->west' --reason 'B is west now'", "run --once"),
    "migrate import": ("mirror.yaml --to mm2.properties", "check --config mm2.properties"),
    "machine demo": ("--keep", "machine demo --stop"),
    "machine kafka": ("start --clusters A,B", "machine kafka stop"),
    "machine spark": ("start", "machine spark status"),
    "machine airflow": ("--dags FOLDER --plugins FOLDER", "check --machine"),
}
"""An example of each command, and the one that comes next."""


def epilog(name: str) -> str | None:
    """Return what stands below the help of a command."""
    if name not in EXAMPLES:
        return None
    options, next_ = EXAMPLES[name]
    return f"Such as `twinlog {name} {options}`; then `twinlog {next_}`."
