"""Commit to what a rule hides, so that it can be verified without being seen.  Pure.

A rule with `commit.key` adds a header to each record of which it masks or hashes fields:

    twinlog-commitment = RULE/TOPIC/PARTITION/OFFSET/HMAC

Topic, partition and offset are those of the source.  HMAC is the HMAC-SHA256, as 64 hexadecimal digits, of

    ["twinlog-commitment",RULE,TOPIC,PARTITION,OFFSET,[[PATH,WRITTEN],...]]

in JSON without spaces and in ASCII.  It has all those fields in the order of the value, each as it is written on the
source.  Since the record's place is part of it, nobody sees by their commitments that two records hold the same.
"""

from __future__ import annotations

import hmac
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from twinlog.kafka_types import OfPartition, TopicPartition
from twinlog.transforms.json_fields import Path
from twinlog.transforms.rules import Hidden, HmacKey

HEADER: Final = b"twinlog-commitment"


@dataclass(frozen=True, slots=True)
class Commitment(OfPartition):
    """One commitment as its header has it: to the fields that a rule hides in the record of an upstream offset."""

    rule: str
    topic: str
    partition: int
    offset: int
    hmac: str

    def __str__(self) -> str:
        return f"{self.rule}/{self.topic}/{self.partition}/{self.offset}/{self.hmac}"

    @classmethod
    def parse(cls, text: bytes) -> Commitment | None:
        """Read what a header holds; None if that is no commitment."""
        try:
            rule, topic, partition, offset, digest = text.decode("ascii").split("/")
            found = cls(rule, topic, int(partition), int(offset), digest)
        except ValueError:
            return None
        return found if str(found).encode() == text else None


def commitments(hidden: Hidden, place: TopicPartition, offset: int, value: bytes) -> list[Commitment]:
    """Return a commitment for each rule that hides something of a record, which has this value on the source."""
    made = []
    for rule, found in hidden:
        if rule.commit_key is not None:
            fields = [(it.path, value[it.start : it.end].decode()) for it in found]
            digest = _digest(rule.commit_key, rule.name, place, offset, fields)
            made.append(Commitment(rule.name, *place, offset, digest))
    return made


def _digest(
    key: HmacKey, rule: str, place: TopicPartition, offset: int, fields: Sequence[tuple[Path, str]]
) -> str:
    written = [[".".join(path), text] for path, text in fields]
    told = ["twinlog-commitment", rule, place.topic, place.partition, offset, written]
    text = json.dumps(told, separators=(",", ":"), ensure_ascii=True)
    return hmac.digest(key.secret, text.encode(), "sha256").hex()
