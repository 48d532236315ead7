"""The answer of `twinlog size`: complete, in both rhythms, and quick for any load."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from twinlog.cli.main import main
from twinlog.config.flow.load import load as load_configuration
from twinlog.copying.packing import LANE_BYTES
from twinlog.jsonable import to_json
from twinlog.lane.copy.loops import BACKLOG_SECONDS, TICK_SECONDS
from twinlog.sizing.load import Load, Rules
from twinlog.sizing.size import size

FLOWS = st.builds(
    Load,
    partitions=st.integers(1, 1_000_000) | st.integers(1, 100),
    mb_per_second=st.floats(0, 100_000) | st.floats(0, 10),
    batch_bytes=st.integers(100, 1 << 20),
    slots=st.none() | st.integers(1, 64),
    every_seconds=st.integers(1, 86_400),
    brokers=st.integers(1, 50),
    new_partitions_per_day=st.floats(0, 1_000),
)


@settings(max_examples=30, deadline=None)
@given(FLOWS)
def test_every_load_gets_an_answer(load):
    """It is JSON, uses no more slots than there are, and fits only within all limits."""
    sized = size(load)
    json.dumps(to_json(sized), allow_nan=False)
    for it in sized.rhythms:
        assert 1 <= it.lanes <= (load.slots or it.lanes_needed)
        assert not it.fits or all(limit.used <= 1 for limit in it.limits)


def test_the_rules_are_those_of_the_product(tmp_path):
    """Defaults of the settings, and the constants of lanes."""
    file = tmp_path / "mm2.properties"
    file.write_text("clusters=A,B\nA.bootstrap.servers=a:1\nB.bootstrap.servers=b:1\nA->B.enabled=true\n")
    copy = load_configuration(file).flows["A->B"].copy
    rules = Rules()
    assert (copy.transaction_bytes, copy.partition_fetch_bytes, copy.follow_seconds) == (
        rules.transaction_bytes,
        rules.partition_fetch_bytes,
        rules.follow_seconds,
    )
    assert (LANE_BYTES, TICK_SECONDS, BACKLOG_SECONDS) == (
        rules.lane_bytes,
        rules.tick_seconds,
        rules.backlog_seconds,
    )


def test_ten_thousand_partitions_and_a_gigabyte_a_second():
    """In cycles they fit 32 slots; followed, the offset map grows beyond what is read in an hour."""
    followed, cycles = size(Load(partitions=10_000, mb_per_second=1_000, slots=32)).rhythms
    assert (False, True) == (followed.fits, cycles.fits)
    assert "an hour to read the offset map at a start" == followed.breaks_first.name


def test_catching_up_takes_for_ever_without_room():
    """A partition with 1 GB/s: one lane is slower than what arrives."""
    assert [None, None] == [
        it.catch_up_seconds for it in size(Load(partitions=1, mb_per_second=1_000)).rhythms
    ]


def test_more_slots_catch_up_sooner():
    """With 32 lanes instead of 8."""
    few, many = (
        size(Load(partitions=10_000, mb_per_second=1_000, slots=slots)).rhythms[1].catch_up_seconds
        for slots in (8, 32)
    )
    assert few is not None and many is not None and many < few / 3


class TestCommand:
    """`twinlog size` on the command line."""

    def run(self, capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
        code = main(["size", *words])
        seen = capsys.readouterr()
        return code, seen.out, seen.err

    def test_json_is_the_whole_answer(self, capsys):
        """As `size` gives it."""
        code, out, _ = self.run(
            capsys, "--partitions", "100", "--mb-per-second", "10", "--slots", "4", "--output", "json"
        )
        expected = to_json(size(Load(partitions=100, mb_per_second=10, slots=4)))
        assert (0, json.loads(json.dumps(expected))) == (code, json.loads(out))

    def test_a_table_names_what_breaks_first(self, capsys):
        """And what moves it."""
        code, out, _ = self.run(
            capsys,
            *("--partitions", "10000", "--mb-per-second", "100", "--slots", "32"),
            *("--new-partitions-per-day", "500"),
        )
        assert 0 == code
        for line in ("lanes needed", "breaks first", "at this growth in, days", "twinlog.follow.seconds"):
            assert line in out

    def test_what_fits_in_neither_is_exit_code_1(self, capsys):
        """1 GB/s in one partition."""
        assert 1 == self.run(capsys, "--partitions", "1", "--mb-per-second", "1000")[0]

    @pytest.mark.parametrize(
        ("words", "message"),
        [
            (("--partitions", "0", "--mb-per-second", "1"), "--partitions: 0 is not possible"),
            (("--partitions", "1", "--mb-per-second", "nan"), "--mb-per-second: nan is not possible"),
            (
                ("--partitions", "1", "--mb-per-second", "1", "--every", "soon"),
                "--every: 'soon' is no duration",
            ),
            (("--partitions", "1"), "--mb-per-second"),
        ],
    )
    def test_bad_input_is_exit_code_2(self, capsys, words, message):
        """One line says what is wrong."""
        code, out, err = self.run(capsys, *words)
        assert (2, "") == (code, out)
        assert message in err
