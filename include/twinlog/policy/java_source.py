"""A pattern being read, and the one exception that stops reading it."""

from __future__ import annotations

import re


class Refused(Exception):
    """Why a pattern is not translated; its text goes on after the words "the regular expression '...'"."""


class Source:
    """A cursor over the text of a pattern."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0

    def more(self) -> bool:
        """Whether there is text left."""
        return self.position < len(self.text)

    def peek(self, ahead: int = 0) -> str:
        """Show the character `ahead` of the cursor; empty at the end."""
        return self.text[self.position + ahead : self.position + ahead + 1]

    def take(self) -> str:
        """Step over the next character; the caller has checked that there is one."""
        self.position += 1
        return self.text[self.position - 1]

    def took(self, char: str) -> bool:
        """Step over `char` if it comes next."""
        found = self.text.startswith(char, self.position)
        self.position += len(char) if found else 0
        return found

    def match(self, expression: str) -> re.Match[str] | None:
        """Step over what `expression` (ASCII, ours) matches at the cursor."""
        found = re.compile(expression, re.ASCII).match(self.text, self.position)
        self.position = found.end() if found else self.position
        return found

    def peek_or_refuse(self, why: str) -> str:
        """Show the next character; Refused at the end."""
        if not self.more():
            raise Refused(why)
        return self.peek()

    def take_or_refuse(self, why: str) -> str:
        """Step over the next character; Refused at the end."""
        self.peek_or_refuse(why)
        return self.take()
