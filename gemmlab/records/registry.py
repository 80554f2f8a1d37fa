"""Records of measurements: one reader, one writer, three ways to refuse.

Each GPU has a folder, results/<gpu>/: runs.json holds the runs of the rungs (see runs),
and tables hold the rest. Which of several folders is read: the one that the environment variable
GEMMLAB_RECORDS names ("nvidia-h200"), and no other; else that of the GPU here, and for what is not
in it that of REFERENCE.

What was measured belongs to the code, the settings and the launches that were measured: where their
fingerprint (see gemmlab.kernel.fingerprint) no longer fits, it is refused, and the refusal says
what changed. For that, sources.json of each folder keeps the files and settings of the evidence.
`python -m gemmlab record NAME` measures it again (see gemmlab.records.recorder).
"""

from __future__ import annotations

import io
import json
import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, TypeVar

from gemmlab import files
from gemmlab.cuda.device import arch_of, gpu, require_gpu, software_versions
from gemmlab.folders import IS_CHECKOUT, RESULTS
from gemmlab.kernel.fingerprint import Fingerprint, of_rung, shortened
from gemmlab.ladder import SIMULATED, Problem, Rung, Target, find, read_settings
from gemmlab.measure.profiler import ncu_version
from gemmlab.measure.timing import now

if TYPE_CHECKING:
    import pandas

RUNS = "runs.json"
SOURCES = "sources.json"
WANTED = "GEMMLAB_RECORDS"  # the environment variable that names a folder
REFERENCE = "nvidia-h200"  # of which everything is recorded
SHAPE = ("m", "n", "k", "batch", "ops")
CUBLAS, LIBRARY = "cublas", "library"  # in the column `kernel`, and instead of a hash of its code

Say = Callable[[str], None]
Row = dict[str, Any]
Item = TypeVar("Item")
Found = TypeVar("Found")


class NoRecord(LookupError):
    """There is no such record; the message names the records that exist."""


class StaleRecord(RuntimeError):
    """The record is of another version of the kernel."""


class BadRecord(ValueError):
    """A file that is damaged; the message names it, what is wrong and what to do."""


# ---- folders -------------------------------------------------------------------------------------


def gpus() -> list[str]:
    """The GPUs of which runs are kept, as their folders are called: REFERENCE, then by name."""
    there = (path.parent.name for path in RESULTS.glob(f"*/{RUNS}"))
    return sorted(there, key=lambda slug: (slug != REFERENCE, slug))


def replayed() -> Path:
    """The folder that is read here first. Raises NoRecord."""
    return folders()[0]


def folders() -> list[Path]:
    """The folders that are read here, in this order. Raises NoRecord where there is none, or not
    the one wanted."""
    there, here = gpus(), gpu()
    if wanted := os.environ.get(WANTED):
        if wanted not in there:
            listed = ", ".join(there) or "none"
            raise NoRecord(f"{WANTED}={wanted!r} names no record; choose one of: {listed}.")
        return [RESULTS / wanted]
    if not there:
        raise NoRecord("No run is recorded yet; run `python -m gemmlab record` on a GPU.")
    of_this_gpu = [here.slug] if here is not None and here.slug in there else []
    return [RESULTS / slug for slug in dict.fromkeys((*of_this_gpu, there[0]))]


def made_by(program: str, name: str) -> Path:
    """The first file of this name in `folders`, which a program of ours makes. Raises NoRecord."""
    for folder in folders():
        if (path := folder / name).is_file():
            return path
    raise NoRecord(f"{name} is not recorded; python {program} makes it on a GPU.")


@contextmanager
def records_of(slug: str) -> Iterator[None]:
    """Read those of this GPU, whatever GPU is here and GEMMLAB_RECORDS says."""
    before = os.environ.get(WANTED)
    os.environ[WANTED] = slug
    try:
        yield
    finally:
        del os.environ[WANTED]
        if before is not None:
            os.environ[WANTED] = before


def of_one_gpu(read: Callable[[], Found]) -> Found:
    """What `read` gives of the first of `folders` that has all that it asks for. So what is
    compared is of one GPU. Raises NoRecord where none has it, and what `read` raises."""
    *before, last = folders()
    for folder in before:
        try:
            with records_of(folder.name):
                return read()
        except NoRecord:
            continue
    with records_of(last.name):
        return read()


