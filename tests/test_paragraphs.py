"""Tables of sentences are read paragraph by paragraph."""

from __future__ import annotations

import pytest

from twinlog.paragraphs import paragraphs

TABLE = """
one: a head that
    goes on
  what: this: and
    that
  why: because
two
"""


def test_each_head_comes_with_its_texts():
    """Lines that are indented further belong to the text before, colons in a text count for nothing."""
    assert [("one: a head that goes on", "this: and that", "because"), ("two",)] == [
        *paragraphs(TABLE, "what", "why")
    ]


@pytest.mark.parametrize("labels", [("why", "what"), ("what",), ("what", "why", "who")])
def test_a_paragraph_without_its_labels_is_refused(labels):
    """A paragraph has all labels in their order, or none."""
    with pytest.raises(ValueError, match="'one: a head that goes on' is not followed by"):
        list(paragraphs(TABLE, *labels))
