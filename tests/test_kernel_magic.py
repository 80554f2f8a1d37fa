"""%%kernel: an edited kernel is judged in place, and whatever is wrong with it is a sentence."""

import re

import pytest
from IPython.core.interactiveshell import InteractiveShell

import gemmlab as gl
from gemmlab.analysis import judgement
from gemmlab.analysis.judgement import PRODUCTS, TENSOR_PRODUCTS, TRAFFIC, Judgement, judge
from gemmlab.kernel.verify import Report
from gemmlab.kernel.verify import check as check_product
from gemmlab.notebook.kernel_magic import BadLine, parse
from ptxsim.metrics import MATRIX_METRICS, METRICS

NAME = "03_shared_memory"
COUNTED = TRAFFIC | PRODUCTS
SMALL = {"TILE": 16, "BK": 16}
LARGEST = 200  # rows, columns or K of a product that is run here


@pytest.fixture(autouse=True)
def small_products(monkeypatch):
    """Verification without its one large product: seconds for each kernel, and no other answer."""
    from gemmlab.kernel import kernel, verify

    def shapes(kernel):
        return [shape for shape in every(kernel) if max(shape) <= LARGEST]

    every = verify.shapes
    monkeypatch.setattr(verify, "shapes", shapes)
    monkeypatch.setattr(kernel, "verify", verify.verify)


@pytest.fixture(scope="module")
def shell():
    shell = InteractiveShell.instance()
    shell.run_line_magic("load_ext", "gemmlab")
    yield shell
    InteractiveShell.clear_instance()


@pytest.fixture
def right():
    return gl.load(NAME).text


def change(text, old, new):
    assert text.count(old) == 1, old
    return text.replace(old, new)


# ---- the judgement -------------------------------------------------------------------------------


def test_the_rung_itself_passes_and_nothing_differs(right):
    judged = judge(right, NAME, **SMALL)
    assert judged.passed and judged.verified.passed and judged.checked.passed
    assert judged.changed == [] and judged.resources[0] == judged.resources[1]
    assert "all 12 are equal" in repr(judged) and "as before" in repr(judged)


def test_counters_before_and_after_are_those_of_two_traces(right):
    judged = judge(change(right, "a[TILE][BK + PAD]", "a[TILE][BK + 1]"), NAME, **SMALL)
    assert judged.passed
    traces = [kernel.trace(*judged.shape) for kernel in (gl.load(NAME, **SMALL), judged.kernel)]
    before, after = (trace.counters for trace in traces)
    differ = {name for name in before if before[name] != after[name]}
    assert differ  # rows of a that do not begin at 16 bytes cost loads of 16 bytes
    assert judged.changed == [
        (words, before[name], after[name]) for name, words in COUNTED.items() if name in differ
    ]
    assert f"differ; {len(COUNTED) - len(differ)} are equal" in repr(judged)
    ratios = re.findall(r"^shared loads, .*?([\d,]+) +([\d,]+) +×(\S+)$", repr(judged), re.M)
    assert ratios
    for old, new, ratio in ratios:
        quotient = int(new.replace(",", "")) / int(old.replace(",", ""))
        assert float(ratio) == pytest.approx(quotient, rel=0.01)


def test_every_counter_has_words_of_its_own():
    metrics = {name for names in (METRICS | MATRIX_METRICS).values() for name in names if name}
    for products in (PRODUCTS, TENSOR_PRODUCTS):
        counted = TRAFFIC | products
        assert metrics < set(counted) and len(set(counted.values())) == len(counted)


def test_a_lost_barrier_gives_right_results_and_a_race_in_its_lines():
    kernel = gl.exercises.planted(NAME)
    judged = judge(kernel.text, NAME, **SMALL)
    assert judged.verified.passed and not judged.passed
    kinds = {finding.kind for _, finding in judged.findings}
    assert kinds == {"write-after-read race"}
    assert len({finding.line for _, finding in judged.findings}) == len(judged.findings)
    lines = kernel.text.splitlines()
    for _, finding in judged.findings:
        assert f"> {finding.line:4d} | {lines[finding.line - 1]}" in repr(judged)
    assert judged.counters  # it is counted all the same


def test_wrong_results_stop_the_counting_but_not_the_checks():
    name = "09_double_buffering"
    kernel = gl.exercises.planted(name)
    judged = judge(kernel.text, name, **kernel.settings)
    assert not judged.passed and not judged.verified.passed
    assert not judged.counters and judged.resources
    assert "read of a copy in flight" in repr(judged) and "not counted" in repr(judged)


