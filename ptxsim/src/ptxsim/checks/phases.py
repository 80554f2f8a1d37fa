"""Waits for a phase of an mbarrier that another phase of the same parity may stand in for.

A wait names the parity of its phase alone. Two things make sure that it waits for that phase: the
thread knows that the phase before is complete, else the wait may pass before its own has begun; and
the phase after completes only behind the wait, else the mbarrier may have gone on, and the wait
lasts for one phase more, or for ever. A wait by a state needs the second alone.

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


class _Phases:
    """Of the mbarriers of one name, in all teams: of this phase, and of the two last ones."""

    def __init__(self, teams: int, threads: int, warps: int):
        self.waited = np.zeros((teams, warps), np.int64)  # in this phase: when each warp last did
        self.completed = np.zeros((3, teams), np.int64)  # when; this phase never
        self.arrived = np.zeros((3, teams, threads), np.int32)  # when each thread last did
        self.has_copies = np.zeros((3, teams), bool)

    def begin(self, teams) -> None:
        """Another phase in `teams`, a bool (teams,)."""
        self.waited[teams] = 0
        for table in (self.completed, self.arrived, self.has_copies):
            table[1:, teams] = table[:-1, teams]
            table[0, teams] = 0


class Phases:
    def __init__(self, lanes, checker):
        self.lanes, self.layout, self.checker = lanes, lanes.layout, checker
        self.clocks, self.team = checker.clocks, checker.team
        self._of_name: dict[int, _Phases] = {}
        self._warps = -(-self.team.threads // WARP)
        self._columns = slice(0, 0)  # of the warps; none in a kernel without mbarriers
        if lanes.launch.kernel.has("mbarrier"):
            first = self.clocks.column("waits", self._warps)
            self._columns = slice(first, first + self._warps)

    def initialised(self, name: int, teams) -> None:
        for _ in range(3):
            self._of(name).begin(teams)

    def arrived(self, name: int, team, thread) -> None:
        self._of(name).arrived[0, team, thread] = self.clocks.now

    def waited(self, index: int, name: int, team, thread, by_parity: bool) -> None:
        """Threads (n,) have seen the last completed phase. Call it before they learn of it."""
        phases, now, column = self._of(name), self.clocks.now, self.clocks.column(name)
        early = self.clocks.known[team, thread, column] < phases.completed[2, team]
        if by_parity and early.any():
            early[early] = ~self._know_all(phases, team[early], thread[early])
        if by_parity and early.any():
            what = (
                f"{_place(name)}: the thread does not know that the phase before is complete, and "
                "passes too early where it is not"
            )
            self._find(index, what, team[early], thread[early])
        phases.waited[team, thread // WARP] = now
        self.clocks.known[team, thread, self._columns.start + thread // WARP] = now

    def completed(self, name: int, teams) -> None:
        """A phase completes in `teams`, a bool (teams,). Call it when its arrivals are gathered."""
        phases, clocks = self._of(name), self.clocks
        missed = teams[:, None] & (phases.waited > clocks.gathered(name)[:, self._columns])
        if missed.any():
            team, warp = np.argwhere(missed)[0]
            index = clocks.instruction(int(phases.waited[team, warp]))
            line = self.lanes.line(clocks.instruction(clocks.now))
            what = (
                f"{_place(name)}: the next phase completes, in line {line}, with nothing that "
                "makes it come after this wait, which then lasts for one phase more or for ever"
            )
            threads = warp * WARP + np.arange(WARP)
            self._find(index, what, np.full(WARP, team), threads)
        phases.completed[0, teams] = clocks.now
        phases.begin(teams)

    def copies(self, name: int, mask) -> None:
        """The lanes start copies whose bytes the phase waits for."""
        self._of(name).has_copies[0, self.layout.of(self.team.block_number, mask)] = True
        self.precede(name, mask)

    def precede(self, key, mask) -> None:
        """What the lanes have waited for comes before `key` opens or completes."""
        team, thread = self.checker._sorted(mask)
        known = self.clocks.known[team, thread, self._columns]
        np.maximum.at(self.clocks.gathered(key)[:, self._columns], team, known)

    def meet(self, groups) -> None:
        """The warps of `groups`, a bool (groups,), execute a wgmma together."""
        team, thread = self.checker._sorted(lanes_of(self.layout, groups))
        order = np.lexsort((thread, team)).reshape(-1, GROUP_THREADS)
        where = team[order], thread[order], self._columns
        self.clocks.known[where] = self.clocks.known[where].max(axis=1, keepdims=True)

    def _know_all(self, phases: _Phases, team, thread):
        """Whether threads (n,) know all that the phase before the last one waited for."""
        times = phases.arrived[2, team]
        who = team[:, None], thread[:, None], np.arange(self.team.threads)
        return ~(self.clocks.unknown(*who, times).any(axis=1) | phases.has_copies[2, team])

    def _of(self, name: int) -> _Phases:
        if name not in self._of_name:
            self._of_name[name] = _Phases(self.team.blocks, self.team.threads, self._warps)
        return self._of_name[name]

    def _find(self, index: int, what: str, team, thread) -> None:
        lanes = np.isin(
            self.team.block_number * self.team.threads + self.team.thread_number,
            team * self.team.threads + thread,
        )
        self.lanes.find(KIND, index, what, lanes)


def _place(name: int) -> str:
    return f"the mbarrier at byte {name & clusters.PLACE}"
