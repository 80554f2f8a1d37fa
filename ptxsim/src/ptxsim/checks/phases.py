"""Waits for a phase of an mbarrier that another phase of the same parity may stand in for.

A wait names the parity of its phase alone. Two things make sure that it waits for that phase: the
thread knows that the phase before is complete, else the wait may pass before its phase has begun;
and the phase after completes only behind the wait, else the mbarrier may have gone on, and the wait
lasts for one phase more, or for ever.

What comes before what, the clocks know: each warp has a column in them, for the mbarriers that it
has waited for. More than what threads tell one another comes before a phase completes: a thread
waits, and then starts a copy that the phase counts, or arrives with .relaxed. And the warps of a
warpgroup know of one another's waits by a wgmma.
"""

from __future__ import annotations

import numpy as np

from ptxsim.architectures import WARP
from ptxsim.hopper import GROUP_THREADS, lanes_of
from ptxsim.threads import clusters

KIND = "mbarrier phase may be missed"


class _Waits:
    """At the mbarriers of one name in all teams."""

    def __init__(self, teams: int, warps: int):
        self.completed = np.zeros((2, teams), np.int64)  # when the last phases were, the last first
        self.waited = np.zeros((teams, warps), np.int64)  # since then: when each warp last waited


class Phases:
    def __init__(self, lanes, checker):
        self.lanes, self.layout, self.checker = lanes, lanes.layout, checker
        self.clocks, self.team = checker.clocks, checker.team
        self._waits: dict[int, _Waits] = {}
        self._warps = -(-self.team.threads // WARP)
        self._first = None  # of the columns
        if lanes.launch.kernel.has("mbarrier.try_wait", "mbarrier.test_wait"):
            self._first = self.clocks.column("waits", self._warps)

    def initialised(self, name: int, teams) -> None:
        if name in self._waits:
            self._waits[name].completed[:, teams] = 0
            self._waits[name].waited[teams] = 0

    def waited(self, index: int, name: int, team, thread) -> None:
        """Threads (n,) have seen the last completed phase. Call it before they learn of it."""
        waits, now, column = self._of(name), self.clocks.now, self.clocks.column(name)
        early = self.clocks.known[team, thread, column] < waits.completed[1, team]
        if early.any():
            what = (
                f"{_place(name)}: the thread does not know that the phase before is complete, and "
                "passes too early where it is not"
            )
            self._find(index, what, team[early], thread[early])
        waits.waited[team, thread // WARP] = now
        self.clocks.known[team, thread, self._first + thread // WARP] = now

    def completed(self, name: int, teams) -> None:
        """A phase completes in `teams`, a bool (teams,). Call it when its arrivals are gathered."""
        if self._first is None:
            return
        waits, clocks = self._of(name), self.clocks
        missed = teams[:, None] & (waits.waited > clocks.gathered(name)[:, self._columns])
        if missed.any():
            team, warp = np.argwhere(missed)[0]
            index = clocks.instruction(int(waits.waited[team, warp]))
            line = self.lanes.line(clocks.instruction(clocks.now))
            what = (
                f"{_place(name)}: the next phase completes, in line {line}, with nothing that "
                "makes it come after this wait, which then lasts for one phase more or for ever"
            )
            threads = warp * WARP + np.arange(WARP)
            self._find(index, what, np.full(WARP, team), threads)
        waits.waited[teams] = 0
        waits.completed[1, teams] = waits.completed[0, teams]
        waits.completed[0, teams] = clocks.now

    def precede(self, key, mask) -> None:
        """What the lanes have waited for comes before `key` opens or completes."""
        if self._first is not None:
            team, thread = self.checker._sorted(mask)
            known = self.clocks.known[team, thread, self._columns]
            np.maximum.at(self.clocks.gathered(key)[:, self._columns], team, known)

    def meet(self, groups) -> None:
        """The warps of `groups`, a bool (groups,), execute a wgmma together."""
        if self._first is not None:
            team, thread = self.checker._sorted(lanes_of(self.layout, groups))
            order = np.lexsort((thread, team)).reshape(-1, GROUP_THREADS)
            where = team[order], thread[order], self._columns
            self.clocks.known[where] = self.clocks.known[where].max(axis=1, keepdims=True)

    @property
    def _columns(self) -> slice:
        return slice(self._first, self._first + self._warps)

    def _of(self, name: int) -> _Waits:
        if name not in self._waits:
            self._waits[name] = _Waits(self.team.blocks, self._warps)
        return self._waits[name]

    def _find(self, index: int, what: str, team, thread) -> None:
        lanes = np.isin(
            self.team.block_number * self.team.threads + self.team.thread_number,
            team * self.team.threads + thread,
        )
        self.lanes.find(KIND, index, what, lanes)


def _place(name: int) -> str:
    return f"the mbarrier at byte {name & clusters.PLACE}"
