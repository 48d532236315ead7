"""Java's patterns keep Java's meaning; the answers below were given by java.util.regex of JDK 17."""

import pytest

from twinlog.errors import ConfigError
from twinlog.policy.java_regex import compile_java, matches

MATCHES = [
    # pattern, names it matches, names it does not
    (".*", ["", "orders", "a.b-c_1"], ["two\nlines", "a\u2028b"]),
    (r"orders\..*", ["orders.", "orders.v1"], ["ordersXv1", "my.orders.v1"]),
    (r"^((?!B\.).*)$", ["orders", "A.B.orders"], ["B.orders", "B."]),
    ("a|b", ["a", "b"], ["ab", "", "A"]),
    ("(?i)a|b", ["a", "A", "b", "B"], ["c"]),
    ("a|(?i)b|c", ["a", "B", "C"], ["A"]),
    ("(a|(?i)b)c", ["ac", "Bc"], ["BC", "Ac"]),
    ("(?i:a)b", ["ab", "Ab"], ["aB"]),
    ("(?i)a(?-i)b", ["ab", "Ab"], ["aB"]),
    ("(?i)[a-c]", ["a", "C"], ["d"]),
    ("(?i)[^a]", ["b"], ["a", "A"]),
    ("(?i)é", ["é"], ["É"]),
    ("(?s)a.b", ["a\nb", "a b"], ["ab"]),
    ("a.b", ["a b"], ["a\nb", "a\rb", "a\u0085b"]),
    (r"\d+", ["42"], ["४२", "", "4a"]),
    (r"\w", ["a", "_", "1"], ["é", "-"]),
    (r"\W", ["é", "-"], ["a"]),
    (r"\s\S", [" a", "\ta"], ["\u00a0a", "a "]),
    (r"\h\v", ["\u00a0\n", " \u2028"], ["\n\n"]),
    (r"\bab\b.*", ["ab", "ab-c", "ab.c"], ["abc", "ab_c", "ab1"]),
    (r"a\B.", ["ab", "a_"], ["a-"]),
    ("a++b", ["ab", "aab"], ["b"]),
    ("a*+a", [], ["a", "aa"]),
    ("(?>a|ab)c", ["ac"], ["abc"]),
    ("a{2,}?b", ["aab"], ["ab"]),
    ("[a-z&&[^bc]]", ["a", "d"], ["b", "c", "A"]),
    ("[a-z&&b-y&&[^m]]+", ["bc"], ["a", "m", "z"]),
    ("[^a-z&&[^b]]", ["b", "A", "-"], ["a", "z"]),
    ("[a-c[x-z]]+", ["ay"], ["d"]),
    ("[]a]+", ["]a"], ["["]),
    ("[^]]", ["a"], ["]"]),
    ("[a-]+", ["a-"], ["b"]),
    (r"[\w.-]+", ["a.b-c_D"], ["a b"]),
    (r"[\d[a-c&&[^b]]]+", ["1ac"], ["b"]),
    ("[a&b]+", ["a&b"], ["c"]),
    (r"\Qa.b|c\E", ["a.b|c"], ["axb|c", "c"]),
    (r"\Qa.b", ["a.b"], ["axb"]),
    (r"[\Q^-]\E]+", ["^-]"], ["a"]),
    (r"\p{Lu}\p{Lower}", ["Éa"], ["éa", "Eé"]),
    (r"\pL\P{L}", ["é1"], ["1é"]),
    (r"\p{IsGreek}+", ["αβγ"], ["abc"]),
    (r"\p{Punct}+", ["._-"], ["a", "„"]),
    (r"\x41\u0042\x{43}\0104", ["ABCD"], ["abcd"]),
    (r"\t\e\cA", ["\t\x1b\x01"], ["tecA"]),
    ("(?<=x)a|xa(?<!y)", ["xa"], ["ya", "a"]),
    ("a$", ["a"], ["a\n"]),
    ("a$\n", ["a\n"], ["a"]),
    (r"a\Z\r\n", ["a\r\n"], ["a"]),
    (r"a\z", ["a"], ["a\n"]),
    (r"\_\-\.\#\ ", ["_-.# "], ["abc"]),
    ("}]&", ["}]&"], []),
    ("", [""], ["a"]),
    ("a||b", ["a", "", "b"], ["c"]),
    (r"\h", ["\t", "\u3000"], ["\n"]),
    ("[^0]|[^1]", ["0", "1", "a"], [""]),
    ("[[^0][^1]]", ["0", "1", "a"], [""]),
    (r"[^\P{Lu}\p{Lu}]", [], ["a", "A"]),
    ("(?<!-internal)b|.*(?<!-internal)", ["orders", "b"], ["orders-internal"]),
    (r"[a\Q-\Ez]", ["a", "-", "z"], ["b"]),
]

