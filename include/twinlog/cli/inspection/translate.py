"""`twinlog translate`: where to go on at the other side, for groups, single offsets, and files of offsets."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument

from twinlog import clock
from twinlog.cli import options
from twinlog.cli.flows import load_one_flow
from twinlog.cli.options import option
from twinlog.cli.render import Grid, refuse_unwritable, say, show, warn, written
from twinlog.errors import ExitCode, TerminalError, UsageError
from twinlog.jsonable import Json, to_json

if TYPE_CHECKING:
    from twinlog.client.offset_documents import OffsetDocument
    from twinlog.client.pairs import Answer, Ask
    from twinlog.client.translator import Translated

_NUMBERS = re.compile(r"[0-9]+:-?[0-9]+")


def translate(
    offsets: Annotated[
        list[str] | None,
        Argument(metavar="[TOPIC:PARTITION:OFFSET]...", help="Offsets, each the next one to read."),
    ] = None,
    *,
    config: options.ConfigOption,
    flow: options.OneFlowOption = None,
    group: Annotated[list[str] | None, option("--group -g NAME", "A consumer group; repeatable.")] = None,
    groups: Annotated[
        str, option("--groups REGEX", "Every group whose whole name matches (Java regex).")
    ] = "",
    offsets_file: Annotated[
        str,
        option(
            "--offsets FILE",
            "A file of offsets (Spark, kafka-consumer-groups --export; - for stdin): docs/client.md.",
        ),
    ] = "",
    write: Annotated[
        Path | None, option("--write FILE", "Write the translated offsets in the form of the --offsets file.")
    ] = None,
    reverse: Annotated[
        bool, option("--reverse", "Offsets are the target's: translate them back to the source.")
    ] = False,
    at: Annotated[
        str | None,
        option("--at TIME", "Where a group stood at a time; without a group: the first record then."),
    ] = None,
    topics: options.TopicsOption = None,
) -> int:
    """Translate offsets exactly, from the source to the target or back; exit 1 when one has no translation.

    Example: `twinlog translate --group billing`. Next: `twinlog drill`.
    """
    _check(offsets, group, groups, offsets_file, write, at, topics, reverse=reverse)
    _, one = load_one_flow(config, flow)
    document = _read(offsets_file) if offsets_file else None
    refuse_unwritable(write, "--write")
    at_ms = None if at is None else _past(at)
    from twinlog.client.group_positions import Groups, Standing
    from twinlog.client.translator import translate_groups, translate_time, translated
    from twinlog.state.own_clusters import open_own_clusters

    wanted = Groups(tuple(group or ()), groups)
    with open_own_clusters(one) as clusters:
        if wanted:
            found = translate_groups(one, clusters, wanted, at_ms)
        elif at_ms is not None:
            found = translate_time(one, clusters, at_ms, options.parse_topics(topics))
        else:
            found = translated(one, clusters, Standing(tuple(_asks(document, offsets)), back=reverse))
        words = tuple(_asks_for_names(document)) if document is not None and write is not None else ()
        named = translated(one, clusters, Standing(words, back=reverse)).answers if words else ()
    for note in found.notes:
        say(f"note: {note}")
    _show(found)
    if document is not None and write is not None:
        names = _names([*found.answers, *_with_a_copy(named, write)], reverse=reverse)
        if not _write(write, document, found, names, reverse=reverse):
            return ExitCode.USAGE
    return ExitCode.of(found.complete)


def _check(
    offsets: Sequence[str] | None,
    group: Sequence[str] | None,
    groups: str,
    offsets_file: str,
    write: Path | None,
    at: str | None,
    topics: list[str] | None,
    *,
    reverse: bool,
) -> None:
    """Refuse lines that ask for nothing, or for two things at once."""
    asked = [bool(offsets), bool(group or groups), bool(offsets_file)]
    if sum(asked) > 1:
        raise UsageError("offsets, groups and a file cannot be translated in one go", "give one of them")
    if not any(asked) and at is None:
        raise UsageError(
            "nothing to translate", "give --group, --groups, --offsets, --at, or offsets such as orders:0:42"
        )
    if at is not None and (offsets or offsets_file):
        raise UsageError("--at finds offsets by time", "leave out the offsets, or --at")
    if topics is not None and (any(asked) or at is None):
        raise UsageError("--topic bounds what --at finds without a group", "leave it out")
    if reverse and (group or groups or at is not None):
        raise UsageError("--reverse takes offsets of the target", "give them one by one, or in a file")
    if write is not None and not offsets_file:
        raise UsageError("--write writes the form of an --offsets file", "use --output json instead")


def _past(text: str) -> int:
    """Read --at; where a group will stand, or which record will come first, nobody knows yet."""
    at_ms = options.parse_moment(text, "--at")
    if at_ms > clock.now_ms():
        raise UsageError(f"--at: {text} has not come yet", "give a time that has passed")
    return at_ms


def _read(path: str) -> OffsetDocument:
    from twinlog.client.offset_documents import read_document

    if path == "-":
        return read_document(sys.stdin.read(), "standard input")
    try:
        return read_document(Path(path).read_text(encoding="utf-8"), path)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise UsageError(f"{path} cannot be read: {reason}", file=path) from None


def _asks(document: OffsetDocument | None, offsets: Sequence[str] | None) -> Iterator[Ask]:
    from twinlog.client.pairs import LARGEST, Ask

    if document is not None:
        yield from (entry for entry in document.entries if not entry.special)
    for word in offsets or ():
        topic, _, numbers = word.partition(":")
        partition, _, offset = numbers.partition(":")
        if not topic or not _NUMBERS.fullmatch(numbers) or abs(int(offset)) > LARGEST:
            raise UsageError(f"{word!r} is no offset", "write topic:partition:offset, such as orders:0:42")
        yield Ask(topic, int(partition), int(offset))


def _asks_for_names(document: OffsetDocument) -> Iterator[Ask]:
    """Ask about topics that have only Spark's -1 and -2: their names differ on the other side, too."""
    from twinlog.client.pairs import Ask

    numbered = {entry.topic for entry in document.entries if not entry.special}
    for entry in document.entries:
        if entry.topic not in numbered:
            yield Ask(entry.topic, entry.partition, 0)


