"""Notes of a launch for another GPU than the H200: what is a model's, and what is not known.

Instructions with one right result, such as fma, have it everywhere. Sums of tensor cores follow a
published model (adding.py). Approximations of the special function unit, filters of textures, and
the rules of counters are an H200's on all.
"""

from __future__ import annotations

from ptxsim.architectures import SIMULATED_ARCH, base
from ptxsim.contraction import Note, lines_of
from ptxsim.ptx import Instruction, Kernel
from ptxsim.tensor_cores.adding import BITS, GENERATIONS, KINDS_OF_FLOATS


def notes_for(kernel: Kernel, arch: str, count: bool) -> list[Note]:
    if base(arch) == base(SIMULATED_ARCH):
        return []
    products: list[Instruction] = []
    eight_bits: list[Instruction] = []
    approximate: list[Instruction] = []
    for instruction in kernel.instructions:
        kinds = [part for part in instruction.parts if part in KINDS_OF_FLOATS]
        if kinds and instruction.parts[instruction.name == "wmma"] == "mma":
            (eight_bits if any(BITS[kind] == 8 for kind in kinds) else products).append(instruction)
        elif instruction.name == "tex" or {"approx", "full"} & set(instruction.parts[1:]):
            approximate.append(instruction)
    generation, notes = GENERATIONS.get(base(arch)), []

    def note(instructions: list[Instruction], why: str) -> None:
        if instructions:
            notes.append(Note(kernel.name, lines_of(instructions), why))

    unknown = f"sums are those of an H200's tensor cores; {arch}'s are not known"
    of_model = unknown
    if generation:
        of_model = f"sums are those of MMA-Sim's model of {generation.name}, not a GPU's"
    note(products, of_model)
    note(eight_bits, of_model if generation and generation.kept_of_eight else unknown)
    note(approximate, f"approximations have an H200's bits; {arch}'s are not known")
    if count:
        notes.append(Note(kernel.name, (), f"counters follow an H200's rules, not {arch}'s"))
    return notes