def target() -> Target:
    """The GPU whose records are read first, as launches depend on it: that of its runs. SIMULATED
    where its runs cannot be read. Raises NoRecord."""
    try:
        return _target((replayed() / RUNS).read_text(encoding="utf-8"))
    except (OSError, ValueError, LookupError, TypeError):  # damaged: whoever reads the runs says so
        return SIMULATED


def target_here() -> Target:
    """The GPU here, as launches depend on it; SIMULATED where there is none."""
    here = gpu()
    return SIMULATED if here is None else Target(here.arch, here.sm_count)


@lru_cache(maxsize=8)
def _target(text: str) -> Target:
    facts = json.loads(text)["gpu"]
    return Target(arch_of(tuple(facts["compute_capability"])), facts["sm_count"])


# ---- reading files -------------------------------------------------------------------------------


def text_of(path: Path, name: str | None = None) -> str:
    """The text of a file that `record name` writes, or that nobody records. Raises NoRecord,
    BadRecord."""
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        what = _back(path) if name is None else f"{again(name)} on a GPU"
        raise NoRecord(f"{path} does not exist; {what}.") from None
    except (UnicodeDecodeError, OSError) as error:
        raise bad(path, f"it cannot be read as text ({error})", name) from None


def bad(path: Path, what: str, name: str | None = None) -> BadRecord:
    """A file that `record name` writes, or that nobody records: what is wrong, and what to do."""
    so = "" if name is None else f", or delete it and {again(name)} on a GPU"
    return BadRecord(f"{path}: {what}; {_back(path)}{so}.")


def _back(path: Path) -> str:
    back = f"restore it with `git checkout -- {path}`"
    return back if IS_CHECKOUT else "install gemmlab again"


def stale(name: str, changes: str = "") -> StaleRecord:
    """`changes`: what changed since it was recorded, as `changed` says it, if that is known."""
    what, undo = (f": {changes}", "undo that, or ") if changes else ("", "")
    return StaleRecord(
        f"{name}: recorded for another version of this kernel{what}; {undo}{again(name)} on a GPU."
    )


def again(name: str) -> str:
    """What measures it again; everything, if there is no name."""
    return f"run `{f'python -m gemmlab record {name}'.rstrip()}`"


def of_each(items: Iterable[Item], read: Callable[[Item], Found]) -> list[Found]:
    """`read` of each; what is not recorded or stale is left out, in a line on standard error. Where
    nothing is left, raises what the last of them raised."""
    results, error = [], None
    for item in items:
        try:
            results.append(read(item))
        except (NoRecord, StaleRecord) as refused:
            error = refused
            logging.getLogger(__name__).warning("Left out: %s", refused)
    if error and not results:
        raise error
    return results


# ---- what changed --------------------------------------------------------------------------------


def keep_sources(name: str, folder: Path, fingerprints: Iterable[Fingerprint]) -> None:
    """Keep what the fingerprints of the evidence `name` are made of, beside those of others. Of
    each kernel its files with their digests, and the values that each setting had."""
    kernels: dict[str, dict[str, Any]] = {}
    for fingerprint in fingerprints:
        if not fingerprint.files:
            continue
        kernel = kernels.setdefault(next(iter(fingerprint.files)), {"files": {}, "settings": {}})
        kernel["files"] |= fingerprint.files
        for setting, value in fingerprint.settings.items():
            values = kernel["settings"].setdefault(setting, [])
            if value not in values:
                values.append(value)
    if not kernels:
        return
    kept = _sources(folder) | {name: kernels}
    lines = ",\n".join(f" {json.dumps(key)}: {json.dumps(kept[key])}" for key in sorted(kept))
    files.write(folder / SOURCES, f"{{\n{lines}\n}}\n".encode())