REFUSED = [
    # pattern, words of the reason
    ("a(", "never closed"),
    ("a)", "closes nothing"),
    ("[a", "never closed"),
    ("[]", "never closed"),
    ("*a", "has * behind nothing"),
    ("a**", "has * behind nothing"),
    ("a{2}{3}", "has {3} behind nothing"),
    ("a{", "uses {"),
    ("{a", "uses {"),
    ("a{,2}", "uses {"),
    ("a{3,2}", "impossible repetition"),
    ("^*", "has * behind nothing"),
    ("(?=a)*", "has * behind nothing"),
    ("(?i)*", "has * behind nothing"),
    ("(?m)a", "uses (?m"),
    ("(?x)a b", "uses (?x"),
    ("(?u)a", "uses (?u"),
    ("(?P<n>a)", "(?P"),
    ("(?#note)", "(?#"),
    ("(?<1a>b)", "uses (?<1"),
    ("(?<n>a)(?<n>b)", "two groups"),
    (r"\1(a)", r"uses \1"),
    (r"(a\1)", r"uses \1"),
    (r"\k<n>", r"uses \k"),
    (r"(?i)(a)\1", r"uses \1"),
    (r"(?<=a*)b", "looks behind with *"),
    (r"(?<=a{1,})b", "looks behind with {1,}"),
    (r"(a)(?<=\1)", r"uses \1"),
    (r"(?<=a{1,3}+ab)", "looks behind with {1,3}+"),
    (r"(?<=(?>a|ab))", "looks behind with (?>"),
    (r"(?<=(ab?){2})", "looks behind with {2}"),
    (r"(ab|c)\1", r"uses \1"),
    (r"(?<day>\d\d)-\k<day>", r"uses \k"),
    (r"(a)\11", r"uses \1"),
    (r"\Q\E", r"uses \Q"),
    (r"[\Qa\E-z]", r"uses \Qa in brackets"),
    (r"\p{IsAlphabetic}", r"\p{IsAlphabetic}"),
    (r"\G", r"\G"),
    (r"\R", r"\R"),
    (r"\X", r"\X"),
    (r"\N{DIGIT ONE}", r"\N"),
    (r"\b{g}", r"\b{g}"),
    (r"\i", r"\i"),
    (r"\E", r"\E"),
    ("a\\", "uses \\,"),
    (r"\uD83D", "no character"),
    (r"\p{javaLowerCase}", "javaLowerCase"),
    (r"\p{InGreek}", "InGreek"),
    (r"\p{Cn}", "Cn"),
    (r"(?i)\p{Lu}", "ignoring case"),
    (r"\p", r"uses \p"),
    ("[a&&]", "empty or a mixed side of &&"),
    ("[&&a]", "empty or a mixed side of &&"),
    ("[a-z&&^b]", "uses &&^ in brackets"),
    ("[a&&&b]", "uses &&& in brackets"),
    ("[a-z&&&&b]", "uses &&& in brackets"),
    ("[a-z&&b&&&[c]]", "uses &&& in brackets"),
    ("[a-z&&[b]c]", "empty or a mixed side of &&"),
    ("[z-a]", "impossible range"),
    ("[a-[b]-[c]", "never closed"),
    (r"[\d-z]", r"uses \d- in brackets"),
]


@pytest.mark.parametrize(("pattern", "matched", "unmatched"), MATCHES)
def test_a_translated_pattern_matches_what_java_matches(pattern, matched, unmatched):
    """Whole names match, or not, as Pattern.matcher(name).matches() says."""
    compiled = compile_java(pattern)
    assert matched == [name for name in matched + unmatched if compiled.match(name)]


@pytest.mark.parametrize(("pattern", "reason"), REFUSED)
def test_what_cannot_mean_the_same_is_refused_by_name(pattern, reason):
    """The error names the pattern and the construct."""
    with pytest.raises(ConfigError) as refused:
        compile_java(pattern)
    assert repr(pattern) in refused.value.message
    assert reason in refused.value.message
    assert {"pattern": pattern} == refused.value.data


@pytest.mark.parametrize(
    ("pattern", "character"),
    [(r"a\.b\R", 5), (r"\Qx.y\Ea**", 10), ("a(b|(c)", 2), ("ab[a&&]", 3), (r"ab\1", 3)],
)
def test_the_refusal_says_where(pattern, character):
    """Characters count from 1; an error in brackets stands where they begin."""
    with pytest.raises(ConfigError) as refused:
        compile_java(pattern)
    assert refused.value.message.endswith(f"(at character {character})")


def test_a_match_that_takes_too_long_says_nothing():
    """Neither that the text matches nor that it does not."""
    pattern = compile_java(".*-.*-prod")
    assert [True, False, None] == [matches(pattern, it) for it in ("a-b-prod", "a-prod", "-" * 100_000)]