def _with_a_copy(answers: Sequence[Answer], path: Path) -> Sequence[Answer]:
    """Return the answers if all their topics exist on both sides; else raise, and nothing is written."""
    from twinlog.client.pairs import NO_COPY

    for answer in answers:
        if not answer.answered and answer.reason in NO_COPY:
            raise TerminalError(f"{path} was not written: {answer.message}", code=answer.reason.value)
    return answers


def _show(found: Translated) -> None:
    times = found.as_of_ms or (None,) * len(found.answers)
    rows: list[Json] = []
    for answer, as_of in zip(found.answers, times, strict=True):
        document = {"flow": found.flow, **to_json(answer)}
        if as_of is not None:
            document["as_of"] = clock.iso(as_of, "milliseconds")
        rows.append(document)
    columns = (
        "group | topic | partition | upstream: upstream_offset | downstream: downstream_offset | exact"
        " | again at most: again | remark: message | as_of"
    )
    grid = Grid.of(
        f"{found.flow}: next offsets to read",
        columns,
        rows,
        "none",
        group=lambda it: it["group"] or "-",
        as_of=lambda it: it.get("as_of"),
    )
    show(rows, [grid])


def _write(
    path: Path, document: OffsetDocument, translated: Translated, names: Mapping[str, str], *, reverse: bool
) -> bool:
    """Write all offsets, or none: an incomplete file would be read as complete.  Return False if it failed.

    `names` gives each topic's name on the other side.
    """
    from dataclasses import replace

    from twinlog.client.pairs import Reason

    found = iter(translated.answers)
    entries = []
    inexact = 0
    for entry in document.entries:
        if entry.special:
            entries.append(replace(entry, topic=names[entry.topic]))
            continue
        answer = next(found)
        offset = answer.upstream_offset if reverse else answer.downstream_offset
        if offset is None:
            warn(f"{path} was not written: {answer.message}")
            return True
        inexact += not (answer.exact or answer.missing)
        topic = answer.source_topic if reverse else answer.topic
        entries.append(replace(entry, topic=topic, offset=offset))
    if not written(path, document.write(entries).encode()):
        return False
    if inexact:
        warn(f"{inexact} offset(s) in {path} are not exact: records may be read again")
    if missing := sum(it.missing for it in translated.answers):
        warn(f"{path} skips at most {missing} unread record(s): they are not on the other side")
    if unknown := next((it for it in translated.answers if it.reason is Reason.REVERSE_UNKNOWN), None):
        warn(f"{path}: {unknown.message}")
    return True


def _names(answers: Iterable[Answer], *, reverse: bool) -> dict[str, str]:
    if reverse:
        return {answer.topic: answer.source_topic for answer in answers}
    return {answer.source_topic: answer.topic for answer in answers}
