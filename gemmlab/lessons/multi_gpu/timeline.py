"""A schedule timed on paper: counted work over given rates. A model, no measurement.

A product takes the longer of its FLOP over a GPU's rate and its bytes over the rate of its memory;
a sum its bytes over the latter. A collective takes the longest of what any member sends or keeps
over the link of a GPU, or over its part of the network where the other rank is on another host. An
all-gather brings to a host once what all its GPUs need, spread over their parts of the network.
Streams of a GPU do not slow each other down, and all members of a collective begin together. What
the model leaves out: parts of a product are slower than the whole where they have fewer tiles than
fill the GPU; what NCCL needs of SMs and memory; hosts that are late.
"""

from collections import defaultdict
from dataclasses import dataclass

from gemmlab.ladder import Precision
from gemmlab.lessons.multi_gpu.order import in_order
from gemmlab.lessons.multi_gpu.schedules import (
    ALL_GATHER,
    Collective,
    Product,
    Schedule,
    Sum,
    Work,
)

PRODUCT, SUM, COLLECTIVE = "product", "sum", "collective"  # kinds of work
MS = 1e3  # in a second


@dataclass(frozen=True)
class Ran:
    """A step of a rank. Milliseconds from the begin of the first step of any rank."""

    rank: int
    stream: str
    name: str
    kind: str
    start_ms: float
    end_ms: float

    @property
    def ms(self) -> float:
        return self.end_ms - self.start_ms


@dataclass(frozen=True)
class Timeline:
    """`source`: where the times come from, in words that stand below its figure."""

    schedule: Schedule
    steps: tuple[Ran, ...]
    source: str

    @property
    def ms(self) -> float:
        """From the first begin to the last end."""
        return max(step.end_ms for step in self.steps) - min(step.start_ms for step in self.steps)

    def of(self, rank: int, kind: str | None = None) -> list[Ran]:
        """The steps of a rank, of this kind, or all."""
        return [step for step in self.steps if step.rank == rank and kind in (None, step.kind)]

    def idle_ms(self, rank: int) -> float:
        """How long the rank multiplies nothing, from the first begin to the last end."""
        return self.ms - sum(step.ms for step in self.of(rank, PRODUCT))


def kind_of(work: Work) -> str:
    return {Collective: COLLECTIVE, Product: PRODUCT, Sum: SUM}[type(work)]


@dataclass(frozen=True)
class Machine:
    """Rates of one GPU, in a second: FLOP of products, bytes of its memory, bytes one way over its
    link to GPUs of its host, and over its part of the network to those of others.
    """

    flop_per_second: float
    memory_bytes_per_second: float
    link_bytes_per_second: float
    network_bytes_per_second: float
    gpus_per_host: int = 8

    def host(self, rank: int) -> int:
        """The host that a rank is on: the first gpus_per_host ranks are on the first."""
        return rank // self.gpus_per_host

    def wire(self, rank: int, other: int) -> float:
        """Bytes a second from a rank to another."""
        same = self.host(rank) == self.host(other)
        return self.link_bytes_per_second if same else self.network_bytes_per_second


def modelled(schedule: Schedule, machine: Machine, precision: Precision) -> Timeline:
    """When each step would run. Raises ScheduleError where some would wait for ever."""
    ended: dict[tuple[int, str], float] = {}
    free: dict[tuple[int, str], float] = {}
    ran = []
    for unit in in_order(schedule):
        start = max(
            max([free.get((rank, step.stream), 0.0)]
                + [ended[rank, event] for event in step.after])
            for rank, step in unit
        )  # fmt: skip
        rank, first = unit[0]
        end = start + MS * seconds(schedule, rank, first.work, machine, precision)
        for rank, step in unit:
            ended[rank, step.name] = free[rank, step.stream] = end
            ran.append(Ran(rank, step.stream, step.name, kind_of(step.work), start, end))
    rates = (
        f"{machine.flop_per_second / 1e12:.0f} TFLOP/s a GPU, "
        f"{machine.link_bytes_per_second / 1e9:.0f} GB/s a link one way"
    )
    if schedule.ranks > machine.gpus_per_host:
        rates += f", {machine.network_bytes_per_second / 1e9:.0f} GB/s a GPU between hosts"
    return Timeline(schedule, tuple(ran), f"A model, not measured: {rates}")


def seconds(
    schedule: Schedule, rank: int, work: Work, machine: Machine, precision: Precision
) -> float:
    """How long a piece of work of a rank takes by the model."""
    if isinstance(work, Collective):
        return _moving_s(schedule, work, machine, precision)
    touched = (*work.reads(rank), *work.writes(rank))
    moved = sum(schedule.bytes_of(rank, part, precision) for part in touched)
    flop = schedule.flop(rank, work) if isinstance(work, Product) else 0
    return max(flop / machine.flop_per_second, moved / machine.memory_bytes_per_second)


def _moving_s(
    schedule: Schedule, work: Collective, machine: Machine, precision: Precision
) -> float:
    """The longest of what each wire has to carry."""
    busy: defaultdict[tuple, float] = defaultdict(float)
    crossed = set()
    for message in work.messages:
        if message.source == message.target:
            continue
        size = schedule.bytes_of(message.source, message.sent, precision)
        wire, host = machine.wire(message.source, message.target), machine.host(message.target)
        if work.kind == ALL_GATHER:
            busy[message.target, "in"] += size / machine.link_bytes_per_second
            if machine.host(message.source) != host and (message.source, host) not in crossed:
                crossed.add((message.source, host))  # once for all GPUs of the host, which share it
                beside = sum(machine.host(rank) == host for rank in work.members)
                busy["network", host] += size / wire / beside
        else:
            busy[message.source, "out", wire] += size / wire
            busy[message.target, "in", wire] += size / wire
    return max(busy.values(), default=0.0)
