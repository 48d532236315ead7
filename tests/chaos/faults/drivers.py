"""Faults of those who copy: rivals, jumping clocks, drivers and lanes that freeze inside a transaction."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Sequence
from unittest import mock

import psutil
from copier import Copier
from stage import Stage, until
from wired import Wired, start_driver

from faults.network import END_TXN


def two_copiers(stage: Stage, source: Wired, target: Wired) -> None:
    """A second driver that never gives way for long: they fence each other again and again."""
    rival = Copier(stage.flow)
    rival.start()
    rival.join()
    assert stage.copier.fenced + rival.fenced > 0


def commits_lost_to_a_rival(stage: Stage, source: Wired, target: Wired) -> None:
    """Answers to commits are lost while another driver fences: whether they counted, progress says."""
    lost = target.proxy.faults.lost_answers
    before = lost[END_TXN]
    target.proxy.faults.lose_answers_of[END_TXN] = 12
    two_copiers(stage, source, target)
    assert lost[END_TXN] > before


def clock_jumps(stage: Stage, source: Wired, target: Wired) -> None:
    """The wall clock jumps by up to an hour with every look at it; waiting is done by the monotonic one."""
    real, jumps, looks = time.time, random.Random(stage.seed), Counter[str]()

    def jumping() -> float:
        looks["jumped"] += 1
        return real() + jumps.uniform(-3000, 3000)

    with mock.patch("time.time", jumping):
        until(lambda: not stage.copying)
    assert looks["jumped"] > 0


def zombies(stage: Stage, source: Wired, target: Wired) -> None:
    """A driver and its lanes frozen in a transaction, while another one copies: they find that it runs the flow."""
    code, out, err = frozen(stage, another_meanwhile=True)
    assert code == 1, out + err
    assert "FencedError" in err


def sleepers(stage: Stage, source: Wired, target: Wired) -> None:
    """The same with nobody else: their transactions time out, they find themselves fenced, and fence again."""
    code, out, err = frozen(stage, another_meanwhile=False)
    assert code == 0, out + err
    state, _, rounds = out.splitlines()[-1].split()
    assert state == "done"
    assert int(rounds) > 1


def frozen(stage: Stage, *, another_meanwhile: bool) -> tuple[int, str, str]:
    """Freeze a driver and its lanes, or the lanes alone, for longer than their transaction; return how it ended."""
    stage.traffic()
    before = stage.size()
    driver = start_driver(stage.config)
    try:
        assert driver.stdout is not None
        assert driver.stdout.readline() == "copying\n"
        until(lambda: stage.size() > before)
        time.sleep(stage.chance.uniform(0.0, 0.5))
        family = [psutil.Process(driver.pid), *psutil.Process(driver.pid).children(recursive=True)]
        victims = family if stage.chance.random() < 0.5 else family[1:]
        stop_in_a_transaction(stage, driver, victims)
        until(lambda: not stage.in_a_transaction)  # its time-out is 1.5 s
        if another_meanwhile:
            stage.traffic(300)
            stage.copy()
            stage.copier.join()
        for process in victims:
            process.send_signal(signal.SIGCONT)
        out, err = driver.communicate(timeout=90)
        return driver.returncode, out, err
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(driver.pid, signal.SIGKILL)


def stop_in_a_transaction(
    stage: Stage, driver: subprocess.Popen[str], victims: Sequence[psutil.Process]
) -> None:
    """SIGSTOP, and once more a little later where it met none between a begin and an end."""
    while True:
        assert driver.poll() is None
        for process in victims:
            process.send_signal(signal.SIGSTOP)
        time.sleep(0.1)  # an end that was under way is done by then
        if stage.in_a_transaction:
            return
        for process in victims:
            process.send_signal(signal.SIGCONT)
        time.sleep(0.05)
