"""Failed checks in lines for a person.  Whether a check holds: test_great_expectations."""

from functools import partial

from twinlog.formats.ledger.accepted import Offence
from twinlog.judge.check import CheckResult, Severity, in_lines


class TestInLines:
    def test_what_one_unknown_fact_fails_is_one_line(self):
        """A person reads once that a configuration cannot be read, not once a check that compares with it."""
        offence = Offence("orders", None, None, "A does not offer it")
        of = partial(CheckResult, severity=Severity.WARNING, passed=False, observed="", expected="")
        unknown = [
            of(name=name, message="long", offences=(offence,)) for name in ("record-size", "cleanup-policy")
        ]
        failed = of(name="no-gaps", message="2 are lost", offences=(Offence("orders", 0, 2),))
        assert [
            "record-size, cleanup-policy: not known (A does not offer it)",
            "no-gaps: 2 are lost",
        ] == list(in_lines([unknown[0], failed, unknown[1]]))

    def test_an_unknown_that_fails_one_check_is_told_in_full(self):
        """With its meaning, and what to do."""
        offence = Offence("orders", None, None, "A does not offer it")
        one = CheckResult(
            "record-size", Severity.WARNING, False, "", "", "does not hold", offences=(offence,)
        )
        assert ["record-size: does not hold"] == list(in_lines([one]))
