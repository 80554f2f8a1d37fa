"""Make `.venv` with the pinned versions that this machine needs, or find it ready and do nothing.

Needs Python 3.10 or newer with venv, and nothing else; an older Python gets as far as saying so.
Every failure is one sentence that says what to do, and no failure leaves a `.venv` that a later
run takes for finished: the stamp in it is written last.

    python3 requirements/install.py                  any Python of a finished .venv is kept
    python3 requirements/install.py --exact-python   .venv is to be of the Python that runs this
    python3 requirements/install.py --site           also what `make site` needs
"""

import argparse
import contextlib
import ctypes
import errno
import hashlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import typing

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

OLDEST_PYTHON = (3, 10)
NEWEST_PYTHON = "3.14"  # the newest that the pinned versions have wheels for

# Half the time of the pip that comes with Python 3.10, and one wording of errors to recognise.
PIP = "pip==26.3"

# What is installed for CuPy: the lock's name, and the disk space that all of .venv then takes.
DISK_SPACE = {"none": "1.5 GB", "cuda12": "3 GB", "cuda13": "3 GB"}

STAMP = "gemmlab-setup.json"

AGAIN = "then run the same command again."


class SetupError(Exception):
    """The set-up cannot go on. The message is one sentence that says what to do."""


# ---- which CuPy ----------------------------------------------------------------------------------


class Driver(typing.NamedTuple):
    """The NVIDIA driver, as far as it matters here."""

    cuda: typing.Optional[tuple] = None  # the CUDA version it is for, such as (13, 0)
    capability: typing.Optional[tuple] = None  # the first GPU's compute capability
    error: int = 0  # what the driver's library answered where it is there and does not work


