"""Who does what, and who waits for whom: the warpgroups of a block around their ring of stages.

For kernels whose tiles come by tensor maps, and that multiply by wgmma. A warpgroup is followed by
its first warp, in the order in which the simulator executed the block: one of many, and no times.
"""

from dataclasses import dataclass

from gemmlab.kernel.trace import Trace
from ptxsim import Step
from ptxsim.architectures import WARP

BLOCK = (0, 0, 0)
WARPS = 4  # of a warpgroup
COPY = "A", "load"  # the array and the operation of a box
STEP = 64  # of K
PRODUCT = "wgmma.mma"  # how its opcode begins
# What a role does. It waits until a stage is empty and starts the copies of a step, which will tell
# the stage's full mbarrier; it waits until the stage is full, starts the products, and arrives at
# empty when those of the step before are done; it brings C on its way.
AWAITS_EMPTY, COPIES, AWAITS_FULL, STARTS, ARRIVES, STORES_C = (
    "waits until empty", "starts copies", "waits until full", "starts products",
    "arrives at empty", "sends C",
)  # fmt: skip
OF_C = -1  # the step and the stage of what belongs to none


@dataclass(frozen=True)
class Turn:
    """What a role does of one step, from `begin` to `until`, each an `at` of simulator.run.Step."""

    kind: str
    step: int
    stage: int
    begin: int
    until: int


@dataclass(frozen=True)
class Turns:
    """What each role of one block does, in its order: "producer", "warpgroup 0" and so on."""

    trace: Trace
    block: tuple[int, int, int]
    roles: dict[str, tuple[Turn, ...]]

    @property
    def stages(self) -> int:
        return 1 + max(turn.stage for turns in self.roles.values() for turn in turns)

    @property
    def steps(self) -> int:
        return 1 + max(turn.step for turns in self.roles.values() for turn in turns)

    def of(self, kind: str, step: int) -> list[Turn]:
        """The turns of this kind and step, of all roles."""
        every = (turn for turns in self.roles.values() for turn in turns)
        return [turn for turn in every if (turn.kind, turn.step) == (kind, step)]


def of(trace: Trace) -> Turns:
    """The turns of the first block's warpgroups, from what they executed.

    A stage is known by where its copies of A go in shared memory.
    """
    copied = [box.place for box in trace.run.boxes(BLOCK) if (box.array, box.operation) == COPY]
    places = sorted(set(copied))
    stages = [places.index(place) for place in copied]  # of each step
    roles = {}
    for group in range(trace.block[0] // (WARPS * WARP)):
        executed = trace.run.instructions(BLOCK, WARPS * group)
        multiplies = any(step.opcode.startswith(PRODUCT) for step in executed)
        roles[f"warpgroup {group}" if multiplies else "producer"] = _turns(executed, stages)
    return Turns(trace, BLOCK, roles)


def _turns(executed: list[Step], stages: list[int]) -> tuple[Turn, ...]:
    turns: list[Turn] = []
    begun: int | None = None  # when a wait began of which it is not known yet what for

    def count(kind: str) -> int:
        return sum(turn.kind == kind for turn in turns)

    def put(kind: str, step: int, begin: int, until: int) -> None:
        turns.append(Turn(kind, step, OF_C if step == OF_C else stages[step], begin, until))

    for step in executed:
        opcode, at = step.opcode, step.at
        if opcode.startswith("stmatrix") or any(access.array == "C" for access in step.accesses):
            put(STORES_C, OF_C, at, executed[-1].at)
            break
        if opcode.startswith("mbarrier.try_wait"):
            begun, until = at if begun is None else begun, at
        elif opcode.startswith("mbarrier.arrive.expect_tx"):
            if begun is not None:
                put(AWAITS_EMPTY, count(COPIES), begun, until)
                begun = None
            put(COPIES, count(COPIES), at, at)
        elif opcode.startswith("wgmma.fence"):
            if begun is not None:
                put(AWAITS_FULL, count(STARTS), begun, until)
                begun = None
        elif opcode.startswith("wgmma.commit_group"):
            put(STARTS, count(STARTS), at, at)
        elif opcode.startswith("mbarrier.arrive"):
            put(ARRIVES, count(ARRIVES), at, at)
    return tuple(turns)
