"""A kernel in one piece for its settings: headers inlined, #if resolved, no more than is used."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from gemmlab.folders import KERNELS, kernel_file
from gemmlab.kernel.fingerprint import TEXT
from gemmlab.ladder import Settings

Line = tuple[str, str]  # of which file, and the text; one that ends with \ has the next one, too

WIDTH = 100
COMMENT = r"//[^\n]*|/\*.*?\*/"
LITERAL = r'R"(?P<end>[^()\s]*)\(.*?\)(?P=end)"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])\''
PIECE = re.compile(rf"(?P<comment>{COMMENT})|(?P<literal>{LITERAL})", re.S)
DEFINITION = re.compile(r"\s*#\s*define\s+(\w+)(\()?\s*(.*)", re.S)
HEADING = "// ----"
LINE = re.compile(rf"(?P<line>(?:{COMMENT}|{LITERAL}|\\\n|[^\n])*)\n", re.S)
DIRECTIVE = re.compile(r"\s*#\s*(\w+)\s*(.*)", re.S)
INCLUDE = re.compile(r'\s*#\s*include\s*"([^"]+)"')
DEFINED = re.compile(r"\bdefined\s*(?:\(\s*(\w+)\s*\)|(\w+))")
NOT = re.compile(r"!(?!=)\s*(\w+|\([^()]*\))")

Macros = Mapping[str, str | None]  # the bodies of macros; None of those that have parameters


class NotFlat(Exception):
    """A kernel that cannot be shown in one piece. The message names the line and says why."""


def flat(source: str | Path, settings: Settings, arch: str = "sm_90a") -> str:
    """The kernel as the compiler sees it with these settings: it becomes the same machine code.

    `source`: its file or its text. Comments stay, and so do macros, those of the settings with
    their values. Functions, types, constants and macros that nothing mentions are left out, but for
    the settings. Raises NotFlat.
    """
    text = source.read_text(encoding="utf-8") if isinstance(source, Path) else source
    name = source.name if isinstance(source, Path) else TEXT
    given = {name: str(value) for name, value in settings.items() if name.isidentifier()}
    code = _Code(given, {**given, "__CUDA_ARCH__": re.sub(r"\D", "", arch) + "0"})
    return _joined(pruned(code.lines_of(name, text, ()), given), name)


def bare(text: str) -> str:
    """The code without comments, and with nothing in its literals."""
    return PIECE.sub(lambda piece: " " if piece["comment"] else '""', text)


def counts(text: str) -> tuple[int, int]:
    """All lines, and those with code: without comments and blanks."""
    return text.count("\n"), sum(bool(line.strip()) for line in bare(text).split("\n"))


# ---- what the preprocessor does ------------------------------------------------------------------


def value_of(expression: str, macros: Macros) -> int:
    """Of what stands behind #if: macros, numbers, arithmetic, comparisons, &&, || and !. A name
    that is no macro is 0. Raises ValueError."""
    text = DEFINED.sub(lambda match: str(+is_defined(match[1] or match[2], macros)), expression)
    text = _expanded(text, macros, frozenset())
    python = NOT.sub(r"(not \1)", text).replace("&&", " and ").replace("||", " or ")
    try:
        if re.search(r"[^\d\s()+*/%<>=!&|-]", text):  # no more than eval may see
            raise SyntaxError
        return int(eval(python.replace("/", "//").strip()))
    except (SyntaxError, ArithmeticError, TypeError):
        raise ValueError(f"the value of {expression!r} cannot be computed") from None


def is_defined(name: str, macros: Macros) -> bool:
    """Raises ValueError for a name that belongs to the compiler."""
    if name.startswith("__") and name not in macros:
        raise ValueError(f"only the compiler knows {name}")
    return name in macros


def _expanded(text: str, macros: Macros, within: frozenset[str]) -> str:
    """With the bodies of macros instead of their names, but of none `within` its own."""

    def replaced(match: re.Match[str]) -> str:
        name = match[0]
        if name in within or not is_defined(name, macros):
            return "0"
        if (body := macros[name]) is None:
            raise ValueError(f"{name} is a macro with parameters")
        return _expanded(body, macros, within | {name})

    return re.sub(r"\b[A-Za-z_]\w*", replaced, text)


@dataclass
class _Branch:
    """Of a conditional: whether this branch counts, and none after it; the macro of an #ifndef."""

    counts: bool
    done: bool
    macro: str = ""