def test_the_first_failing_case_is_named_with_its_place(right):
    text = change(right, "a_source += BK;", "a_source += BK + 1;")
    judged = judge(text, NAME, **SMALL)
    failed = [case for case in judged.verified.cases if not case.passed]
    first = failed[0]
    again = check_product(
        judged.kernel, first.m, first.n, first.k, first.alpha, first.beta, seed=first.seed
    )
    verdict = f"{len(failed)} of {len(judged.verified.cases)} cases. The first is M={first.m} "
    assert verdict in repr(judged) and again.message in repr(judged)


def test_a_compile_error_stops_and_shows_the_lines_around_it(right):
    judged = judge(change(right, "float sum = 0.0f;", "flot sum = 0.0f;"), NAME)
    assert judged.kernel is None and judged.verified is None and judged.checked is None
    number = right[: right.index("float sum")].count("\n") + 1
    lines = right.splitlines()
    assert f"  > {number:4d} |     flot sum = 0.0f;" in repr(judged)
    assert f"    {number - 1:4d} | {lines[number - 2]}" in repr(judged)
    assert 'identifier "flot" is undefined' in repr(judged)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("shared_memory(const", "mine(const", "no kernel 'shared_memory'; it has mine"),
        ("int K, float alpha, float beta)", "int K)\n#define alpha 1.f\n#define beta 0.f\n",
         "takes 6 arguments, not 8"),
        ("float sum = 0.0f;", 'float sum = 0.0f; malloc(K);', "simulator does not know"),
        ("float sum = 0.0f;",
         'float sum = 0.0f; asm volatile("pmevent 1;");',
         "simulator does not know"),
        ("        __syncthreads();                         // both",
         "        if (y) __syncthreads();                  // both", "divergent barrier"),
        ("row >= M || col >= N", "false", "out-of-bounds write"),
    ],
)  # fmt: skip
def test_every_mistake_is_reported_as_a_sentence(right, old, new, message):
    judged = judge(change(right, old, new), NAME, **SMALL)
    assert not judged.passed and message in repr(judged)
    assert "Traceback" not in repr(judged)


def test_a_kernel_that_never_ends_is_given_up_in_time(right, monkeypatch):
    monkeypatch.setattr("gemmlab.kernel.in_simulator.SMALL_S", 0.5)
    judged = judge(change(right, "tile_k < K; tile_k += BK", "tile_k < K; "), NAME, **SMALL)
    assert "given up after 0.5 seconds" in judged.stopped and "M=7 N=5 K=3" in judged.stopped
    assert judged.kernel is not None and judged.verified is None


def test_a_kernel_that_waits_for_ever_is_a_finding():
    wait = """
        __shared__ __align__(8) unsigned long long ready;
        const unsigned at = (unsigned)__cvta_generic_to_shared(&ready);
        if (threadIdx.x == 0 && threadIdx.y == 0)
            asm volatile("mbarrier.init.shared::cta.b64 [%0], 2048;" :: "r"(at) : "memory");
        __syncthreads();
        asm volatile("{ .reg .pred p; again: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], 0;"
                     " @!p bra again; }" :: "r"(at) : "memory");
    """
    text = change(gl.load(NAME).text, "    float sum = 0.0f;", f"    float sum = 0.0f; {wait}")
    judged = judge(text, NAME, **SMALL)
    assert not judged.passed and "deadlock" in repr(judged)


def test_mistakes_that_the_checks_find_keep_a_kernel_off_the_gpu(right, monkeypatch):
    """Launched there, an access out of bounds would take the whole notebook with it."""
    launched = []

    def verify(kernel, seed=None):
        launched.append(kernel.on_gpu)
        return Report(kernel.name, [])

    monkeypatch.setattr(judgement, "assembled", _as_if_on_a_gpu)
    monkeypatch.setattr("gemmlab.kernel.kernel.verify", verify)
    assert judge(right, NAME, **SMALL).kernel.on_gpu
    judge(change(right, "row >= M || col >= N", "false"), NAME, **SMALL)
    assert launched == [True, False]


def _as_if_on_a_gpu(*args, **settings):
    kernel = gl.from_source(*args, **settings)
    kernel.on_gpu = True
    return kernel


@pytest.mark.parametrize(
    ("like", "settings", "message"),
    [
        (NAME, {"TILE": 64}, "TILE=64 is not legal"),
        (NAME, {"TILE": 32, "BK": 8}, "leaves threads without work"),
        (NAME, {"arch": 80}, "has no parameter arch; it has TILE, BK, PAD"),
        (NAME, {"like": 3, "source": 4}, "has no parameter like"),
        ("03_shared", {}, "no rung '03_shared'"),
    ],
)
def test_an_illegal_request_is_answered_with_its_reason(right, like, settings, message):
    judged = judge(right, like, **settings)
    assert judged.kernel is None and message in repr(judged) and not judged.passed


