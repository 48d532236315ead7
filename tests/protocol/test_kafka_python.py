"""What twinlog needs of kafka-python's inside: a version in which one of these is missing or different fails here.

messages.txt holds each message as it is in the version that twinlog speaks: `name: type` of each field, `?` where null
is allowed. After a new kafka-python, or a new request, compare with Kafka's own definitions and write it anew:
`python tests/protocol/test_kafka_python.py > tests/protocol/messages.txt`.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from kafka.net.sasl import get_sasl_mechanism
from kafka.net.sasl.oauth import AbstractTokenProvider
from kafka.record.legacy_records import LegacyRecordBatch

from twinlog.protocol import kafka_python
from twinlog.protocol.kafka_python import Api

MESSAGES = Path(__file__).with_name("messages.txt")


def apis() -> dict[str, Api]:
    """Return every request that twinlog sends through kafka-python, by its name in the adapter."""
    return {name: api for name, api in vars(kafka_python).items() if isinstance(api, Api)}


def within(versions: str, version: int) -> bool:
    """Say whether `3+`, `8-10`, `4` or `none` has the version."""
    first, _, last = versions.removesuffix("+").partition("-")
    if not first.isdigit():
        return False
    return int(first) <= version <= int(last or (version if versions.endswith("+") else first))


def fields(listed: Iterable[Mapping[str, Any]], version: int) -> Iterator[str]:
    """Yield `name: type` of each field that a message has in this version, with the fields of its parts."""
    for field in listed:
        if not within(field["versions"], version):
            continue
        null = "?" if within(field.get("nullableVersions", "none"), version) else ""
        parts = " ".join(fields(field.get("fields", ()), version))
        yield f"{field['name']}: {field['type']}{null}" + (f" {{{parts}}}" if parts else "")


def messages() -> Iterator[str]:
    """Yield a line for each request and each answer."""
    for api in apis().values():
        for message in (api.request, api.response):
            described = message.json
            flexible = "flexible " if within(described["flexibleVersions"], api.version) else ""
            head = f"{described['name']} {described['apiKey']} v{api.version} {flexible}"
            yield head + " ".join(fields(described["fields"], api.version))


def test_every_message_is_as_it_was() -> None:
    """Request by request, so that a failure names the field."""
    assert MESSAGES.read_text().splitlines() == list(messages())


def test_parts_of_requests_are_made_by_the_names_of_their_types() -> None:
    """As callers do: `METADATA.request.MetadataRequestTopic(name=...)`."""
    parts = {
        (name, field["type"].removeprefix("[]"))
        for name, api in apis().items()
        for field in api.request.json["fields"]
        if "fields" in field
    }
    assert set() == {(name, part) for name, part in parts if not hasattr(apis()[name].request, part)}


@pytest.mark.parametrize("name", sorted(apis()))
def test_a_request_says_which_it_is(name: str) -> None:
    """Behind its size: its key, the version asked for, the correlation, the client; an unknown field is an error."""
    api = apis()[name]
    head = b"".join(
        number.to_bytes(size, "big") for number, size in ((api.request.API_KEY, 2), (api.version, 2), (7, 4))
    )
    encoded = kafka_python.encode(api, api.version, 7, "twin", {})
    assert len(encoded) - 4 == int.from_bytes(encoded[:4], "big")
    assert head + b"\0\4twin" == encoded[4:18]
    with pytest.raises(ValueError, match="nonsense"):
        kafka_python.encode(api, api.version, 7, "twin", {"nonsense": 1})


def test_an_old_message_has_what_is_read_of_it() -> None:
    """Also what is not public: the timestamp before it is interpreted."""
    needed = {
        "LOG_APPEND_TIME",
        "_timestamp",
        "compression_type",
        "timestamp_type",
        "validate_crc",
        "__iter__",
    }
    assert set() == needed - set(dir(LegacyRecordBatch))
    assert ["self", "buffer", "magic"] == list(inspect.signature(LegacyRecordBatch.__init__).parameters)


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"])
def test_a_login_is_a_state_machine(mechanism: str) -> None:
    """With three steps, whatever else it has."""
    assert set() == {"auth_bytes", "receive", "is_done"} - set(dir(get_sasl_mechanism(mechanism)))
    assert {"token", "extensions"} <= set(dir(AbstractTokenProvider))


if __name__ == "__main__":
    sys.stdout.write("".join(f"{line}\n" for line in messages()))
