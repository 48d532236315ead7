"""Declare and read the keys of Connect's transforms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from twinlog.config.file.keys import Key, Kind
from twinlog.config.flow.reader import Reader
from twinlog.transforms.chain import NO_CHAIN, Chain
from twinlog.transforms.connect import PREDICATES, TRANSFORMS, read_steps


@dataclass(frozen=True, slots=True)
class TransformKeys:
    """The keys from which a flow's chain is read."""

    _transforms: ClassVar = Key("transforms", Kind.LIST, "")
    """names of [transforms](transforms.md) that are applied to each record, in order. Per flow"""
    _predicates: ClassVar = Key("predicates", Kind.LIST, "")
    """names of the predicates that transforms use. Per flow"""


def read_transforms(read: Reader) -> Chain:
    """Read what a flow makes of its records; mistakes go to the reader's findings."""
    names = {key: read.names(key) for key in (TRANSFORMS, PREDICATES)}
    below = [key for key in read if key.startswith(tuple(f"{key}." for key in names))]
    texts = {key: read.text(key) for key in below}
    hidden = [key for key in (*names, *below) if read.hidden(key)]
    for key in hidden:
        # The audit needs what is applied as it stands.
        read.refuse(key, "is a reference: transforms are read only as they stand in the file", "write it out")
    if hidden:
        return NO_CHAIN
    steps, mistakes = read_steps(names[TRANSFORMS], names[PREDICATES], texts)
    for mistake in mistakes:
        if mistake.fatal:
            read.refuse(mistake.key, mistake.message, mistake.hint)
        else:
            read.findings.warn(read.origin(mistake.key), mistake.message, mistake.hint)
    return Chain(steps)
