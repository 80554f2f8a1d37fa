"""The exercises: they tell right from wrong, and none of them is solved as committed."""

import html
import re
from itertools import pairwise

import nbformat
import numpy as np
import pandas
import pytest

import gemmlab as gl
from gemmlab.folders import NOTEBOOKS
from gemmlab.kernel.verify import check as check_product
from gemmlab.kernel.verify import shapes
from gemmlab.ladder import OTHERS, RUNGS
from gemmlab.loading import load
from gemmlab.notebook.exercises import (
    WAITING,
    changed_lines,
    check,
    check_kernel,
    check_launch,
    find_mistake,
    folded,
    planted,
    prediction,
)

PLANTED = {rung.name: rung.planted for rung in (*RUNGS, *OTHERS) if rung.planted}


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (None, "Not answered"), (8, "Right"), (np.float32(8), "Right"), (7, "too small"),
        (9, "too large"), ("sixteen", "'sixteen' is not a number"), (True, "True is not a number"),
        (float("nan"), "nan is not a number"),
    ],
)  # fmt: skip
def test_a_number_is_judged(answer, message, capsys):
    check(answer, 8)
    assert message in capsys.readouterr().out


@pytest.mark.parametrize(
    ("yours", "message"),
    [
        ("some", "'some' is not a number, such as 16 or 2.5."),
        (1024, "sectors: 1,024, as you predicted."),
        (32, "Your 32 is 32 times too small."),
        (4096, "Your 4,096 is 4 times too large."),
        (0, "Your 0 is too small."),
    ],
)
def test_a_prediction_is_held_against_the_count(yours, message, capsys):
    prediction(yours, 1024, "sectors")
    assert message in capsys.readouterr().out


def test_without_a_prediction_a_terminal_does_not_have_the_answer(capsys):
    prediction(None, 1024, "sectors")
    assert capsys.readouterr().out == f"{WAITING}\n"


def test_a_table_with_answers_is_folded_until_every_prediction_has_a_number():
    table = pandas.DataFrame({"sectors": [1024]})
    assert folded(table, 5, 6.5) is table
    for predictions in ((None,), (5, None), ("five", 5)):
        waits = folded(table, *predictions)
        assert "1024" not in repr(waits)
        assert re.fullmatch(r"<details>.*1024.*</details>", waits._repr_html_(), re.S)


def test_a_launch_is_judged(capsys):
    def printed_for(body):
        source = f"""extern "C" __global__ void twice(const float* x, float* y, int n)
        {{ const int i = blockIdx.x * blockDim.x + threadIdx.x; {body} }}"""
        x, y = np.arange(40, dtype=np.float32), np.zeros(40, np.float32)
        check_launch(source, "twice", (2, 1, 1), (32, 1, 1), [x, y, 40], 2 * x)
        return capsys.readouterr().out

    assert printed_for("if (i < n) y[i] = 2 * x[i];").startswith("Right: all 40")
    assert printed_for("").startswith("Not yet: 39 of 40")
    assert "out-of-bounds" in printed_for("y[i] = 2 * x[i];")
    assert "does not compile" in printed_for("y[i] = 2 * z[i];")


def test_the_stub_of_host_code_is_open_and_its_solution_right(capsys):
    cells = nbformat.read(NOTEBOOKS / "host_code.ipynb", as_version=4).cells
    stub = next(cell.source for cell in cells if "your lines here" in cell.source)
    solution = re.search(r"<pre>(.*?)</pre>", cells[-1].source, re.S)[1].replace("&lt;", "<")
    source = re.search('"""(.*?)"""', stub, re.S)[1]
    for text, message in (
        (source, "Not yet"),
        (source.replace("// your lines here", solution), "Right"),
    ):
        x, out = np.arange(100, dtype=np.float32), np.zeros(100, np.float32)
        check_launch(text, "reverse", (2, 1, 1), (64, 1, 1), [x, out, 100], x[::-1])
        assert capsys.readouterr().out.startswith(message)