def find_driver(load=ctypes.CDLL):
    """Ask the driver's own library, which needs no CUDA toolkit. `load` opens a library by name."""
    try:
        library = load("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
    except OSError:
        return Driver()
    version, device, major, minor = (ctypes.c_int() for _ in range(4))
    for call, arguments in (
        ("cuInit", (0,)),
        ("cuDriverGetVersion", (ctypes.byref(version),)),
        ("cuDeviceGet", (ctypes.byref(device), 0)),
        ("cuDeviceGetAttribute", (ctypes.byref(major), 75, device)),  # COMPUTE_CAPABILITY_MAJOR
        ("cuDeviceGetAttribute", (ctypes.byref(minor), 76, device)),  # COMPUTE_CAPABILITY_MINOR
    ):
        error = getattr(library, call)(*arguments)
        if error:
            return Driver(error=error)
    cuda = (version.value // 1000, version.value % 1000 // 10)
    return Driver(cuda, (major.value, minor.value))


def choose_cupy(driver):
    """The lock for this driver ("none", "cuda12" or "cuda13"), and a sentence that says why."""
    if driver.error:
        return "none", (
            f"An NVIDIA driver is installed but gives no GPU (CUDA error {driver.error}), "
            "so kernels will run in the simulator."
        )
    if driver.cuda is None:
        return "none", "No NVIDIA driver here, so kernels will run in the simulator."
    found = "The NVIDIA driver is for CUDA {}.{}".format(*driver.cuda)
    if driver.cuda < (12, 0):
        return "none", f"{found}, older than 12: update it; until then the simulator runs kernels."
    if driver.cuda < (13, 0):
        return "cuda12", f"{found}: installing CuPy for CUDA 12 with its toolkit."
    if driver.capability < (7, 5):  # CUDA 13 compiles for Turing and newer
        gpu = "compute capability {}.{}".format(*driver.capability)
        return "cuda12", f"{found}, but a GPU of {gpu} needs CuPy for CUDA 12, with its toolkit."
    return "cuda13", f"{found}: installing CuPy for CUDA 13 with its toolkit."


# ---- what can go wrong ---------------------------------------------------------------------------


def require_python(version, has_module=importlib.util.find_spec):
    """Raise SetupError unless a Python of `version` (a tuple) with its modules will do."""
    this_python = "{}.{}".format(*version)
    if version[:2] < OLDEST_PYTHON:
        raise SetupError(
            f"Python 3.10 or newer is needed and this is Python {this_python}: name a newer one, "
            "for example make lab PYTHON=python3.12."
        )
    for module in ("venv", "ensurepip"):
        if not has_module(module):
            raise SetupError(
                f"Python {this_python} is here without its {module} module: install it "
                f"(Debian and Ubuntu: apt install python{this_python}-venv), {AGAIN}"
            )


def explain(output, cupy):
    """The sentence for a failed pip or venv, from what it printed."""
    if re.search(r"Errno 28\b|Errno 122\b|No space left|Disk quota|not enough space", output):
        return (
            f"The disk is full: make room, about {DISK_SPACE[cupy]} for {root_folder()} and half "
            f"of that for downloads in {tempfile.gettempdir()}, {AGAIN}"
        )
    if re.search(r"Errno (13|30)\b|Read-only file system|Permission denied", output):
        return f"{root_folder()} cannot be written: use a checkout in a folder of your own, {AGAIN}"
    if re.search("CERTIFICATE_VERIFY_FAILED", output):
        return (
            "The package index's certificate is not trusted here: name the right one in pip's "
            "settings (pip config set global.cert FILE), " + AGAIN
        )
    missing = re.search(r"No matching distribution found for (\S+)", output)
    versions_seen = re.search(r"\(from versions: (?!none)", output)
    broken = "connection broken by|Connection|Max retries|ProxyError|SSLError|[Tt]imed out"
    # An index that knows no pip at all was not reached, even where pip does not say so.
    no_answer = re.search(broken, output) or (missing and missing.group(1) == PIP)
    if no_answer and not versions_seen:
        return (
            "The package index cannot be reached: connect to the network, or name a mirror in "
            "pip's settings (pip config set global.index-url ADDRESS), " + AGAIN
        )
    if missing:
        this_machine = "Python {}.{} on {}".format(*sys.version_info[:2], sys.platform)
        return (
            f"The package index has no {missing.group(1)} for {this_machine}: use a Python from "
            f"3.10 to {NEWEST_PYTHON}, or a complete mirror, {AGAIN}"
        )
    errors = [line for line in output.splitlines() if re.match(r"\s*(ERROR|error|Error)\b", line)]
    said = " ".join((errors or output.splitlines() or ["nothing"])[-1].split())
    return "The set-up failed where it should not have; the last thing said was: " + said


# ---- the steps -----------------------------------------------------------------------------------


def root_folder():
    return os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def venv_python(venv):
    return os.path.join(venv, "Scripts/python.exe" if os.name == "nt" else "bin/python")


def run(command, show=None):
    """Run a command, hand each line it prints to `show`; return its exit status and its output."""
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONHOME")}
    for name in ("PIP_TARGET", "PIP_PREFIX", "PIP_ROOT"):
        environment.pop(name, None)
    environment.update(PIP_USER="0", PIP_DISABLE_PIP_VERSION_CHECK="1", PYTHONUNBUFFERED="1")
    process = subprocess.Popen(
        command,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        universal_newlines=True,
        errors="replace",
    )
    lines = []
    with process:
        for line in process.stdout:
            lines.append(line)
            if show:
                show(line)
    return process.returncode, "".join(lines)


def show_progress(line):
    """One line on a terminal that says which package pip is at; nothing into a file."""
    step = re.match(r"Collecting ([^\s=]+)|(Installing collected packages)", line)
    if step and sys.stdout.isatty():
        text = "fetching " + step.group(1) if step.group(1) else "unpacking"
        sys.stdout.write("\r\033[K  " + text)
        sys.stdout.flush()


def lock_files(root, cupy):
    names = ("lab.txt", f"cupy-{cupy}.txt")
    return [os.path.join(root, "requirements", name) for name in names]


def hash_files(*paths):
    digest = hashlib.sha256()
    for path in paths:
        with open(path, "rb") as file:
            digest.update(hashlib.sha256(file.read()).digest())
    return digest.hexdigest()


def installed(venv, python):
    """The distributions in a .venv of Python "3.11", as the names of their folders."""
    library = "Lib" if os.name == "nt" else "lib/python" + python
    packages = os.path.join(venv, library, "site-packages")
    try:
        return sorted(name for name in os.listdir(packages) if name.endswith(".dist-info"))
    except OSError:
        return []


def is_ours(venv):
    """Whether this script may delete the folder: it made it, or it is no environment at all."""
    if os.path.islink(venv) or not os.path.isdir(venv):
        return False
    try:
        with open(os.path.join(venv, "pyvenv.cfg"), encoding="utf-8") as file:
            return re.search(r"^prompt = '?gemmlab'?$", file.read(), re.MULTILINE) is not None
    except OSError:
        return True


def remove(venv, reason):
    """Delete an old .venv, saying why; refuse where it is somebody else's."""
    if not os.path.lexists(venv):
        return
    if not is_ours(venv):
        raise SetupError(f"{venv} was made by something else: move it away or delete it, {AGAIN}")
    print(f"Making .venv anew: {reason}.")
    shutil.rmtree(venv)


def read_stamp(venv):
    try:
        with open(os.path.join(venv, STAMP), encoding="utf-8") as file:
            return json.load(file)
    except (OSError, ValueError):
        return {}


def write_stamp(venv, stamp):
    path = os.path.join(venv, STAMP)
    with open(path + ".tmp", "w", encoding="utf-8") as file:
        json.dump(stamp, file, indent=1)
    os.replace(path + ".tmp", path)


def why_rebuild(venv, stamp, wanted, run):
    """Why .venv must be made anew, or None where it is finished and right for `wanted`."""
    if not stamp:
        return "it was not finished"
    for key, reason in (
        ("root", "the checkout was moved"),
        ("cupy", "the NVIDIA driver changed"),
        ("locks", "the pinned versions changed"),
        ("python", "another Python was asked for"),
    ):
        if stamp.get(key) != wanted[key]:
            return reason
    command = [venv_python(venv), "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
    try:
        status, output = run(command)
    except OSError:
        status, output = 1, ""
    if status or output.strip() != stamp.get("python"):
        return "its Python no longer runs"
    lost = set(stamp.get("packages", ())) - set(installed(venv, stamp["python"]))
    if lost:
        return "it lost " + ", ".join(name[: -len(".dist-info")] for name in sorted(lost)[:3])
    return None


def must_run(command, cupy, run):
    status, output = run(command, show_progress)
    if sys.stdout.isatty():
        sys.stdout.write("\r\033[K")
    if status:
        raise SetupError(explain(output, cupy))


def pip_install(venv, arguments, cupy, run):
    pip = [venv_python(venv), "-m", "pip", "install", "--no-input", "--progress-bar=off"]
    must_run([*pip, "--no-compile", "--no-deps", *arguments], cupy, run)


def projects(root):
    """The folders of the checkout that are distributions: the simulator, and gemmlab on top."""
    return [os.path.join(root, "ptxsim"), root]


def project_files(root):
    return [os.path.join(folder, "pyproject.toml") for folder in projects(root)]


def install_project(venv, root, cupy, run):
    # The build requirements are pinned in lab.txt, so no build environment is fetched.
    folders = [part for folder in projects(root) for part in ("--editable", folder)]
    pip_install(venv, ["--no-build-isolation", *folders], cupy, run)


def build(venv, root, cupy, run):
    """Make .venv from nothing and install the locks and the project into it."""
    # In an active environment, the Python it was made from: this one may be what is rebuilt.
    base_python = getattr(sys, "_base_executable", sys.executable)
    # In two steps, because venv hides what ensurepip says.
    must_run([base_python, "-m", "venv", "--without-pip", "--prompt", "gemmlab", venv], cupy, run)
    must_run([venv_python(venv), "-m", "ensurepip", "--default-pip"], cupy, run)
    pip_install(venv, [PIP], cupy, run)
    # Wheels only: every pinned version has them, and no compiler is needed.
    requirements = [part for lock in lock_files(root, cupy) for part in ("--requirement", lock)]
    pip_install(venv, ["--only-binary=:all:", *requirements], cupy, run)
    install_project(venv, root, cupy, run)


@contextlib.contextmanager
def one_at_a_time(root):
    """Wait until no other process sets up this checkout: two would delete each other's .venv.

    The lock is on a file that is there, and ends with the process.
    """
    with open(os.path.join(root, "requirements", "lab.txt"), encoding="utf-8") as file:
        if fcntl is not None:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                print("Another set-up of this checkout is under way: waiting for it.")
                sys.stdout.flush()
                fcntl.flock(file, fcntl.LOCK_EX)
            except OSError:  # a file system without locks
                pass
        yield


def set_up(root, exact_python=False, driver=None, version=None, run=run):
    """Bring .venv under `root` up to date; print a line for each thing done. Raises SetupError."""
    start = time.time()
    venv = os.path.join(root, ".venv")
    version = version or tuple(sys.version_info[:3])
    this_python = "{}.{}".format(*version)
    cupy, choice = choose_cupy(driver or find_driver())

    stamp = read_stamp(venv)
    # A toolkit serves the simulator as well: a GPU that is away for now does not cost it.
    keep = stamp.get("cupy", cupy) if cupy == "none" else cupy
    wanted = {"root": root, "cupy": keep, "locks": hash_files(*lock_files(root, keep))}
    wanted["python"] = this_python if exact_python else stamp.get("python")
    project = hash_files(*project_files(root))

    reason = why_rebuild(venv, stamp, wanted, run)
    if reason is None:
        if stamp.get("project") != project:
            print("pyproject.toml changed: installing gemmlab and ptxsim again.")
            install_project(venv, root, keep, run)
            write_stamp(venv, dict(stamp, project=project))
        return

    require_python(version)
    remove(venv, reason)
    print(choice)
    print(f"Setting up .venv with Python {this_python}: {DISK_SPACE[cupy]}, one to three minutes.")
    sys.stdout.flush()
    try:
        build(venv, root, cupy, run)
        stamp = {"root": root, "cupy": cupy, "locks": hash_files(*lock_files(root, cupy))}
        stamp.update(python=this_python, project=project, packages=installed(venv, this_python))
        write_stamp(venv, stamp)
    except BaseException:
        shutil.rmtree(venv, ignore_errors=True)
        raise
    print(f"Ready after {time.time() - start:.0f} s.")


def add_site(root, run=run):
    """Install what `make site` needs on top of a finished .venv, once. Raises SetupError."""
    venv = os.path.join(root, ".venv")
    lock = os.path.join(root, "requirements", "site.txt")
    stamp = read_stamp(venv)
    if stamp.get("site") == hash_files(lock):
        return
    print("Installing what the site is built with: 0.4 GB, about a minute.")
    sys.stdout.flush()
    pip_install(venv, ["--only-binary=:all:", "--requirement", lock], stamp["cupy"], run)
    packages = installed(venv, stamp["python"])
    write_stamp(venv, dict(stamp, site=hash_files(lock), packages=packages))


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--exact-python", action="store_true")
    parser.add_argument("--site", action="store_true")
    options = parser.parse_args(arguments)
    try:
        with one_at_a_time(root_folder()):
            set_up(root_folder(), exact_python=options.exact_python)
            if options.site:
                add_site(root_folder())
    except SetupError as error:
        print(f"gemmlab: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        said = "Errno 28" if full else f"ERROR: {error}"
        print("gemmlab: " + explain(said, "none"), file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\ngemmlab: Stopped before the set-up was done; run the command again to start over.")
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
