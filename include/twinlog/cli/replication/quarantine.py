"""`twinlog topics quarantine`: what was written aside."""

from __future__ import annotations

from twinlog.cli import options
from twinlog.cli.flows import clusters_with_ledger, load_one_flow
from twinlog.cli.render import Grid, show
from twinlog.errors import ExitCode
from twinlog.jsonable import to_json


def quarantine(
    *,
    config: options.ConfigOption,
    flow: options.OneFlowOption = None,
) -> int:
    """List what the copies lack because it was written aside: from where, why, since when, where its bytes are.

    Such as `twinlog topics quarantine --flow 'A->B'`; then `twinlog topics offsets`.
    """
    from twinlog.gate.record import moment
    from twinlog.quarantine.read import listed

    _, chosen = load_one_flow(config, flow)
    with clusters_with_ledger(chosen) as clusters:
        found = listed(chosen, clusters)
    columns = "topic | partition | offset | reason | since | bytes: size | where: place | state"
    grid = Grid.of(
        f"{chosen.name}: written aside, not in the copies",
        columns,
        found,
        "nothing",
        since=lambda it: moment(it.at_ms) if it.at_ms is not None else "",
        state=lambda it: it.state.value,
    )
    show({"flow": chosen.name, "records": to_json(found)}, [grid])
    return ExitCode.DONE
