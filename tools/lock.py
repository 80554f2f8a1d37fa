"""`make lock`: resolve both pyproject.toml into requirements/*.txt, which the set-up installs.

    lab.txt           everything but CuPy: dependencies, extras lab, tune, fast, test, build needs
    site.txt          extra site, on top of lab.txt: only `make site` installs it
    dsl.txt           extra dsl, for `make test-dsl` alone, which has an environment of its own
    cupy-*.txt        extras simulator, where there is no NVIDIA driver, cuda12 and cuda13

Each file serves Python 3.10 and newer on every platform. A pin that still fits is kept; delete a
file to resolve it anew. Runs in .venv, which must hold uv.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parent.parent
REQUIREMENTS, PYPROJECT = ROOT / "requirements", ROOT / "pyproject.toml"
PTXSIM = ROOT / "ptxsim" / "pyproject.toml"

HEADER = "# Made by `make lock` from pyproject.toml; do not edit.\n"


def resolve(requirements: list[str], output: Path, *options: str) -> None:
    """Pin `requirements` and all they need, for every platform, into `output`."""
    command = [sys.executable, "-m", "uv", "pip", "compile", "-", "--quiet", "--universal"]
    command += ["--python-version", "3.10", "--no-header", "--no-emit-index-url"]
    temporary = output.with_suffix(".tmp")
    if output.exists():  # uv keeps the pins of the file that it writes to
        temporary.write_bytes(output.read_bytes())
    try:
        subprocess.run(
            [*command, *options, "--output-file", temporary],
            input="\n".join(requirements),
            stdout=subprocess.DEVNULL,
            cwd=ROOT,  # uv reads [tool.uv] there
            text=True,
            check=True,
        )
        temporary.write_text(HEADER + temporary.read_text())
        os.replace(temporary, output)
    finally:
        temporary.unlink(missing_ok=True)
    print(f"requirements/{output.name}")


def read_requirements() -> dict[str, list[str]]:
    """What gemmlab requires ("project"), each of its extras by name, and what builds it ("build").

    ptxsim, which the checkout has and no index, is replaced by what it requires itself.
    """
    gemmlab, ptxsim = (tomllib.loads(path.read_text("utf-8")) for path in (PYPROJECT, PTXSIM))
    extras = ptxsim["project"]["optional-dependencies"]

    def replaced(requirements: list[str]) -> list[str]:
        result = []
        for requirement in requirements:
            ours = re.fullmatch(r"ptxsim(?:\[(\w+)\])?(?:[<>=].*)?", requirement)
            if not ours:
                result.append(requirement)
            else:
                result += extras[ours[1]] if ours[1] else ptxsim["project"]["dependencies"]
        return result

    listed = {
        "project": gemmlab["project"]["dependencies"],
        "build": gemmlab["build-system"]["requires"],
        **gemmlab["project"]["optional-dependencies"],
    }
    return {name: replaced(requirements) for name, requirements in listed.items()}


def main() -> None:
    wanted = read_requirements()
    lab = REQUIREMENTS / "lab.txt"
    names = ("project", "lab", "tune", "fast", "test", "build")
    resolve([requirement for name in names for requirement in wanted[name]], lab)
    resolve(wanted["site"], REQUIREMENTS / "site.txt", "--constraint", str(lab))
    resolve(wanted["dsl"], REQUIREMENTS / "dsl.txt")
    for variant, extra in (("none", "simulator"), ("cuda12", "cuda12"), ("cuda13", "cuda13")):
        # NumPy comes from lab.txt, which CuPy's pins must agree with.
        options = ("--constraint", str(lab), "--no-emit-package", "numpy")
        resolve(wanted[extra], REQUIREMENTS / f"cupy-{variant}.txt", *options)


if __name__ == "__main__":
    main()