def test_a_mistake_that_does_no_harm_in_the_simulator_is_found_where_it_is_looked_for(capsys):
    name = "09_double_buffering"
    racy = load(name).text.replace("buffer ^= 1;", "buffer ^= 0;")
    check_kernel(racy, like=name, mistakes=True)
    printed = capsys.readouterr().out
    assert (
        "cases pass, but there is a write-after-read race" in printed and printed.count("race") == 1
    )
    check_kernel(load("02_coalescing").text, like="02_coalescing", mistakes=True)
    assert "Right: all" in capsys.readouterr().out


# ---- of the notebooks ----------------------------------------------------------------------------


def sources(name):
    return [c.source for c in nbformat.read(NOTEBOOKS / f"{name}.ipynb", as_version=4).cells]


def one_line_changed(name):
    """(old, new, and the replacements of the folded solution) of a notebook's exercise, or None.

    Where the solution has no replacements, it begins with what stood in the place of new.
    """
    pattern = re.compile(r'\.replace\(\s*"(.*?)",\s*"(.*?)",?\s*\)')
    for source, solution in pairwise(sources(name)):
        changed = pattern.search(source)
        if changed and "check_kernel(" in source:
            unescaped = html.unescape(solution)
            repairs = [match.groups() for match in pattern.finditer(unescaped)]
            first = re.search(r"Solution</summary>\s*<code>(.*?)</code>", unescaped)
            if repairs or first:
                return (*changed.groups(), repairs or [(changed[2], first[1])])
    return None


CHANGED = [rung.name for rung in RUNGS if one_line_changed(rung.name)]


@pytest.mark.parametrize("name", CHANGED)
def test_the_folded_solution_brings_the_kernel_back(name):
    old, new, repairs = one_line_changed(name)
    right = load(name).text
    broken = right.replace(old, new)
    assert broken != right
    for repair in repairs:
        broken = broken.replace(*repair)
    assert broken == right


@pytest.mark.parametrize("name", [rung.name for rung in RUNGS])
def test_a_kernel_to_repair_or_to_write_is_not_right_as_it_stands(name):
    """As the cell checks it: with its settings, for the default ones may hide what is wrong."""
    for cell in nbformat.read(NOTEBOOKS / f"{name}.ipynb", as_version=4).cells:
        if "exercises.check(" in cell.source or cell.source.startswith("edited = "):
            continue  # a right kernel: a count of it has to become another, or it is there to edit
        if cell.cell_type == "code" and "exercises.check_kernel(" in cell.source:
            printed = "".join(output.get("text", "") for output in cell.outputs)
            assert "Not yet: " in printed and "Right" not in printed, cell.source


def solved(stub: str, solution: str) -> str:
    """A cell with the solution's first <pre> in the place of its TODO lines."""
    written = html.unescape(re.search(r"Solution</summary>\s*<pre>(.*?)</pre>", solution, re.S)[1])
    lines = stub.splitlines()
    places = [at for at, line in enumerate(lines) if "TODO" in line]
    kept = [line for at, line in enumerate(lines) if at not in places]
    return "\n".join([*kept[: places[0]], written, *kept[places[0] :]])


@pytest.mark.parametrize("name", [rung.name for rung in RUNGS])
def test_the_folded_solution_of_a_kernel_to_write_is_right(name, capsys):
    """In the cell as a reader would run it. That the stub is not right, its notebook shows."""
    pairs = [(a, b) for a, b in pairwise(sources(name)) if "TODO" in a and "check_kernel(" in a]
    assert len(pairs) == 1
    exec(solved(*pairs[0]), {"gl": gl, "NAME": name})
    assert capsys.readouterr().out.startswith("Right")


def test_a_kernel_with_bank_conflicts_is_not_yet_right_where_there_shall_be_none(capsys):
    [stub] = [
        source
        for source in sources("15_mma_sync")
        if "TODO" in source and "conflicts=True" in source
    ]
    plain = "<details>Solution</summary>\n<pre>    return row * 8 + chunk;</pre></details>"
    exec(solved(stub, plain), {"gl": gl, "NAME": "15_mma_sync"})
    printed = capsys.readouterr().out
    assert printed.startswith("Not yet: all 17 cases pass, but of the wavefronts of one tile")


# ---- planted mistakes ----------------------------------------------------------------------------

