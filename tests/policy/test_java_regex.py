"""Java's patterns keep Java's meaning; the answers below were given by java.util.regex of JDK 17."""

import pytest

from twinlog.errors import ConfigError
from twinlog.policy.java_regex import compile_java

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
    (r"(ab|c)\1", ["abab", "cc"], ["abc"]),
    (r"(?<day>\d\d)-\k<day>", ["01-01"], ["01-02"]),
    (r"(a)\11", ["aa1"], ["aa"]),
    ("(?<=x)a|xa(?<!y)", ["xa"], ["ya", "a"]),
    ("a$", ["a"], ["a\n"]),
    ("a$\n", ["a\n"], ["a"]),
    (r"a\Z\r\n", ["a\r\n"], ["a"]),
    (r"a\z", ["a"], ["a\n"]),
    (r"\_\-\.\#\ ", ["_-.# "], ["abc"]),
    ("}]&", ["}]&"], []),
    ("", [""], ["a"]),
    ("a||b", ["a", "", "b"], ["c"]),
]

REFUSED = [
    # pattern, words of the reason
    ("a(", "never closed"),
    ("a)", "closes nothing"),
    ("[a", "never closed"),
    ("[]", "never closed"),
    ("*a", "nothing before it"),
    ("a**", "two quantifiers"),
    ("a{2}{3}", "two quantifiers"),
    ("a{", "no repetition"),
    ("{a", "repeats nothing"),
    ("a{,2}", "no repetition"),
    ("a{3,2}", "impossible repetition"),
    ("^*", "no width"),
    ("(?=a)*", "no width"),
    ("(?i)*", "no width"),
    ("(?m)a", "flag 'm'"),
    ("(?x)a b", "flag 'x'"),
    ("(?u)a", "flag 'u'"),
    ("(?P<n>a)", "(?P"),
    ("(?#note)", "(?#"),
    ("(?<1a>b)", "group name"),
    ("(?<n>a)(?<n>b)", "two groups"),
    (r"\1(a)", "group 1"),
    (r"(a\1)", "group 1"),
    (r"\k<n>", "no such name"),
    (r"(?i)(a)\1", "ignoring case"),
    (r"(?<=a*)b", "unbounded"),
    (r"(?<=a{1,})b", "unbounded"),
    (r"(a)(?<=\1)", "unbounded"),
    (r"\G", r"\G"),
    (r"\R", r"\R"),
    (r"\X", r"\X"),
    (r"\N{DIGIT ONE}", r"\N"),
    (r"\b{g}", r"\b{g}"),
    (r"\i", r"\i"),
    (r"\E", r"\E"),
    ("a\\", "ends in a backslash"),
    (r"\uD83D", "no character"),
    (r"\p{javaLowerCase}", "javaLowerCase"),
    (r"\p{InGreek}", "InGreek"),
    (r"\p{Cn}", "Cn"),
    (r"(?i)\p{Lu}", "ignoring case"),
    (r"\p", "without a name"),
    ("[a&&]", "empty side"),
    ("[&&a]", "empty side"),
    ("[a-z&&^b]", "after '&&'"),
    ("[a&&&b]", "more than two '&'"),
    ("[a-z&&&&b]", "more than two '&'"),
    ("[a-z&&b&&&[c]]", "more than two '&'"),
    ("[a-z&&[b]c]", "mixes"),
    ("[z-a]", "impossible range"),
    ("[a-[b]-[c]", "never closed"),
    (r"[\d-z]", r"after \d"),
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
