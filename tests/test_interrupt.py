"""Ctrl-C arrives at once, whatever runs, and leaves everything usable. The signals are real."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

SOON_S = 5.0  # on a busy machine; on an idle one it is some 0.1 s at most, and without care never


def output_of(code, *arguments):
    # Without what other processes compiled, so that NVRTC is at work when a signal comes.
    compiling = {**os.environ, "PTXSIM_COMPILED": ""}
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], env=compiling, capture_output=True, text=True,
        timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


# ---- whatever runs -------------------------------------------------------------------------------

# One process for all, for starting is what costs most. It prints for each: the seconds from the
# signal to KeyboardInterrupt, whether the array is as before, and which threads are left.
PROGRAM = """
import json, os, signal, threading, time
import numpy as np
import gemmlab as gl
import ptxsim
from ptxsim.compile import nvrtc
from ptxsim import grid

grid.THREADS = 2
x = np.ones(1 << 20, np.float32)
lock = threading.Lock()
lock.acquire()
kernel = gl.load("01_naive")
LOOP = '''extern "C" __global__ void loop(float* x) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    while (x[i] >= 0) x[i] += 1;
}'''
# A basic block of thousands of instructions, between which a worker must look too.
CHAIN = '''extern "C" __global__ void chain(float* x) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    float v = x[i];
    #pragma unroll
    for (int k = 0; k < 400; ++k) v = fmaf(v, v, 0.5f);
    x[i] = v;
}'''

def launch(source, entry, threads, **how):
    nvrtc.compile_source(source, "kernel.cu")
    block = min(1024, threads)
    grid = (threads // block, 1, 1)
    return lambda: ptxsim.launch(source, entry, grid, (block, 1, 1), [x], **how)

nvrtc.compile_anew('extern "C" __global__ void empty() {}', "empty.cu")
ptxsim.launch(CHAIN, "chain", (1, 1, 1), (32, 1, 1), [x.copy()])  # what it translates is kept
for name, work in {
    "a lock": lock.acquire,
    "one chunk": launch(LOOP, "loop", 32),
    "chunks side by side": launch(LOOP, "loop", 1 << 20),
    "a long block": launch(CHAIN, "chain", 1 << 20),
    "with checks": launch(LOOP, "loop", 1 << 16, check=True),
    "verify": kernel.verify,
    "check": kernel.check,
    "trace": lambda: kernel.trace(300, 300, 300),
}.items():
    sent = []

    def send():
        sent.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)

    timer = threading.Timer(0.2, send)
    try:
        timer.start()
        while True:
            work()
    except KeyboardInterrupt:
        seconds = time.monotonic() - sent[0]
    timer.join()
    same = bool((x == 1).all())
    until = time.monotonic() + 5.0
    while threading.active_count() > 1 and time.monotonic() < until:
        time.sleep(0.01)  # Ctrl-C while a pool starts a thread: it ends a moment later
    print(json.dumps([name, seconds, same, [thread.name for thread in threading.enumerate()]]))
"""
WORK = ("a lock", "one chunk", "chunks side by side", "a long block", "with checks", "verify",
        "check", "trace")  # fmt: skip


@pytest.fixture(scope="module")
def interrupted():
    return {name: rest for name, *rest in map(json.loads, output_of(PROGRAM).splitlines())}


@pytest.mark.parametrize("name", WORK)
def test_after_nvrtc_has_compiled_ctrl_c_arrives_at_once(interrupted, name):
    seconds, same, threads = interrupted[name]
    assert seconds < SOON_S
    assert same
    assert threads == ["MainThread"]


# ---- NVRTC ---------------------------------------------------------------------------------------

# Long to read, and nothing to compile then: as many functions as take a quarter of a second here.
COMPILE = """
import os, signal, sys, threading, time
from ptxsim.compile import nvrtc

empty, number = 'extern "C" __global__ void empty() {}', int(sys.argv[1])
nvrtc.compile_anew(empty, "empty.cu")
seen = []
signal.signal(number, lambda *_: seen.append(number))

def compile_unused(count):
    unused = (f"static __device__ int f{i}(int x) {{ return x + {i}; }}" for i in range(count))
    started = time.monotonic()
    nvrtc.compile_anew("\\n".join([empty, *unused]), "unused.cu")
    return time.monotonic() - started

count = 2000
while compile_unused(count) < 0.25:
    count *= 2
threading.Timer(0.1, os.kill, (os.getpid(), number)).start()
lasted = compile_unused(count)
print(len(seen), lasted)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="signals are kept on Linux alone")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_nvrtc_reads_the_text_finds_the_handler_of_python(number):
    """NVRTC's own would end the process with exit code 4."""
    count, lasted = output_of(COMPILE, str(int(number))).split()
    assert float(lasted) > 0.1  # NVRTC was at it when the signal came
    assert count == "1"


# ---- the command line ----------------------------------------------------------------------------


@pytest.mark.skipif(not hasattr(os, "killpg"), reason="needs process groups")
@pytest.mark.parametrize("send", ["kill", "killpg"])  # to the one process, and as a terminal does
def test_a_command_ends_at_once_with_130_a_sentence_and_no_process_left(send):
    running = subprocess.Popen(
        [sys.executable, "-u", "-m", "gemmlab", "ladder"],
        env=os.environ | {"GEMMLAB_DEVICE": "simulator"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        while "simulator" not in running.stdout.readline():
            assert running.poll() is None, running.stderr.read()
        time.sleep(0.3)  # well into the work that follows
        sent = time.monotonic()
        getattr(os, send)(running.pid, signal.SIGINT)
        _, printed = running.communicate(timeout=60)  # which also waits for all that hold the pipe
        assert time.monotonic() - sent < 2 * SOON_S  # Python itself takes a while to end
        assert running.returncode == 130
        assert printed.splitlines()[-1] == "gemmlab: stopped" and "Traceback" not in printed
    finally:
        running.kill()