@dataclass
class _Code:
    """given: the settings, which are defined from the start. once: headers that come only once.
    shown: settings that have been defined where their defaults are."""

    given: dict[str, str]
    macros: dict[str, str | None]
    once: set[str] = field(default_factory=set)
    shown: set[str] = field(default_factory=set)

    def lines_of(self, file: str, text: str, around: tuple[str, ...]) -> list[Line]:
        """Of a file, with those of its headers; `around`: the files that include it."""
        headers: list[Line] = []  # that come before the first line of code of a header
        lines: list[Line] = []
        branches: list[_Branch] = []
        for match in LINE.finditer(text.rstrip() + "\n"):
            line = match["line"].rstrip()
            try:
                include = INCLUDE.match(line)
                if include and all(branch.counts for branch in branches):
                    first = around and not any(bare(text).strip() for _, text in lines)
                    (headers if first else lines).extend(self._header(include[1], (*around, file)))
                elif (shown := self._shown(file, line, branches)) is not None:
                    lines.append((file, shown))
            except ValueError as error:
                raise NotFlat(f"{file}: {line.strip()}: {error}") from None
        return headers + lines

    def _header(self, name: str, around: tuple[str, ...]) -> list[Line]:
        if name in self.once:
            return []
        return self.lines_of(name, kernel_file(name).read_text(encoding="utf-8"), around)

    def _shown(self, file: str, line: str, branches: list[_Branch]) -> str | None:
        """A line as it is shown; None where it is not. Directives take effect."""
        word, rest = match.groups() if (match := DIRECTIVE.match(line)) else ("", "")
        rest = re.sub(COMMENT, " ", rest.replace("\\\n", " "), flags=re.S).strip()
        counts = all(branch.counts for branch in branches)
        if word in ("if", "ifdef", "ifndef"):
            holds = counts and self._holds(word, rest)
            branches.append(_Branch(holds, holds or not counts, rest if word == "ifndef" else ""))
        elif word in ("elif", "else", "endif"):
            branch = branches.pop()
            if word != "endif":
                counts = not branch.done and (word == "else" or self._holds("if", rest))
                branches.append(_Branch(counts, branch.done or counts))
        elif word == "define":
            return self._definition(line, branches)
        elif word == "undef" and counts:
            return line if self.macros.pop(rest, "") != "" else None
        elif word == "pragma" and rest == "once":
            self.once |= {file} if counts else set()
        elif counts:
            return self._without_empty_macros(line)
        return None

    def _holds(self, word: str, rest: str) -> bool:
        if word == "if":
            return value_of(rest, self.macros) != 0
        return is_defined(rest, self.macros) == (word == "ifdef")

    def _definition(self, line: str, branches: list[_Branch]) -> str | None:
        """That of a setting has its value, and its comment where it was."""
        at = next((p.start() for p in PIECE.finditer(line) if p["comment"]), len(line))
        match = DEFINITION.match(line[:at])
        if match is None:
            raise ValueError("it defines nothing")
        name, parameters, body = match.groups()
        if all(branch.counts for branch in branches):
            self.macros[name] = None if parameters else body.replace("\\\n", " ").strip()
            return line if self.macros[name] != "" else None
        outer = all(branch.counts for branch in branches[:-1])
        if name in self.given and branches[-1].macro == name and outer and name not in self.shown:
            self.shown.add(name)
            return f"{line[: match.end(1)]} {self.given[name]}".ljust(at) + line[at:]
        return None

    def _without_empty_macros(self, line: str) -> str | None:
        """None where that leaves nothing."""
        names = "|".join(name for name, body in self.macros.items() if body == "")
        if not names or not line:
            return line
        gone = re.compile(rf"{PIECE.pattern}|\b(?P<gone>{names})\b ?", re.S)
        return gone.sub(lambda part: "" if part["gone"] else part[0], line).rstrip() or None


def _joined(lines: Iterable[Line], root: str) -> str:
    """With a line above what comes from another file, and no two blank lines. It also says which
    earlier rung was the first to include that file: a reader may know it from there."""
    shown: list[str] = []
    last = root
    for file, text in lines:
        if text and file != last:
            since = _first_rungs().get(file, root)[:2]
            known = f" (since {since})" if since < root[:2] else ""
            shown += ["", f"// ---- {file}{known} ".ljust(WIDTH, "-")]
            last = file
        shown.append(text)
    return re.sub(r"\n{3,}", "\n\n", "\n".join(shown).strip() + "\n")


