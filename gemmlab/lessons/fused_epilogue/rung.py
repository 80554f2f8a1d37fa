"""Rung 11: its entry on the ladder."""

from gemmlab.ladder.activations import ACTIVATIONS
from gemmlab.ladder.launch import PRODUCT
from gemmlab.ladder.rung import Rung
from gemmlab.ladder.settings import Parameter
from gemmlab.ladder.shapes import tile, tile_reuse
from gemmlab.lessons.register_banks.rung import CONSTRAINTS, PARAMETERS, needs_arch, plan


def activation(default: int) -> Parameter:
    meaning = ", ".join(f"{value}: {name}" for value, name in enumerate(ACTIVATIONS))
    return Parameter("ACTIVATION", default, tuple(range(len(ACTIVATIONS))), meaning, tuned=False)


RUNG = Rung(
    name="11_fused_epilogue",
    title="Fused epilogue",
    idea="bias and activation while C is in registers: no pass over C for them",
    inner_loop=(("if (bias) {", "store_accumulators("),),
    parameters=(
        *PARAMETERS,
        activation(1),
    ),
    tile=tile,
    plan=plan("fused_epilogue", (*PRODUCT, "bias")),
    constraints=CONSTRAINTS,
    model_bytes=tile_reuse,
    needs_arch=needs_arch,
    tuned_shapes=tuple(
        (side, side, depth)
        for side, depths in ((1024, (64, 1024)), (8192, (64, 256, 1024)))
        for depth in depths
    ),
    takes_bias=lambda s: True,
)
