"""Every command that README.md and other pages show, run as it stands in a copy of the checkout.

They are read from blocks of code and from what stands in backticks, so a new one is covered.
`make test` leaves them out, for they need an environment of their own.
"""

import ast
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import contextmanager, nullcontext
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import gemmlab as gl
from gemmlab.notebook import overview, series

ROOT = Path(__file__).resolve().parents[2]
PAGES = ("README.md", "CONTRIBUTING.md", *(f"docs/{name}.md" for name in ("running", "recording", "matmul", "results")))  # fmt: skip # noqa: E501
TEXT = "\n".join((ROOT / page).read_text(encoding="utf-8") for page in PAGES)
GENERATED = ("README.md", "docs/results.md", "docs/matmul.md")
LIMIT_S = 3600
SHELL = re.compile(r"(?:[A-Z_]+=\S+ )*(?:make|pip|python) .+")
# What stands for a name of the reader's own.
PLACES = {"NN_name": "05_thread_tile_2d", "NAME": "epilogue"}
# Tested elsewhere: by the same run, by test_site_hosted.py, by test_cli.py for some rungs of the
# ladder, and by test_prebuilt.py for a sample of what takes many minutes to compile.
ELSEWHERE = re.compile(
    r"make test(-all)?|make lab|(\S+=\S+ )?make site|make compiled|python -m gemmlab compile|pip .*"
    r"|python -m gemmlab ladder|python -m pytest --nbval .*"
)
NEEDS_GPU = 3
TWO_NOTEBOOKS = ("01_naive.ipynb", "host_code.ipynb")  # `make test-all` executes all of them


def blocks() -> list[list[str]]:
    """The lines of each block of code."""
    lines, inside = [], False
    for line in TEXT.splitlines():
        if line.startswith("    "):
            lines += [] if inside else [[]]
            lines[-1].append(line[4:])
        inside = line.startswith("    ") or (inside and not line)
    return lines


def inline() -> list[str]:
    """What stands in backticks, outside of blocks."""
    prose = "\n".join(line for line in TEXT.splitlines() if not line.startswith("    "))
    return re.findall(r"`([^`\n]+)`", prose)


def without_comment(line: str) -> str:
    return re.sub(r"\s+#.*", "", line)


def filled(text: str) -> str:
    for place, name in PLACES.items():
        text = text.replace(place, name)
    return text


BLOCKS = blocks()
LINES = [without_comment(line) for block in BLOCKS for line in block if SHELL.fullmatch(line)]
COMMANDS = list(dict.fromkeys([*LINES, *filter(SHELL.fullmatch, inline())]))
CALLS = [code for code in dict.fromkeys(inline()) if re.match(r"(?:gl|kernel)\.\w", code)]


# ---- the copy ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    """The checkout as it is now, without what git ignores, set up by its own Makefile."""
    folder = tmp_path_factory.mktemp("readme") / "gemmlab"
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, names.split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    assert shell("make setup", folder).returncode == 0
    return folder


def environment(folder: Path, **more: str) -> dict[str, str]:
    """That of a reader without a GPU, whose `python` and `pip` are those of the copy."""
    outer = ("MAKEFLAGS", "MAKELEVEL", "MFLAGS", "PYTHONPATH", "VIRTUAL_ENV", "GEMMLAB_RECORDS")
    kept = {name: value for name, value in os.environ.items() if name not in outer}
    path = f"{folder / '.venv' / 'bin'}{os.pathsep}{kept['PATH']}"
    # Of 1.5 GB of packages Python compiles only what is imported: 0 here means --no-compile to pip.
    return kept | {"PATH": path, "GEMMLAB_DEVICE": "simulator", "PIP_NO_COMPILE": "0"} | more


def shell(command: str, folder: Path, **more: str) -> subprocess.CompletedProcess:
    """Run a line in a shell. No command may end in a traceback."""
    done = subprocess.run(
        ["bash", "-c", command], cwd=folder, env=environment(folder, **more),
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT_S,
    )  # fmt: skip
    assert "Traceback" not in done.stderr, done.stderr
    return done