def test_html_says_what_the_text_says(right):
    kernel = gl.exercises.planted(NAME)
    text = change(kernel.text, "a[TILE][BK + PAD]", "a[TILE][BK + 1]")
    for judged in (judge(text, NAME, **SMALL), judge(text + "}", NAME), judge(text, "x")):
        page = judged._repr_html_()
        plain = re.sub(r"<[^>]*>", "\n", page)
        for sign, letter in (("&lt;", "<"), ("&gt;", ">"), ("&#x27;", "'"), ("&quot;", '"')):
            plain = plain.replace(sign, letter)
        as_text = repr(judged).replace("&amp;", "&")
        pieces = [piece.strip() for piece in plain.replace("&amp;", "&").splitlines()]
        assert all(piece in as_text for piece in pieces)
        assert "background: #FCFCFA; color: #222222" in page


# ---- the line after %%kernel ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "parsed"),
    [
        (NAME, (NAME, {}, None)),
        (f"{NAME} TILE=16 PAD=1", (NAME, {"TILE": 16, "PAD": 1}, None)),
        (f"TILE=16 --name mine {NAME}", (NAME, {"TILE": 16}, "mine")),
        (f"{NAME} --name=mine", (NAME, {}, "mine")),
        (f"{NAME} TILE=-1", (NAME, {"TILE": -1}, None)),
    ],
)
def test_a_line_is_read(line, parsed):
    assert parse(line) == parsed


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("", "0 rungs are named"),
        ("TILE=16", "0 rungs are named"),
        (f"{NAME} 02_coalescing", "2 rungs are named"),
        (f"{NAME} TILE=x", "invalid literal for int() with base 10: 'x'"),
        (f"{NAME} TILE=", "invalid literal for int() with base 10: ''"),
        (f"{NAME} --nam mine", "unrecognized arguments: --nam"),
        (f"{NAME} --name", "argument --name: expected one argument"),
        (f"{NAME} --name 3x", "'3x' is no name"),
        (f"{NAME} --name for", "'for' is no name"),
        (f"{NAME} 'TILE=3", "No closing quotation"),
    ],
)
def test_a_line_that_cannot_be_read_says_what_to_write(line, message, shell, right):
    with pytest.raises(BadLine, match=re.escape(message)):
        parse(line)
    judged = shell.run_cell_magic("kernel", line, right)
    assert isinstance(judged, Judgement) and message in repr(judged)


# ---- in a shell ----------------------------------------------------------------------------------


def test_what_a_cell_prints_is_cut_after_a_few_lines_of_all_products_together(shell, right, capsys):
    print_call = 'if (threadIdx.x + threadIdx.y == 0) printf("block %d\\n", blockIdx.x);'
    printing = change(right, "float sum", f"{print_call} float sum")
    shell.run_cell_magic("kernel", f"{NAME} TILE=16 BK=16", printing)
    *lines, last = capsys.readouterr().out.splitlines()
    assert len(lines) == 20 and set(lines) <= {f"block {i}" for i in range(16)}
    more = re.fullmatch(r"… and ([\d,]+) more lines of what the kernel prints", last)
    assert int(more[1].replace(",", "")) > 100


def test_the_kernel_becomes_a_variable_if_asked_and_never_an_old_one(shell, right):
    shell.user_ns.pop("mine", None)
    broken = change(right, "float sum", "flot sum")
    shell.run_cell_magic("kernel", f"{NAME} TILE=16 BK=16", right)
    assert "mine" not in shell.user_ns
    judged = shell.run_cell_magic("kernel", f"{NAME} TILE=16 BK=16 --name mine", right)
    assert shell.user_ns["mine"] is judged.kernel
    shell.run_cell_magic("kernel", f"{NAME} --name mine", broken)
    assert "mine" not in shell.user_ns


@pytest.mark.parametrize("held", [gl, 3, "text"])
def test_a_name_that_holds_something_else_keeps_it(held, shell, right):
    shell.user_ns["mine"] = held
    for text in (right, change(right, "float sum", "flot sum")):
        judged = shell.run_cell_magic("kernel", f"{NAME} TILE=16 BK=16 --name mine", text)
        assert shell.user_ns["mine"] is held and judged.kernel is None
        assert f"mine holds something else, of type {type(held).__name__}" in repr(judged)


def test_a_whole_cell_shows_its_result(shell, right, capsys):
    done = shell.run_cell(f"%%kernel {NAME} TILE=16 BK=16\n{right}")
    done.raise_error()
    assert isinstance(done.result, Judgement) and "Results: pass" in capsys.readouterr().out