def _sources(folder: Path) -> dict[str, Any]:
    """What `keep_sources` kept; nothing where that cannot be read, for it only explains."""
    try:
        kept = json.loads((folder / SOURCES).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return kept if isinstance(kept, dict) else {}


def refuse_stale(name: str, now: Fingerprint, recorded: str) -> None:
    """Raise StaleRecord unless the evidence `name` was recorded, with this code, for what is there
    now."""
    if str(now) != recorded:
        raise stale(name, changed(name, now, recorded))


def changed(name: str, now: Fingerprint, recorded: str) -> str:
    """What differs from the recorded evidence `name`, as a clause; "" where that is not known.
    recorded: its cell of the column `code`."""
    if now.files and recorded.partition("-")[0] == shortened(now.code):
        return "its launch has changed (grid, block, cluster, shared memory, arguments or boxes)"
    kernel = next(iter(now.files), "")
    then = _sources(replayed()).get(name, {}).get(kernel)
    if then is None:
        return ""
    for file in {**now.files, **then["files"]}:
        which = file if file == kernel else f"its header {file}"
        if file not in then["files"]:
            return f"{which} is new"
        if file not in now.files:
            return f"{which} is no longer included"
        if now.files[file] != then["files"][file]:
            return f"{which} has changed"
    for setting, values in then["settings"].items():
        value = now.settings.get(setting, "not set")
        if value not in values:
            return f"its setting {setting} is {value}, measured with {', '.join(map(str, values))}"
    return ""


# ---- columns of tables ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Kind:
    """What stands in the cells of a column. KIND("a", "b") declares columns of that kind."""

    what: str
    pattern: str  # of a cell
    above: float | None = None  # of a number: what it must be above
    optional: bool = False  # whether a cell may be empty
    unnamed: str = ""  # the cells of a file that was written before there was the column

    def __call__(self, *columns: str) -> dict[str, Kind]:
        return dict.fromkeys(columns, self)

    def read(self, cells: pandas.Series) -> tuple[pandas.Series, pandas.Series]:
        """The values of a column of text, and which cells are wrong."""
        import numpy
        import pandas

        values, wrong = cells, ~cells.str.fullmatch(self.pattern)
        if self.above is not None:
            values = pandas.to_numeric(cells, errors="coerce")
            wrong |= ~(numpy.isfinite(values) & (values > self.above))
        return values, wrong & ~(self.optional & (cells == ""))


_NUMBER, _WHOLE = r"[-+.\deE]+", r"-?\d+"
TEXT = Kind("text", r".+")
NOTE = Kind("text", r".*")
DATE = Kind("a date and time in UTC", r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00")
WHOLE = Kind("a whole number from 0 on", _WHOLE, -1)
SIZE = Kind("a whole number from 1 on", _WHOLE, 0)
POSITIVE = Kind("a number above 0", _NUMBER, 0)
NUMBER = Kind("a number", _NUMBER, float("-inf"))
REPORTED = Kind("a number above 0 or nothing", _NUMBER, 0, optional=True)
BATCH = Kind("a whole number from 1 on", _WHOLE, 0, unnamed="1")
OPS = Kind("NN, NT, TN or TT", r"[NT]{2}", unnamed="NN")
COUNTED = Kind("a number or nothing", _NUMBER, float("-inf"), optional=True)


def provenance(*versions: str) -> dict[str, Kind]:
    """The columns that Table fills: code, GPU, versions of what measured, date."""
    return {**TEXT("code", "gpu", *versions), **DATE("recorded")}


WITH_CUBLAS = provenance("driver", "cuda", "nvrtc", "cublas")


def at_shape(table: pandas.DataFrame, shape: Sequence[int], missing: str) -> pandas.DataFrame:
    """The rows of a table at (M, N, K), or (M, N, K, batch). Raises NoRecord: `missing`, as the
    begin of a sentence, and the shapes that there are."""
    sizes = table[[name for name in ("m", "n", "k", "batch") if name in table]]
    here = (sizes.to_numpy() == (*shape, 1)[: sizes.shape[1]]).all(axis=1)
    if not here.any():
        there = sorted(set(sizes.itertuples(index=False, name=None)))
        listed = ", ".join(str(Problem.of(size)) for size in there)
        raise NoRecord(f"{missing} at {Problem.of(shape)}; recorded are {listed or 'none'}.")
    return table[here]


# ---- evidence ------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """Something that is measured on a GPU and kept, in a `file` below results/<gpu>/. `name`: for
    `python -m gemmlab record`, which measures it without being given its name if it is
    `by_default`. What is `simulated` needs no GPU: it has the bits of REFERENCE, and its folder."""

    name: str
    file: str
    by_default: bool = False
    simulated: bool = False

    @property
    def slug(self) -> str:
        """The GPU whose folder has what is measured here. Raises NoGpu."""
        return REFERENCE if self.simulated else require_gpu("Recording").slug

    def path_of(self, slug: str) -> Path:
        """The file of the GPU `slug`."""
        return RESULTS / slug / self.file

    def remake(self, say: Say) -> Path:
        """Measure it on the GPU here and write it, with a line about each step; returns the file.
        Raises NoGpu, and what the measurement raises."""
        raise NotImplementedError

    def read(self) -> Any:
        """What is kept. Raises NoRecord, BadRecord, StaleRecord."""
        raise NotImplementedError


def problem_in(row: Any, ops: str) -> Problem:
    """In a row of a table: its m, n and k, and its batch and ops where it has them."""
    batch = getattr(row, "batch", 1)
    return Problem(int(row.m), int(row.n), int(row.k), int(batch), getattr(row, "ops", ops))


def of_row(rung: Rung, row: Any, on: Target) -> Fingerprint:
    """Of a rung with the settings and at the shape that stand in a row of a table."""
    settings = read_settings(row.settings)
    return of_rung(rung, settings, [problem_in(row, rung.ops(settings))], on)


def of_kernel(row: Any, on: Target) -> Fingerprint:
    """Of the rung, or the library, that stands in the column `kernel`, as `of_row`."""
    if row.kernel == CUBLAS:
        return Fingerprint({}, {}, LIBRARY)
    return of_row(find(row.kernel), row, on)


@dataclass(frozen=True, kw_only=True)
class Table(Evidence):
    """Evidence in a CSV file, a row for each `key`.

    columns: their names and kinds. measure: yields rows, each as soon as it is measured, with at
    least `columns` but those of `provenance`. fingerprint_of: of the kernel that a row with this
    key would be measured with now, launched on this target; None for a row of what is no longer
    measured, which is passed over. part: of a file that holds several pieces of evidence, the
    column and the value that tell which rows belong to this one.
    """

    key: tuple[str, ...]
    columns: Mapping[str, Kind]
    measure: Callable[[Say], Iterable[Row]]
    fingerprint_of: Callable[[Any, Target], Fingerprint | None] = of_kernel
    part: tuple[str, str] | None = None

    def remake(self, say: Say) -> Path:
        """As Evidence.remake. Each row is on disk before the next one is measured, beside rows with
        other keys; when all are there, they replace what the file has of this evidence."""
        slug, made_with = self.slug, self.made_with()
        rows: list[Row] = []
        prints: list[Fingerprint] = []
        for row in self.measure(say):
            rows.append(made_with | {"recorded": now()} | row)
            prints.append(self._print(SimpleNamespace(**rows[-1])))
            self._keep(rows, prints, slug, whole=False)
        if not rows:
            say(f"{self.name}: nothing was measured")
            return self.path_of(slug)
        return self._keep(rows, prints, slug, whole=True)

    def made_with(self) -> Row:
        """The cells of `provenance` that are the same in all rows: the GPU here, and versions."""
        name = f"simulator of {REFERENCE}" if self.simulated else require_gpu("Recording").name
        facts: Row = software_versions() | {"gpu": name}
        if "ncu" in self.columns:
            facts["ncu"] = ncu_version()
        return {name: facts[name] for name in self.columns if name in facts}

    def read(self) -> pandas.DataFrame:
        """The rows, with at least `columns`."""
        return of_one_gpu(self._read)

    def _read(self) -> pandas.DataFrame:
        path = replayed() / self.file
        table = self._parsed(text_of(path, self.name), path)
        rows = table[self._belongs(table)].reset_index(drop=True)
        if rows.empty:
            raise NoRecord(
                f"{self.name}: nothing is recorded in {path}; {again(self.name)} on a GPU."
            )
        # A fingerprint depends on these columns alone.
        here, about = target(), [c for c in rows.columns if c in (*self.key, *SHAPE)]
        former = set()
        for row in rows[[*about, "code"]].drop_duplicates().itertuples(index=False):
            try:
                print_now = self.fingerprint_of(row, here)
            except FileNotFoundError:  # the code is gone
                raise stale(self.name) from None
            except ValueError as error:
                raise bad(path, str(error), self.name) from None
            if print_now is None:
                former.add(row[:-1])
            else:
                refuse_stale(self.name, print_now, row.code)
        there = rows[about].itertuples(index=False, name=None)
        return rows[[row not in former for row in there]].reset_index(drop=True)

    def write(self, rows: pandas.DataFrame, slug: str, whole: bool = True) -> Path:
        """Put the rows into the file of the GPU `slug`, for those that are there of this evidence.

        Their code is that of what is there now, launched on the GPU here. If they are not the
        whole of the evidence, rows of it with other keys stay. Numbers keep six digits. Raises
        BadRecord, for rows that are not as they should be or a file that is damaged, and
        OSError; both leave the file as it was.
        """
        return self._keep(rows, [*map(self._print, rows.itertuples(index=False))], slug, whole)

    def _print(self, row: Any) -> Fingerprint:
        """Of a row as it would be measured now, on the GPU here."""
        print_now = self.fingerprint_of(row, target_here())
        assert print_now is not None, "what is measured has a fingerprint"
        return print_now

    def _keep(self, measured: Any, prints: list[Fingerprint], slug: str, whole: bool) -> Path:
        import pandas

        path, key = self.path_of(slug), list(self.key)
        rows = pandas.DataFrame(measured).assign(code=list(map(str, prints)))
        if path.is_file() and (self.part or not whole):
            there = self._parsed(text_of(path, self.name), path)
            if whole:
                others = there[~self._belongs(there)]
            else:
                new = rows.reindex(columns=key, fill_value=1)
                keys = set(new.itertuples(index=False, name=None))
                kept = there[key].itertuples(index=False, name=None)
                others = there[[row not in keys for row in kept]]
            rows = pandas.concat([others, rows]) if len(others) else rows
        usual = {name: kind.unnamed for name, kind in self.columns.items() if kind.unnamed}
        rows = rows.reindex(columns=list(self.columns)).fillna(usual)
        text = rows.to_csv(index=False, float_format="%.6g", lineterminator="\n")
        self._parsed(text, path)
        files.write(path, text.encode())
        keep_sources(self.name, RESULTS / slug, prints)
        return path

    def _parsed(self, text: str, path: Path) -> pandas.DataFrame:
        table = parsed(text, path, self.columns, self.name)
        twice = table.duplicated(list(self.key)).to_numpy()
        if twice.any():
            raise bad(path, f"line {twice.argmax() + 2} repeats an earlier line", self.name)
        return table

    def _belongs(self, table: pandas.DataFrame) -> pandas.Series:
        """Whether each row of the file belongs to this evidence."""
        column, value = self.part or (self.key[0], table[self.key[0]])
        return table[column] == value


def parsed(
    text: str, path: Path, columns: Mapping[str, Kind], name: str | None = None
) -> pandas.DataFrame:
    """The table that is the text of a file, with at least these columns. Raises BadRecord."""
    import pandas

    try:
        table = pandas.read_csv(io.StringIO(text), dtype=str, keep_default_na=False)
    except (pandas.errors.ParserError, pandas.errors.EmptyDataError) as error:
        raise bad(path, f"it is not a table ({str(error).strip()})", name) from None
    table = table.fillna("")  # of a row that ends too early
    for column, kind in columns.items():
        if kind.unnamed and column not in table.columns:
            table[column] = kind.unnamed
    missing = [column for column in columns if column not in table.columns]
    if missing or table.empty:
        raise bad(path, f"it has no {', '.join(missing) or 'rows'}", name)
    for column, kind in columns.items():
        cells = table[column]
        values, wrong = kind.read(cells)
        if wrong.any():
            at = int(wrong.to_numpy().argmax())
            raise bad(path, f"line {at + 2}: {column} is {cells.iloc[at]!r}, not {kind.what}", name)
        table[column] = values
    return table
