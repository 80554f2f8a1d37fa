"""`make lock`: resolve pyproject.toml into requirements/*.txt, which the set-up installs.

    lab.txt           everything but CuPy: dependencies, extras lab, tune, fast, test, build needs
    site.txt          extra site, on top of lab.txt: only `make site` installs it
    cupy-none.txt     extra simulator: no NVIDIA driver here
    cupy-cuda12.txt   extra cuda12
    cupy-cuda13.txt   extra cuda13

Each file serves Python 3.10 and newer on every platform. A pin that still fits is kept; delete a
file to resolve it anew. Runs in .venv, which must hold uv.
"""

import os
import subprocess
import sys
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parent.parent
REQUIREMENTS, PYPROJECT = ROOT / "requirements", ROOT / "pyproject.toml"

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


def main() -> None:
    settings = tomllib.loads(PYPROJECT.read_text())
    project = settings["project"]
    extras = project["optional-dependencies"]
    lab = REQUIREMENTS / "lab.txt"
    resolve(
        project["dependencies"]
        + extras["lab"]
        + extras["tune"]
        + extras["fast"]
        + extras["test"]
        + settings["build-system"]["requires"],
        lab,
    )
    resolve(extras["site"], REQUIREMENTS / "site.txt", "--constraint", str(lab))
    for variant, extra in (("none", "simulator"), ("cuda12", "cuda12"), ("cuda13", "cuda13")):
        # NumPy comes from lab.txt, which CuPy's pins must agree with.
        options = ("--constraint", str(lab), "--no-emit-package", "numpy")
        resolve(extras[extra], REQUIREMENTS / f"cupy-{variant}.txt", *options)


if __name__ == "__main__":
    main()
