"""Set GEMM Lab up in a Python that a notebook is already running in, such as Colab's.

    set_up(root)

installs the pinned versions of the locks in place of what is there, and says what it found. The
first cell of the copies that gemmlab.site.hosted makes calls it. What the notebook's kernel itself
runs on stays as it is. Needs pip, and a checkout of the project at `root`.
"""

import importlib.util
import os
import re
import sys
import tempfile
from importlib import metadata

_spec = importlib.util.spec_from_file_location(
    "gemmlab_install", os.path.join(os.path.dirname(os.path.abspath(__file__)), "install.py")
)
install = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(install)

# What the package and its notebooks import, besides CuPy: pyproject's dependencies and its `fast`.
WANTED = (
    "numpy", "matplotlib", "pandas", "pillow", "tqdm", "nvidia-ml-py", "ipywidgets", "numba",
)  # fmt: skip
# A running kernel is made of these, and a service may have versions of its own.
OF_THE_KERNEL = ("ipython", "traitlets")

RESTART = "restart the session (on Colab: Runtime, Restart session), then run this cell again"


class NotReady(install.SetupError):
    """The notebook cannot go on. The message is one sentence that says what to do."""

    def _render_traceback_(self):
        """What IPython shows in place of a traceback."""
        return [f"gemmlab: {self}"]


def set_up(root, also=(), driver=None, version=None, run=install.run):
    """Install what `root`'s locks pin for this Python and driver, and make gemmlab importable.

    `also`: names of distributions of the lock that a notebook needs besides WANTED. Prints a line
    for each thing found. Raises NotReady where the Python does not fit, where
    something cannot be installed, and where what was installed is already loaded in another
    version.
    """
    try:
        _require_python(version or tuple(sys.version_info[:3]))
        cupy, found = install.choose_cupy(driver or install.find_driver())
        print(found)
        print("Installing the pinned versions.")
        before = _loaded()
        _install(str(root), (*WANTED, *also), cupy, run)
    except install.SetupError as error:
        raise NotReady(str(error)) from None
    if old := sorted(_changed(before)):
        raise NotReady(
            f"Installed; {' and '.join(old)} had been loaded before, in another version: {RESTART}."
        )
    folders = [str(root), os.path.join(str(root), "ptxsim", "src")]
    sys.path[:0] = folders
    # Processes that gemmlab starts look there, too.
    os.environ["PYTHONPATH"] = os.pathsep.join(
        [*folders, *filter(None, [os.environ.get("PYTHONPATH")])]
    )
    os.chdir(os.path.join(str(root), "notebooks"))
    print("Ready: go on with the cells below.")


def _require_python(version):
    newest = tuple(map(int, install.NEWEST_PYTHON.split(".")))
    if not install.OLDEST_PYTHON <= version[:2] <= newest:
        raise install.SetupError(
            "This notebook runs in Python {}.{}, and the pinned versions are for 3.10 to {}: "
            "choose another version of the runtime (on Colab: Runtime, Change runtime type), then "
            "run this cell again.".format(*version[:2], install.NEWEST_PYTHON)
        )


def _install(root, wanted, cupy, run):
    """Raises SetupError."""
    lab, of_cupy = (_text(path) for path in install.lock_files(root, cupy))
    lines = [*pins(lab, wanted), *pins(of_cupy)]
    pip = [sys.executable, "-m", "pip"]
    # Two distributions of CuPy have the same files, and a service may come with the other.
    if others := _cupys() - {_name(line) for line in lines}:
        both = sorted(others | {one for one in map(_name, lines) if one in _cupys()})
        install.must_run([*pip, "uninstall", "--yes", *both], cupy, run)
    handle, path = tempfile.mkstemp(suffix=".txt")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")
        options = ["--no-input", "--quiet", "--no-deps", "--only-binary=:all:", "--requirement"]
        install.must_run([*pip, "install", *options, path], cupy, run)
    finally:
        os.unlink(path)


def pins(lock, wanted=None):
    """Of a lock's text, the lines that pin the `wanted` and what these need; all, if None is named.

    What needs what stands in the comments below each line. A kernel's own are left out, with what
    these alone need.
    """
    entries = []
    for line in lock.splitlines():
        if re.match(r"[A-Za-z0-9]", line):
            entries.append((line, set()))
        elif parent := re.match(r"    #(?: via|  ) +([a-z0-9][a-z0-9._-]*)", line):
            entries[-1][1].add(parent[1])
    if wanted is None:
        return [line for line, _ in entries]
    names, known = set(wanted), set()
    while names != known:
        known = set(names)
        names |= {_name(line) for line, parents in entries if parents & known}
        names -= set(OF_THE_KERNEL)
    return [line for line, _ in entries if _name(line) in names]


def _name(line):
    return re.match(r"[A-Za-z0-9._-]+", line)[0].lower()


def _text(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def _cupys():
    """The distributions of CuPy that are installed."""
    names = {(one.metadata["Name"] or "").lower() for one in metadata.distributions()}
    return {name for name in names if re.fullmatch(r"cupy(-cuda\d+x)?", name)}


def _loaded():
    """Of each distribution of which a module is loaded, the version."""
    loaded = {module.partition(".")[0] for module in list(sys.modules)}
    found = metadata.packages_distributions()
    names = {name for module in loaded for name in found.get(module, ())}
    return {name: metadata.version(name) for name in names}


def _changed(before):
    """Those that have another version now, or are gone."""
    importlib.invalidate_caches()
    changed = set()
    for name, version in before.items():
        try:
            same = metadata.version(name) == version
        except metadata.PackageNotFoundError:
            same = False
        if not same:
            changed.add(name)
    return changed
