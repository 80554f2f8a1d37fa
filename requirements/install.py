"""Make `.venv` with the pinned versions that this machine needs, or find it ready and do nothing.

Needs Python 3.10 or newer with venv, and nothing else; an older Python gets as far as saying so.
No failure leaves a `.venv` that a later run takes for finished: the stamp in it is written last.

    python3 requirements/install.py                  any Python of a finished .venv is kept
    python3 requirements/install.py --exact-python   .venv is to be of the Python that runs this
    python3 requirements/install.py --site           also what `make site` needs
"""

import argparse
import ctypes
import hashlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import time
import typing

OLDEST_PYTHON = (3, 10)
NEWEST_PYTHON = "3.14"  # the newest that the pinned versions have wheels for
PIP = "pip==26.3"  # takes half the time of the pip that comes with Python 3.10
DISK_SPACE = {"none": "1.5 GB", "cuda12": "3 GB", "cuda13": "3 GB"}  # of .venv with this CuPy
STAMP = "gemmlab-setup.json"


class SetupError(Exception):
    """The set-up cannot go on. The message says what to do."""


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


# ---- the steps -----------------------------------------------------------------------------------


def require_python(version, has_module=importlib.util.find_spec):
    """Raise SetupError unless a Python of `version` (a tuple) with its modules will do."""
    this_python = "{}.{}".format(*version)
    if version[:2] < OLDEST_PYTHON:
        raise SetupError(
            f"Python 3.10 or newer is needed and this is Python {this_python}: name a newer one, "
            "for example make lab PYTHON=python3.12."
        )
    if not (has_module("venv") and has_module("ensurepip")):
        raise SetupError(
            f"Python {this_python} is here without its venv module: install it (Debian and "
            f"Ubuntu: apt install python{this_python}-venv), then run the same command again."
        )


def venv_python(venv):
    return os.path.join(venv, "Scripts/python.exe" if os.name == "nt" else "bin/python")


def run(command):
    """Run a command; its exit status and all that it printed."""
    kept_out = ("PYTHONPATH", "PYTHONHOME", "PIP_TARGET", "PIP_PREFIX", "PIP_ROOT")
    environment = {name: value for name, value in os.environ.items() if name not in kept_out}
    environment.update(PIP_USER="0", PIP_DISABLE_PIP_VERSION_CHECK="1")
    try:
        done = subprocess.run(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
    except OSError as error:
        return 1, str(error)
    return done.returncode, done.stdout


def must_run(command, run):
    status, output = run(command)
    if status:
        raise SetupError(
            f'{output.rstrip()}\n\nThe set-up failed at the step above. "No matching distribution '
            'found" often means that the package index was not reached. Mend the cause, then run '
            "the same command again."
        )


def pip_install(venv, arguments, run):
    pip = [venv_python(venv), "-m", "pip", "install", "--no-input", "--progress-bar=off"]
    must_run([*pip, "--no-compile", "--no-deps", *arguments], run)


def install_locks(venv, locks, run):
    # Wheels only: every pinned version has them, and no compiler is needed.
    requirements = [part for lock in locks for part in ("--requirement", lock)]
    pip_install(venv, ["--only-binary=:all:", *requirements], run)


def install_projects(venv, root, run):
    """The simulator, and gemmlab on top. lab.txt pins what builds them."""
    folders = [os.path.join(root, "ptxsim"), root]
    editable = [part for folder in folders for part in ("--editable", folder)]
    pip_install(venv, ["--no-build-isolation", *editable], run)


def build(venv, root, locks, run):
    """Make .venv from nothing and install the locks and the projects into it."""
    # In an active environment, the Python it was made from: this one may be what is rebuilt.
    base_python = getattr(sys, "_base_executable", sys.executable)
    must_run([base_python, "-m", "venv", "--prompt", "gemmlab", venv], run)
    pip_install(venv, [PIP], run)
    install_locks(venv, locks, run)
    install_projects(venv, root, run)


# ---- the stamp: what a finished .venv was made from ----------------------------------------------


def hash_files(*paths):
    digest = hashlib.sha256()
    for path in paths:
        with open(path, "rb") as file:
            digest.update(hashlib.sha256(file.read()).digest())
    return digest.hexdigest()


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


def is_ours(venv):
    """Whether this script may delete the folder: it made it, or it is no environment at all."""
    if os.path.islink(venv) or not os.path.isdir(venv):
        return False
    try:
        with open(os.path.join(venv, "pyvenv.cfg"), encoding="utf-8") as file:
            return re.search(r"^prompt = '?gemmlab'?$", file.read(), re.MULTILINE) is not None
    except OSError:
        return True


def set_up(root, exact_python=False, site=False, driver=None, version=None, run=run):
    """Bring .venv under `root` up to date; print a line for each thing done. Raises SetupError."""
    start = time.time()
    venv = os.path.join(root, ".venv")
    version = version or tuple(sys.version_info[:3])
    this_python = "{}.{}".format(*version)
    cupy, choice = choose_cupy(driver or find_driver())
    stamp = read_stamp(venv)
    if cupy == "none":  # a toolkit serves the simulator as well: it stays while the GPU is away
        cupy = stamp.get("cupy", cupy)
    locks = [os.path.join(root, "requirements", name) for name in ("lab.txt", f"cupy-{cupy}.txt")]
    projects = [os.path.join(root, folder, "pyproject.toml") for folder in ("ptxsim", "")]
    wanted = {"root": root, "cupy": cupy, "locks": hash_files(*locks)}
    wanted["python"] = this_python if exact_python else stamp.get("python", this_python)
    changed = [name for name in wanted if stamp.get(name) != wanted[name]]

    if changed or run([venv_python(venv), "-c", "import numpy"])[0]:
        require_python(version)
        if os.path.lexists(venv):
            if not is_ours(venv):
                raise SetupError(
                    f"{venv} was made by something else: move it away or delete it, then run the "
                    "same command again."
                )
            reason = " and ".join(changed) + " changed" if stamp and changed else "it is not whole"
            print(f"Making .venv anew: {reason}.")
            shutil.rmtree(venv)
        print(choice)
        print(f"Setting up .venv with Python {this_python}: {DISK_SPACE[cupy]}, some minutes.")
        sys.stdout.flush()
        try:
            build(venv, root, locks, run)
        except BaseException:
            shutil.rmtree(venv, ignore_errors=True)
            raise
        stamp = dict(wanted, python=this_python, projects=hash_files(*projects))
        write_stamp(venv, stamp)
        print(f"Ready after {time.time() - start:.0f} s.")
    elif stamp.get("projects") != hash_files(*projects):
        print("pyproject.toml changed: installing gemmlab and ptxsim again.")
        install_projects(venv, root, run)
        stamp["projects"] = hash_files(*projects)
        write_stamp(venv, stamp)

    site_lock = os.path.join(root, "requirements", "site.txt")
    if site and stamp.get("site") != hash_files(site_lock):
        print("Installing what the site is built with: 0.4 GB, about a minute.")
        sys.stdout.flush()
        install_locks(venv, [site_lock], run)
        write_stamp(venv, dict(stamp, site=hash_files(site_lock)))


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--exact-python", action="store_true")
    parser.add_argument("--site", action="store_true")
    options = parser.parse_args(arguments)
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    try:
        set_up(root, exact_python=options.exact_python, site=options.site)
    except (SetupError, OSError) as error:
        print(f"gemmlab: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
