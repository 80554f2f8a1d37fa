"""A record of many kernels: what of it still fits, what is to be recorded, and from which run.

    {"recordings": [{"gpu": …, "driver": …, "recorded": …}],
     "entries": {name: {"code": "sha256:…", "recording": 0, …}}}

An entry belongs to the code that was run, and names the recording it comes from by its place.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path

HERE = Path(__file__).resolve().parent
COMMAND = "python benchmarks/hardware/record_kernels.py OUTDIR"


@dataclass(frozen=True)
class Record:
    """The file `file` in this folder, or of a whole path.

    `codes`: of everything that belongs into it, by name. `make`: run those of these names on the
    GPU, and give (name, entry without its code) of each as soon as it is there. `tools`: versions
    of what it needs besides CuPy.
    """

    file: str | Path
    codes: Callable[[], dict[str, str]]
    make: Callable[[list[str]], Iterable[tuple[str, dict]]]
    tools: Callable[[], dict[str, str]] = dict

    @property
    def path(self) -> Path:
        return HERE / self.file

    def read(self) -> dict:
        return json.loads(self.path.read_text(encoding="utf-8"))

    def current(self) -> dict[str, dict]:
        """The entries that still fit, by name."""
        there, codes = self.read()["entries"], self.codes()
        return {
            name: there[name]
            for name, code in codes.items()
            if name in there and there[name]["code"] == code
        }

    def stale(self) -> list[str]:
        """What is to be recorded: it is new, or has changed since."""
        current = self.current()
        return [name for name in self.codes() if name not in current]

    def renew(self, out: Path) -> Iterator[str]:
        """Record what is stale and keep the rest, in `out`/`file`. Gives each name when it is done.

        The file is whole after each: what was recorded is not lost with what was not.
        """
        recordings, entries, codes = self.read()["recordings"], self.current(), self.codes()
        here = provenance() | self.tools()
        if here not in recordings:
            recordings.append(here)
        number = recordings.index(here)
        write(out / self.path.name, {"recordings": recordings, "entries": entries})
        for name, entry in self.make(self.stale()):
            entries[name] = {"code": codes[name], "recording": number, **entry}
            ordered = {key: entries[key] for key in codes if key in entries}
            write(out / self.path.name, {"recordings": recordings, "entries": ordered})
            yield name


def write(path: Path, content: dict) -> None:
    text = json.dumps(content, indent=1, ensure_ascii=False) + "\n"
    path.with_suffix(".tmp").write_text(text, encoding="utf-8")
    path.with_suffix(".tmp").replace(path)


def provenance() -> dict[str, str]:
    """Which GPU and compiler, and when. Raises NoGpu."""
    from gemmlab.cuda.device import require_gpu
    from ptxsim.compile import nvrtc

    here = require_gpu("Recording")
    return {
        "gpu": here.name,
        "driver": here.driver,
        "nvrtc": nvrtc.version(),
        "recorded": date.today().isoformat(),
        "command": COMMAND,
    }