# ---- commands ------------------------------------------------------------------------------------


def expected(command: str) -> int:
    """The exit code without a GPU."""
    words = command.split()
    measures = words[:3] == ["python", "-m", "gemmlab"] and words[3] in ("record", "tune")
    needs_none = {"--list", "emulated_errors"}
    return NEEDS_GPU if measures and not needs_none & {*words} else 0


def test_every_line_of_a_block_is_a_command_or_python():
    for block in BLOCKS:
        if not all(SHELL.fullmatch(line) for line in block if line):
            ast.parse("\n".join(block))
    assert len(LINES) > 15 and len(CALLS) > 3


def test_test_all_runs_what_is_not_run_here():
    done = shell("make --dry-run test-all", ROOT)
    assert done.returncode == 0
    for part in ("--part quick", "--part thorough", "-m tools.site", "tests/site"):
        assert part in done.stdout


def is_run_alone(command: str) -> bool:
    return not ELSEWHERE.fullmatch(command)


def is_another_name(command: str, folder: Path) -> bool:
    """Whether a target of the Makefile runs a command that a block of a page shows."""
    made = shell(f"make --dry-run {command.removeprefix('make ')}", folder)
    return made.stdout.splitlines()[-1].removeprefix(".venv/bin/") in LINES


@pytest.mark.parametrize("command", list(filter(is_run_alone, COMMANDS)))
def test_a_shown_command_exits_as_the_page_says(copy, command):
    if command.startswith("make ") and is_another_name(command, copy):
        return
    with two_notebooks(copy) if command == "make notebooks" else nullcontext():
        done = shell(filled(command), copy)
    assert done.returncode == expected(command), done.stderr
    if expected(command) == NEEDS_GPU:
        assert re.search(r"^gemmlab: .* needs? .*GPU", done.stderr, re.M) and not done.stdout
    if command == "make readme":
        for page in GENERATED:
            assert (copy / page).read_bytes() == (ROOT / page).read_bytes()
        for name in series.names():
            thumbnail = overview.thumbnail_path(name).relative_to(ROOT)
            drawn, kept = (Image.open(root / thumbnail).convert("RGB") for root in (copy, ROOT))
            assert drawn.tobytes() == kept.tobytes(), f"{thumbnail}: run `make readme`"
    if "> results.csv" in command:
        assert (copy / "results.csv").read_text().startswith("kernel,dtype,m,n,k,time_ms,gflops")


@contextmanager
def two_notebooks(folder: Path):
    """Leave two in their folder; both are executed anew."""
    there = folder / "notebooks"
    aside = there.rename(folder / "aside")
    there.mkdir()
    for name in TWO_NOTEBOOKS:
        notebook = json.loads((aside / name).read_text(encoding="utf-8"))
        for cell in notebook["cells"]:
            if cell["cell_type"] == "code":
                cell |= {"outputs": [], "execution_count": None}
        (there / name).write_text(json.dumps(notebook), encoding="utf-8")
    try:
        yield
        for name in TWO_NOTEBOOKS:
            cells = json.loads((there / name).read_text(encoding="utf-8"))["cells"]
            code = [cell for cell in cells if cell["cell_type"] == "code"]
            counts = [cell["execution_count"] for cell in code]
            assert counts == list(range(1, len(code) + 1))
            assert sum(bool(cell["outputs"]) for cell in code) > len(code) / 2
    finally:
        shutil.rmtree(there)
        aside.rename(there)


@pytest.fixture(scope="module")
def readers(tmp_path_factory):
    """An environment of the reader's own, empty at first."""
    folder = tmp_path_factory.mktemp("readers")
    subprocess.run([sys.executable, "-m", "venv", folder], check=True, timeout=LIMIT_S)
    return folder


