"""The fingerprint of a measurement: the code, its headers, its settings, its launches."""

import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from gemmlab.cuda.options import LEVEL
from gemmlab.folders import kernel_file
from gemmlab.ladder import IllegalSetting, Launch, MapOf, Problem, Rung, Settings, Target, Workspace
from gemmlab.ladder.launch import Argument

TEXT = "the text"  # the name of a source that is no file
ILLEGAL = "illegal"  # instead of a digest: no launch covers the problem
LAUNCH_DIGITS = 8


@dataclass(frozen=True)
class Fingerprint:
    """What a measurement belongs to.

    files: the digest of each file's tokens, the kernel's first. settings: those that the files or
    the assembler see. code: "sha256:" and the hash of both. launches: a digest, "" if no launch
    counts.
    """

    files: dict[str, str]
    settings: Settings
    code: str
    launches: str = ""

    def __str__(self) -> str:
        """As the column `code` of a table holds it."""
        return shortened(self.code) + (f"-{self.launches}" if self.launches else "")


def fingerprint(
    source: str | Path, settings: Settings, launches: Iterable[Launch] = ()
) -> Fingerprint:
    """Of a kernel's file or text with its settings, and of what is launched.

    Comments, white space, the compiler's version, and macros that nothing mentions do not count.
    Headers are those in INCLUDE_FOLDERS.
    """
    text = _of_file(source) if isinstance(source, Path) else source
    headers = _headers(text, set())
    begin, words, digests = _tokens((text, *(header for _, header in headers)))
    seen = {
        name: value
        for name, value in settings.items()
        if name in words or name == LEVEL or not name.isidentifier()  # an option, and no macro
    }
    content = begin + json.dumps(sorted(seen.items())) + "]"
    names = (source.name if isinstance(source, Path) else TEXT, *(name for name, _ in headers))
    return Fingerprint(
        dict(zip(names, digests, strict=True)), seen,
        "sha256:" + hashlib.sha256(content.encode()).hexdigest(), digest_of(launches),
    )  # fmt: skip


def of_rung(
    rung: Rung, settings: Settings, problems: Iterable[Problem], target: Target,
    source: str | Path | None = None,
) -> Fingerprint:  # fmt: skip
    """Of a rung that is launched for these problems; `source`: its code, where not its file."""
    try:
        launches = [
            launch for problem in problems for launch in rung.launches(problem, settings, target)
        ]
    except IllegalSetting:
        return replace(fingerprint(source or rung.path, settings), launches=ILLEGAL)
    return fingerprint(source or rung.path, settings, launches)


def code_hash(source: str | Path, macros: Settings) -> str:
    """The hash of what is compiled: code, headers and settings. See `fingerprint`."""
    return fingerprint(source, macros).code


def shortened(code: str) -> str:
    """The first sixteen digits of a hash, for a column of a table."""
    return code.removeprefix("sha256:")[:16]


def digest_of(launches: Iterable[Launch]) -> str:
    """Of grids, blocks, clusters, shared memory, boxes and arguments; "" of no launches."""
    content = [
        [
            launch.entry, launch.grid, launch.block, launch.shared_bytes, launch.cluster,
            launch.early, [_argument(argument) for argument in launch.args],
        ]
        for launch in launches
    ]  # fmt: skip
    if not content:
        return ""
    return hashlib.sha256(json.dumps(content, default=int).encode()).hexdigest()[:LAUNCH_DIGITS]


def _argument(argument: Argument) -> object:
    if isinstance(argument, MapOf):
        return [argument.matrix, argument.box, argument.swizzle, *filter(None, [argument.element])]
    return [argument.bytes, argument.zeroed] if isinstance(argument, Workspace) else argument


@lru_cache(maxsize=256)  # a sweep has hundreds of settings of one code
def _tokens(texts: tuple[str, ...]) -> tuple[str, frozenset[str], tuple[str, ...]]:
    """Of files: what the hash begins with, the words, and a digest of each."""
    code = [_stripped(text) for text in texts]
    words = frozenset(re.findall(r"[A-Za-z_]\w*", "\n".join(code)))
    digests = (hashlib.sha256(tokens.encode()).hexdigest()[:LAUNCH_DIGITS] for tokens in code)
    return f"[{json.dumps(code)}, ", words, tuple(digests)


def _headers(text: str, seen: set[str]) -> list[tuple[str, str]]:
    """(name, text) of own headers, directly or indirectly included, in the order of their mention.
    Those in `seen` are left out, and each that is found is added to it."""
    headers: list[tuple[str, str]] = []
    for name in _included(text):
        if name not in seen and (path := kernel_file(name)).is_file():
            seen.add(name)
            header = _of_file(path)
            headers += [(name, header), *_headers(header, seen)]
    return headers


def _of_file(path: Path) -> str:
    return _text(path, path.stat().st_mtime_ns, path.stat().st_size)


@lru_cache(maxsize=256)  # tables have hundreds of rows of one code
def _text(path: Path, modified_ns: int, size: int) -> str:
    return path.read_text(encoding="utf-8")


@lru_cache(maxsize=256)
def _included(text: str) -> tuple[str, ...]:
    return tuple(re.findall(r'^\s*#\s*include\s+"([^"]+)"', text, re.M))


def _stripped(text: str) -> str:
    """The code's tokens: no comments, one space between tokens, a line each for directives."""
    text = re.sub(r"//[^\n]*|/\*.*?\*/", " ", text, flags=re.S)
    lines = (" ".join(line.split()) for line in text.splitlines())
    return "\n".join(line for line in lines if line)
