"""The set-up: what requirements/install.py chooses, does and says, and that the lists agree."""

import ast
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[1]
REQUIREMENTS = ROOT / "requirements"
INSTALL = REQUIREMENTS / "install.py"

PYTHONS = ("3.10", "3.11", "3.12", "3.13", "3.14")
PLATFORMS = {"linux": "Linux", "darwin": "Darwin", "win32": "Windows"}

# conda-forge calls these differently.
CONDA_NAMES = {
    "matplotlib": "matplotlib-base",
    "cupy-cuda13x": "cupy-core",
    "nvidia-cuda-nvrtc": "cuda-nvrtc",
    "nvidia-cuda-runtime": "cuda-cudart-dev",
    "nvidia-cuda-crt": "cuda-crt",
    "nvidia-cuda-nvdisasm": "cuda-nvdisasm",
    "ml-dtypes": "ml_dtypes",
}


def load(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


install, lock = load(INSTALL), load(ROOT / "tools" / "lock.py")


# ---- the lists: pyproject.toml, the locks, environment.yml ---------------------------------------


PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
PTXSIM = tomllib.loads((ROOT / "ptxsim" / "pyproject.toml").read_text("utf-8"))
EXTRAS = lock.read_requirements()
CONSTRAINTS = PYPROJECT["tool"]["uv"]["constraint-dependencies"]
# Which list of pyproject.toml each lock pins.
LOCKED = {
    "lab": [
        requirement
        for name in ("project", "lab", "tune", "fast", "test", "build")
        for requirement in EXTRAS[name]
    ],
    "site": EXTRAS["site"],
    "cupy-none": EXTRAS["simulator"],
    "cupy-cuda12": EXTRAS["cuda12"],
    "cupy-cuda13": EXTRAS["cuda13"],
}


def machine(python: str, platform: str) -> dict[str, str]:
    return default_environment() | {
        "python_version": python,
        "python_full_version": f"{python}.0",
        "sys_platform": platform,
        "platform_system": PLATFORMS[platform],
        "os_name": "nt" if platform == "win32" else "posix",
        "platform_machine": "x86_64",
        "extra": "",
    }


def pins(lock: str, python: str, platform: str) -> dict[str, str]:
    """Name and version of all that a lock installs on such a machine."""
    lines = (REQUIREMENTS / f"{lock}.txt").read_text("utf-8").splitlines()
    versions: dict[str, str] = {}
    for requirement in (Requirement(line) for line in lines if re.match(r"\w", line)):
        if requirement.marker and not requirement.marker.evaluate(machine(python, platform)):
            continue
        (pin,) = requirement.specifier
        assert pin.operator == "==", requirement
        name = canonicalize_name(requirement.name)
        assert name not in versions, f"{name} has two versions on Python {python}, {platform}"
        versions[name] = pin.version
    return versions


@pytest.mark.parametrize("platform", PLATFORMS)
@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("lock", LOCKED)
def test_a_lock_pins_what_pyproject_asks_for(lock, python, platform):
    pinned = pins(lock, python, platform)
    for requirement in map(Requirement, LOCKED[lock]):
        if requirement.marker and not requirement.marker.evaluate(machine(python, platform)):
            continue
        version = pinned.get(canonicalize_name(requirement.name))
        assert version is not None, f"{requirement} is not in {lock}.txt: run make lock"
        assert version in requirement.specifier, f"{lock}.txt has {version}, not {requirement}"


@pytest.mark.parametrize("python", PYTHONS)
def test_the_two_routes_to_cuda_13_have_one_nvrtc(python):
    simulator, gpu = (pins(f"cupy-{name}", python, "linux") for name in ("none", "cuda13"))
    for wheel in ("nvidia-cuda-nvrtc", "nvidia-cuda-runtime", "nvidia-cuda-crt", "cupy-cuda13x"):
        assert simulator[wheel] == gpu[wheel]


def test_macos_has_no_cuda():
    assert pins("cupy-none", "3.12", "darwin") == {}


def conda_requirements() -> dict[str, SpecifierSet]:
    listed = yaml.safe_load((ROOT / "environment.yml").read_text("utf-8"))["dependencies"]
    specifiers = {}
    for line in listed:
        if isinstance(line, str):
            name, _, versions = line.partition(" ")
            # conda's "=13.0.88" is the exact version as far as it is written
            specifiers[name] = SpecifierSet(re.sub(r"^=(?=\d)", "==", versions))
        else:  # what conda-forge does not have comes with pip
            requirements = (Requirement(text) for text in line["pip"] if not text.startswith("-"))
            specifiers |= {requirement.name: requirement.specifier for requirement in requirements}
    return specifiers


@pytest.mark.parametrize(
    "pinned",
    [
        *(
            extra
            for name in ("project", "lab", "tune", "fast", "test", "simulator")
            for extra in EXTRAS[name]
        ),
        *CONSTRAINTS,
    ],
)
def test_the_conda_route_asks_for_the_same(pinned):
    requirement = Requirement(pinned)
    name = CONDA_NAMES.get(requirement.name, requirement.name)
    assert conda_requirements().get(name) == requirement.specifier, pinned


def test_the_conda_route_asks_for_nothing_else():
    ours = LOCKED["lab"] + EXTRAS["simulator"] + CONSTRAINTS
    names = {CONDA_NAMES.get(Requirement(line).name, Requirement(line).name) for line in ours}
    assert set(conda_requirements()) - names == {"python", "pip", "cuda-version"}
    nvrtc = pins("cupy-none", "3.12", "linux")["nvidia-cuda-nvrtc"]
    (cuda,) = conda_requirements()["cuda-version"]
    assert nvrtc.startswith(cuda.version + ".")
    assert list(conda_requirements()["python"].filter(["3.9", *PYTHONS, "3.15"])) == list(PYTHONS)


def test_the_oldest_python_is_the_same_everywhere():
    oldest = ".".join(map(str, install.OLDEST_PYTHON))
    for project in (PYPROJECT, PTXSIM):
        assert project["project"]["requires-python"] == f">={oldest}"
    assert (PYTHONS[0], PYTHONS[-1]) == (oldest, install.NEWEST_PYTHON)


def test_what_is_installed_here_fits_together():
    check = subprocess.run([sys.executable, "-m", "pip", "check"], capture_output=True, text=True)
    assert check.returncode == 0, check.stdout


# ---- which CuPy ----------------------------------------------------------------------------------


class FakeDriver:
    """libcuda as the set-up calls it."""

    def __init__(self, version=13000, capability=(9, 0), error=0):
        self.version, self.capability, self.error = version, capability, error

    def cuInit(self, flags):
        assert flags == 0
        return self.error

    def cuDriverGetVersion(self, version):
        version._obj.value = self.version
        return 0

    def cuDeviceGet(self, device, ordinal):
        device._obj.value = 7
        return 0

    def cuDeviceGetAttribute(self, value, attribute, device):
        assert device.value == 7
        value._obj.value = self.capability[{75: 0, 76: 1}[attribute]]
        return 0


def no_library(name):
    raise OSError(f"{name}: cannot open shared object file")


@pytest.mark.parametrize(
    ("library", "lock", "words"),
    [
        (FakeDriver(13000), "cuda13", "CUDA 13.0"),
        (FakeDriver(14010), "cuda13", "CUDA 14.1"),
        (FakeDriver(12040), "cuda12", "CUDA 12.4"),
        (FakeDriver(13000, (7, 5)), "cuda13", "CUDA 13.0"),
        (FakeDriver(13000, (7, 0)), "cuda12", "compute capability 7.0"),
        (FakeDriver(11080), "none", "update it"),
        (FakeDriver(error=100), "none", "gives no GPU (CUDA error 100)"),
        (None, "none", "No NVIDIA driver"),
    ],
)
def test_the_driver_decides_about_cupy(library, lock, words):
    driver = install.find_driver(load=(lambda name: library) if library else no_library)
    chosen, sentence = install.choose_cupy(driver)
    assert chosen == lock
    assert words in sentence
    assert (lock == "none") == ("simulator" in sentence)


# ---- what is done, and what is left alone --------------------------------------------------------


class FakeSetUp:
    """A checkout, and a `run` that plays Python's venv and pip in it."""

    def __init__(self, root: Path):
        self.root = root
        self.venv = root / ".venv"
        self.commands: list[list[str]] = []
        self.failing = "nothing"  # a word in the command that fails
        (root / "requirements").mkdir()
        for lock in LOCKED:
            (root / f"requirements/{lock}.txt").write_text(f"{lock}==1\n")
        (root / "ptxsim").mkdir()
        for folder in (root, root / "ptxsim"):
            (folder / "pyproject.toml").write_text("[project]\n")

    def run(self, command):
        if command[1] == "-c":  # does .venv work?
            return (0 if Path(command[0]).exists() else 1), ""
        self.commands.append(list(command))
        if any(self.failing in part for part in command):
            return 1, "ERROR: No matching distribution found\n"
        if "venv" in command:
            (self.venv / "bin").mkdir(parents=True)
            (self.venv / "bin/python").touch()
            (self.venv / "pyvenv.cfg").write_text("prompt = 'gemmlab'\n")
        return 0, ""

    def __call__(self, cuda=None, **options):
        """Run the set-up; the words of the commands that it ran."""
        self.commands.clear()
        driver = install.Driver(cuda, (9, 0) if cuda else None)
        options.setdefault("version", (3, 12, 1))
        install.set_up(str(self.root), driver=driver, run=self.run, **options)
        return [word for command in self.commands for word in command]


@pytest.fixture
def checkout(tmp_path):
    return FakeSetUp(tmp_path)


def locks_in(words):
    return {Path(word).name for word in words if word.endswith(".txt")}


def test_a_fresh_clone_gets_the_locks_and_the_projects_and_the_second_run_does_nothing(
    checkout, capsys
):
    words = checkout()
    assert locks_in(words) == {"lab.txt", "cupy-none.txt"}
    folders = str(checkout.root / "ptxsim"), str(checkout.root)
    assert words[-4:] == ["--editable", folders[0], "--editable", folders[1]]
    assert "simulator" in capsys.readouterr().out
    assert checkout() == []
    assert capsys.readouterr().out == ""


def test_what_the_site_needs_is_added_once_and_a_failure_is_tried_again(checkout):
    checkout()
    checkout.failing = "site.txt"
    with pytest.raises(install.SetupError):
        checkout(site=True)
    checkout.failing = "nothing"
    assert locks_in(checkout(site=True)) == {"site.txt"}
    assert checkout(site=True) == checkout() == []
    (checkout.root / "requirements/site.txt").write_text("site==2\n")
    assert locks_in(checkout(site=True)) == {"site.txt"}


def test_a_named_python_gets_its_own_venv_and_any_other_keeps_it(checkout):
    checkout()
    assert checkout(version=(3, 8, 18)) == []
    assert checkout(version=(3, 12, 7), exact_python=True) == []
    assert "venv" in checkout(version=(3, 13, 0), exact_python=True)


@pytest.mark.parametrize("lock", ["lab", "cupy-none"])
def test_new_pins_rebuild_the_venv(checkout, lock, capsys):
    checkout()
    (checkout.venv / "left-behind").mkdir()
    (checkout.root / f"requirements/{lock}.txt").write_text("other==2\n")
    assert "venv" in checkout()
    assert "locks changed" in capsys.readouterr().out
    assert not (checkout.venv / "left-behind").exists()
    assert checkout() == []


@pytest.mark.parametrize("folder", [".", "ptxsim"])
def test_other_settings_in_pyproject_install_the_projects_alone(checkout, folder):
    checkout()
    (checkout.root / folder / "pyproject.toml").write_text("[project]\nname = 'gemmlab'\n")
    checkout.failing = "--editable"
    with pytest.raises(install.SetupError):
        checkout()
    checkout.failing = "nothing"
    assert "--editable" in checkout() and len(checkout.commands) == 1
    assert checkout() == []


def test_a_new_gpu_rebuilds_the_venv_and_a_missing_one_does_not(checkout):
    checkout()
    assert locks_in(checkout(cuda=(13, 0))) == {"lab.txt", "cupy-cuda13.txt"}
    assert checkout(cuda=None) == []
    assert locks_in(checkout(cuda=(12, 8))) == {"lab.txt", "cupy-cuda12.txt"}


def lose_python(checkout):
    (checkout.venv / "bin/python").unlink()


def lose_everything_but_the_folder(checkout):
    shutil.rmtree(checkout.venv)
    checkout.venv.mkdir()


def cut_the_stamp(checkout):
    stamp = checkout.venv / install.STAMP
    stamp.write_text(stamp.read_text()[:20])


def move_the_checkout(checkout):
    stamp = checkout.venv / install.STAMP
    stamp.write_text(json.dumps(json.loads(stamp.read_text()) | {"root": "/elsewhere"}))


@pytest.mark.parametrize(
    "damage", [lose_python, lose_everything_but_the_folder, cut_the_stamp, move_the_checkout]
)
def test_a_broken_venv_is_rebuilt(checkout, damage):
    checkout()
    damage(checkout)
    assert "venv" in checkout()
    assert checkout() == []


def test_somebody_elses_venv_is_not_touched(checkout):
    checkout.venv.mkdir()
    (checkout.venv / "pyvenv.cfg").write_text("version = 3.12.1\n")
    with pytest.raises(install.SetupError, match="made by something else: move it away"):
        checkout()
    assert [path.name for path in checkout.venv.iterdir()] == ["pyvenv.cfg"]


# Where it fails: making .venv, pip's own update, the locks, the projects.
@pytest.mark.parametrize("step", ["venv", "pip==", "lab.txt", "--editable"])
def test_a_failure_says_what_was_printed_and_leaves_nothing_half_done(checkout, step):
    checkout.failing = step
    with pytest.raises(install.SetupError, match=r"^ERROR: No matching distribution found"):
        checkout()
    assert not checkout.venv.exists()
    checkout.failing = "nothing"
    assert "venv" in checkout()


def test_an_interrupted_set_up_is_not_taken_for_done(checkout, monkeypatch):
    def interrupted(command):
        if "--editable" in command:
            raise KeyboardInterrupt
        return FakeSetUp.run(checkout, command)

    with monkeypatch.context() as patch:
        patch.setattr(install.shutil, "rmtree", lambda *_, **__: None)  # killed before it tidied
        patch.setattr(checkout, "run", interrupted)
        with pytest.raises(KeyboardInterrupt):
            checkout()
    assert checkout.venv.exists()
    assert "venv" in checkout()


def test_an_old_python_is_refused_before_anything_is_touched(checkout):
    checkout.venv.mkdir()
    with pytest.raises(install.SetupError, match=r"Python 3\.10 or newer .* this is Python 3\.8"):
        checkout(version=(3, 8, 18))
    assert checkout.commands == []
    assert checkout.venv.exists()


def test_an_old_python_can_read_the_script():
    ast.parse(INSTALL.read_text("utf-8"), feature_version=(3, 7))


@pytest.mark.parametrize("module", ["venv", "ensurepip"])
def test_python_without_venv_is_told_what_to_install(module):
    with pytest.raises(install.SetupError, match=r"apt install python3\.11-venv"):
        install.require_python((3, 11, 2), has_module=lambda name: name != module)


def test_without_a_network_the_script_fails_and_leaves_nothing(tmp_path):
    """The real script, venv and pip, with an index that nobody serves."""
    (tmp_path / "ptxsim").mkdir()
    shutil.copytree(REQUIREMENTS, tmp_path / "requirements")
    for name in ("pyproject.toml", "ptxsim/pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path / name)
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_INDEX_URL": "http://127.0.0.1:9/simple",
        "PIP_RETRIES": "0",
    }
    done = subprocess.run(
        [sys.executable, tmp_path / "requirements/install.py"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 1
    assert "the package index was not reached" in done.stderr and "Traceback" not in done.stderr
    assert not (tmp_path / ".venv").exists()


def test_no_requirements_file_names_a_package_index():
    named = (ROOT / name for name in ("Makefile", "pyproject.toml", "ptxsim/pyproject.toml"))
    for path in [*REQUIREMENTS.rglob("*"), *named]:
        if path.is_file() and "__pycache__" not in path.parts:
            assert "://" not in path.read_text("utf-8"), path


# ---- the package away from its checkout ----------------------------------------------------------


INSTALLED = """
import gemmlab as gl
from gemmlab import folders
from gemmlab.records import runs

kernel = gl.load("03_shared_memory")
print(folders.ROOT)
print(kernel.check().passed, kernel(A := gl.random_matrix(5, 7, 1), A.T.copy()).shape)
print(runs.replay_at(kernel, *runs.LARGE).gpu)
print(gl.load("12_split_k").name)  # with headers of kernels/common and of its own folder
print(len(gl.lab("01_naive").picture.value) > 1000)
"""


def test_a_wheel_has_all_that_the_package_reads(tmp_path):
    build = f"from hatchling.build import build_wheel; build_wheel({str(tmp_path)!r})"
    subprocess.run([sys.executable, "-c", build], cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    site = tmp_path / "site"
    shutil.unpack_archive(wheel, site, "zip")
    environment = os.environ | {"PYTHONPATH": str(site), "GEMMLAB_DEVICE": "simulator"}
    done = subprocess.run(
        [sys.executable, "-c", INSTALLED],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        str(site / "gemmlab" / "data"),
        "True (5, 5)",
        "NVIDIA H200",
        "12_split_k",
        "True",
    ]
    assert "Traceback" not in done.stderr


def test_an_editable_install_has_no_second_copy_of_the_data(tmp_path):
    build = f"from hatchling.build import build_editable; build_editable({str(tmp_path)!r})"
    subprocess.run([sys.executable, "-c", build], cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    shutil.unpack_archive(wheel, tmp_path / "site", "zip")
    assert not (tmp_path / "site" / "gemmlab").exists()
    (path_file,) = (tmp_path / "site").glob("*.pth")
    assert Path(path_file.read_text("utf-8").strip()) == ROOT