@pytest.mark.parametrize("command", [command for command in COMMANDS if command.startswith("pip")])
def test_the_shown_pip_commands_install_a_working_package(copy, command, readers):
    """In an environment of the reader's own, and in the copy as the clone."""
    if not any(word.strip('"').startswith(".") for word in command.split()):  # not this project
        assert shell(command, copy).returncode == 0
        return
    path = f"{readers / 'bin'}{os.pathsep}{os.environ['PATH']}"
    done = shell(command, copy, PATH=path)
    assert done.returncode == 0, done.stderr
    done = shell("python -m gemmlab bench 01_naive 512 512 512", copy, PATH=path)
    assert done.returncode == 0 and "recorded on NVIDIA H200" in done.stdout, done.stderr


def status_of(address: str) -> int:
    """Of a page whose server may still be starting: it is tried again for a minute."""
    until = time.monotonic() + 60
    while True:
        try:
            with urllib.request.urlopen(address, timeout=60) as page:
                return page.status
        except urllib.error.URLError:
            if time.monotonic() > until:
                raise
            time.sleep(1)


def test_make_lab_opens_on_the_index(copy):
    """Until it prints its address; then Ctrl-C, as it says, ends it."""
    assert "make lab" in COMMANDS
    running = subprocess.Popen(
        ["make", "lab"], cwd=copy, env=environment(copy), stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
    )  # fmt: skip
    try:
        address = None
        while address is None:
            line = running.stdout.readline()
            assert line, "it ended before it printed an address"
            address = re.search(r"https?://(?:localhost|127\.0\.0\.1):\S+", line)
        path, _, token = address[0].partition("?")
        assert path.endswith("/lab/tree/notebooks/index.ipynb")
        assert status_of(f"{path}?{token}") == 200
    finally:
        for _ in range(2):
            os.killpg(running.pid, signal.SIGINT)
            time.sleep(1)
        try:
            running.wait(30)
        finally:
            if running.poll() is None:
                os.killpg(running.pid, signal.SIGKILL)


# ---- Python --------------------------------------------------------------------------------------


def names(line: str) -> dict[str, object]:
    """What a line of a page takes as given: matrices, a kernel, and what the pages import."""
    M, N, K = 1024, 1024, 512
    square = [gl.random_matrix(64, 64, seed) for seed in range(3)]
    if "bfloat16" in line:
        square = [(matrix.view(np.uint32) >> 16).astype(np.uint16) for matrix in square]
    A, B, C = square
    X, rows = gl.random_matrix(256, 256, 3), np.array([0, 20, 64], np.int32)
    W8, w = gl.quantize(X, "blocks", "B")
    a = b = np.float32(0.5)
    if "W8" in line:
        A, a = gl.quantize(X, "blocks", "A")
    elif "float8" in line:
        A, B = (gl.quantize(matrix)[0] for matrix in (A, B))
    elif "grouped_matmul" in line:  # two products, of 20 and 44 rows, or of 5 and 0
        A, B = A.astype(np.float16), np.stack([B, B]).astype(np.float16)
        if "masked" in line:
            A, rows = A.reshape(2, 32, 64), np.array([5, 0], np.int32)
    bias, kernel = np.ones(64, np.float32), gl.load("03_shared_memory")
    given = {"A": A, "B": B, "C": C, "X": X, "W": X, "W8": W8, "w": w, "a": a, "b": b, "rows": rows}
    given["flag"] = np.zeros(1, np.int32)
    if "A8" in line:
        given |= {"A8": A[:64], "a": a[:64], "W8": np.stack([W8, W8]), "w": np.stack([w, w])}
    known = given | {"gl": gl, "np": np, "bias": bias, "kernel": kernel, "M": M, "N": N, "K": K}
    known["text"] = kernel.text
    for statement in PYTHON:
        if statement.startswith("from "):
            exec(statement, known)
    return known


PYTHON = [
    ast.unparse(statement)
    for block in BLOCKS
    if not any(SHELL.fullmatch(line) for line in block)
    for statement in ast.parse("\n".join(block)).body
]


@pytest.mark.parametrize("line", list(dict.fromkeys(PYTHON)))
def test_shown_python_statements_run(line):
    exec(line, names(line))


@pytest.mark.parametrize("call", CALLS)
def test_shown_calls_exist(call):
    whole = call.replace("shape=…", "shape=(M, N, K)").replace("(…", "(kernel")
    eval(whole, names(call))  # raises where there is no such thing
