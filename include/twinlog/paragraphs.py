"""Read tables of sentences that stand in the source as paragraphs: a head, and below it a line for each label."""

from __future__ import annotations

import re
from collections.abc import Iterator


def paragraphs(text: str, *labels: str) -> Iterator[tuple[str, ...]]:
    """Yield each head with the texts of its labels, or alone if it has none.

    A head begins a line, a label stands two columns further, and a longer text goes on in lines four columns further.
    Raises ValueError for a paragraph that has not these labels in their order.
    """
    for paragraph in re.split(r"\n+(?=\S)", text.strip()):
        head, *lines = re.sub(r"\n {4}", " ", paragraph).split("\n")
        found = [line.strip().partition(": ") for line in lines]
        if lines and [label for label, _, _ in found] != list(labels):
            raise ValueError(f"{head!r} is not followed by {' and '.join(labels)}")
        yield head, *(said for _, _, said in found)