# What lies between these two pieces of text, both unique, is where the mistake can show itself.
REACH = {
    "02_coalescing": ("const int row =", "alpha * sum + beta * C[index];"),
    "03_shared_memory": ("for (int tile_k", "// Where beta is 0"),
    "09_double_buffering": ("void multiply(", "#if STAGES == 1\n\n"),
    "12_split_k": ("wait_for_blocks(&arrived[tile]", "add_share(out, parts, tile, part, SPLIT);"),
    "13_batched": ("copies.copy_stage(stages_address", "copies.copy_stage(stages_address"),
    "14_wmma": ("void load_fragments(", "multiply(accumulators, fragments[k_step % 2]);"),
    "15_mma_sync": ("mainloop(Accumulators&", "cp_async_wait<0>();"),
    "17_warp_specialized": ("mbarrier_arrive_expect(", "copy_b("),
    "26_blackwell": ("tensor_allocate<", "pair_sync();                                 // no warp"),
    "22_fp32_summit": ("tma_load(b, *map_b, k_tile * BK", "if (!BY_MAP) copy_b(b"),
}
LARGEST = 200  # rows, columns or K of a product that is run here ...
LARGER = {"19_fp8": 336}  # ... of those whose mistake shows in no smaller one


@pytest.fixture(scope="module", params=PLANTED)
def name(request):
    return request.param


def verified(kernel, factors=(1.0, 0.0)):
    """Whether each of the smaller shapes of verification comes out right."""
    if kernel.rung.has_maps(kernel.settings):
        kernel = kernel.scheduled_for(1)  # so that blocks go from tile to tile, as in verify
    small = [
        shape for shape in shapes(kernel) if max(shape) <= LARGER.get(kernel.rung.name, LARGEST)
    ]
    return {shape: check_product(kernel, *shape, *factors, seed=1).passed for shape in small}


def line_of(text, piece):
    assert text.count(piece) == 1, piece
    return text[: text.index(piece)].count("\n") + 1


def test_one_line_is_changed_and_none_moved(name):
    right, mistake = load(name).text, PLANTED[name]
    assert right.count(mistake.old) == 1
    wrong = planted(name).text
    before, after = right.splitlines(), wrong.splitlines()
    assert len(before) == len(after)
    different = {n for n, pair in enumerate(zip(before, after, strict=True), 1) if len({*pair}) > 1}
    assert len(different) == 1 and changed_lines(right, wrong) == different
    (number,) = different
    comments = [line.partition("//")[2] for line in (before[number - 1], after[number - 1])]
    assert comments[0] == comments[1]


def test_the_planted_mistake_is_seen_by_what_its_entry_names(name):
    mistake, kernel = PLANTED[name], planted(name)
    findings = [finding for case in kernel.check().cases for finding in case.findings]
    assert {finding.kind for finding in findings} >= ({mistake.kind} if mistake.kind else set())
    if mistake.kind is None:
        assert not findings
    else:
        first, last = (line_of(kernel.text, piece) for piece in REACH[name])
        of_kind = [finding for finding in findings if finding.kind == mistake.kind]
        assert all(first <= finding.line <= last for finding in of_kind)
    passed = verified(kernel)
    assert all(passed.values()) == (mistake.kind or "").endswith(" race")


OTHERWISE = [name for name in PLANTED if PLANTED[name].settings]  # notebooks check the default ones


@pytest.mark.parametrize("name", OTHERWISE)
def test_without_the_mistake_the_same_settings_are_right(name):
    kernel = load(name, **PLANTED[name].settings)
    assert kernel.check().passed and all(verified(kernel).values())


def test_only_the_line_of_the_mistake_is_right(name, capsys):
    kernel, right = planted(name), load(name).text
    (expected,) = changed_lines(right, kernel.text)
    find_mistake(kernel, None)
    assert "Not answered yet" in capsys.readouterr().out
    for line in range(1, len(right.splitlines()) + 1):
        find_mistake(kernel, line)
        printed = capsys.readouterr().out
        assert printed.startswith(
            "Right: " if line == expected else f"Not yet: line {line} is as it"
        )
        assert (PLANTED[name].what in printed) == (line == expected)
        assert (PLANTED[name].seen[1:] in printed) == (line == expected)