@cache
def _first_rungs() -> dict[str, str]:
    """Of each header the first rung, in order of their names, that includes it."""
    first: dict[str, str] = {}
    for rung in sorted(KERNELS.glob("[0-9]*.cu")):
        files = [rung.name]
        for name in files:
            text = kernel_file(name).read_text(encoding="utf-8")
            files += [header for header in INCLUDE.findall(text) if header not in files]
        for header in files[1:]:
            first.setdefault(header, rung.name)
    return first


# ---- what is used --------------------------------------------------------------------------------


@dataclass(eq=False)
class _Item:
    """A definition or another piece of code, or a line that is none."""

    lines: list[Line]
    is_code: bool
    paragraph: int  # a comment, and all that it stands above

    @property
    def code(self) -> str:
        return bare("\n".join(text for _, text in self.lines))

    @property
    def words(self) -> set[str]:
        return set(re.findall(r"[A-Za-z_]\w*", self.code))

    @property
    def names(self) -> set[str]:
        """What it defines, and does nothing else."""
        code = self.code.strip()
        if "__global__" in code or "operator" in code:
            return set()
        if match := re.match(r"#\s*define\s+(\w+)|typedef\b[^()]*?(\w+);$|using\s+(\w+)\s*=", code):
            return {name for name in match.groups() if name}
        code = re.sub(r"^template\s*<[^{;]*?>\s*(?=struct|__device__|constexpr)", "", code)
        if match := re.match(r"struct\s+(?:__align__\(\w+\)\s*)?(\w+)", code):
            return {match[1]}
        head = re.split(r"[={;]", code)[0]
        if re.match(r"constexpr\b[^(]*$", head):
            return set(re.findall(r"(\w+)\s*=[^=]", code))
        if "__device__" in head:
            return set(re.findall(r"\b(?!__)(\w+)\s*(?:<[^()]*>)?\s*\(", head)[:1])
        return set()


def _items(lines: Iterable[Line]) -> Iterator[_Item]:
    open_lines: list[Line] = []
    depth = paragraph = 0
    has_code = False
    file = ""
    for line in lines:
        code = bare(line[1]).strip()
        if not code and not open_lines:
            if has_code or line[0] != file or not line[1]:
                paragraph, has_code = paragraph + 1, False
            yield _Item([line], False, paragraph)
        else:
            open_lines.append(line)
            has_code = True
            if not code.startswith("#"):
                depth += code.count("{") - code.count("}")
            if depth == 0 and (code.startswith("#") or code.endswith((";", "}"))):
                yield _Item(open_lines, True, paragraph)
                open_lines = []
        file = line[0]
    if open_lines:
        yield _Item(open_lines, True, paragraph)


def pruned(lines: list[Line], settings: dict[str, str]) -> list[Line]:
    """Without definitions that nothing else mentions, and without what is said of them alone. Those
    of the settings stay."""
    items = list(_items(lines))
    code = [item for item in items if item.is_code]
    kept = {item for item in code if not item.names or item.names & settings.keys()}
    pasted = tuple(set(re.findall(r"(\w+)##", "".join(text for _, text in lines))))  # a name's part
    kept |= {item for item in code if pasted and any(n.startswith(pasted) for n in item.names)}
    words: set[str] = set().union(*(item.words for item in kept))
    while mentioned := {item for item in code if item not in kept and item.names & words}:
        kept |= mentioned
        words = words.union(*(item.words for item in mentioned))
    paragraphs = {item.paragraph for item in code} - {item.paragraph for item in kept}
    files = {item.lines[0][0] for item in kept}.union(file for file, _ in lines[:1])
    left: list[Line] = []  # the last one first
    below = ("", HEADING)
    for item in reversed(items):
        if item not in kept and (item.is_code or item.paragraph in paragraphs):
            continue
        for file, text in reversed(item.lines):
            is_last = file != below[0] or below[1].startswith(HEADING)
            if file in files and not (text.startswith(HEADING) and is_last):
                left.append((file, text))
                below = (file, text) if text else below
    return left[::-1]
