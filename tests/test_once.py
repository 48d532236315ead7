"""An attribute that asks a cluster is read once, and holds up nobody else."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Event

from twinlog.once import read_once


class Asked:
    """What it reads waits until somebody lets it go on."""

    def __init__(self, answers: Event) -> None:
        self.answers, self.reads = answers, 0

    @read_once
    def answer(self) -> int:
        """The number of this reading."""
        assert self.answers.wait(10)
        self.reads += 1
        return self.reads


def test_it_is_read_once() -> None:
    """Whoever asks again is given the same."""
    answers = Event()
    answers.set()
    asked = Asked(answers)
    assert [1, 1] == [asked.answer, asked.answer]


def test_a_silent_one_holds_up_no_other() -> None:
    """As it would with functools.cached_property, until Python 3.12."""
    silent, prompt = Event(), Event()
    prompt.set()
    with ThreadPoolExecutor(2) as pool:
        waiting = pool.submit(lambda: Asked(silent).answer)
        other = pool.submit(lambda: Asked(prompt).answer)
        try:
            assert 1 == other.result(5)
            assert not waiting.done()
        finally:
            silent.set()
        assert 1 == waiting.result(5)
