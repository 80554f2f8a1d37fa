"""What is left of a kernel's code where only what its settings need is shown."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from gemmlab.kernel.conditions import BadCondition, Macros, value_of

Line = tuple[str, str]  # of which file, and the text; one that ends with \ has the next one, too
Branch = tuple[str, list[Line]]  # the condition, "" of the last else, and what it is for

COMMENT = r"//[^\n]*|/\*.*?\*/"
LITERAL = r'R"(?P<end>[^()\s]*)\(.*?\)(?P=end)"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])\''
PIECE = re.compile(rf"(?P<comment>{COMMENT})|(?P<literal>{LITERAL})", re.S)
DEFINITION = re.compile(r"\s*#\s*define\s+(\w+)(\()?\s*(.*)", re.S)
UNDEFINITION = re.compile(r"\s*#\s*undef\s+(\w+)")
NESTED = r"[^()]*(?:\([^()]*(?:\([^()]*\)[^()]*)*\)[^()]*)*"
BRANCH = re.compile(
    rf" *(?:\}} )?(?P<else>else\b ?)?(?:if (?:constexpr )?\((?P<if>{NESTED})\) ?)?(?P<rest>.*)"
)
CONSTANTS = re.compile(r"constexpr (?:int|bool|unsigned) ([^;]*);")
HEADING = "// ----"
DECLARATION = re.compile(
    r" *(?!return|else|goto|asm)[A-Za-z_][\w<>:,*& ]*[ *&]\w+ *(\[|=[^=]|;|\{|\()"
)


def bare(text: str) -> str:
    """The code without comments, and with nothing in its literals."""
    return PIECE.sub(lambda piece: " " if piece["comment"] else '""', text)


def pruned(lines: list[Line], settings: dict[str, str]) -> list[Line]:
    """Without branches of `if` that constants forbid, and then without definitions that nothing
    else mentions. Those of the settings stay."""
    return _used(_decided(lines, settings), set(settings))


# ---- if, of constants ----------------------------------------------------------------------------


def _decided(lines: list[Line], settings: dict[str, str]) -> list[Line]:
    """Relies on lines that are indented by four spaces for each level; else an `if` stays."""
    lines, at = list(lines), 0
    everything = bare("\n".join(text for _, text in lines))
    known: dict[str, str | None] = {"true": "1", "false": "0", **settings}
    while at < len(lines):
        text = lines[at][1]
        if match := DEFINITION.match(bare(text)):
            known[match[1]] = None if match[2] else match[3].strip()
        elif match := CONSTANTS.match(text):
            for name, value in re.findall(r"(\w+) = (.*?)(?=, \w+ = |$)", match[1]):
                declared = re.findall(rf"\b(?:int|bool|unsigned) {name}\b|, {name} = ", everything)
                if len(declared) == 1 and (number := _number(value, known)) is not None:
                    known[name] = str(number)
        elif match := UNDEFINITION.match(text):
            known.pop(match[1], None)
        elif re.match(r" *if\b", text) and _is_first(lines[:at]):
            branches, end = _chain(lines, at)
            if (left := _left(branches, known, _indent(lines[at]))) is not None:
                lines[at:end] = left
                continue  # with the first of these
        at += 1
    return lines


def _number(expression: str, known: Macros) -> int | None:
    try:
        return value_of(expression, known, after_if=False)
    except BadCondition:
        return None


def _is_first(before: list[Line]) -> bool:
    """Whether a statement begins behind these lines that is no part of another one."""
    code = next((code for _, text in reversed(before) if (code := bare(text).strip())), "")
    return code.endswith(("{", "}", ";", ":"))


def _indent(line: Line) -> int:
    return len(line[1]) - len(line[1].lstrip())


def _chain(lines: list[Line], at: int) -> tuple[list[Branch], int]:
    """The branches of the `if` in line `at`, and where it ends; none if they cannot be told."""
    indent = _indent(lines[at])
    branches: list[Branch] = []
    while at < len(lines) and _indent(lines[at]) == indent:
        file, text = lines[at]
        match = BRANCH.match(PIECE.sub(lambda piece: piece["literal"] or "", text).rstrip())
        if match is None or (branches and not match["else"]):
            break
        condition, rest = match["if"] or "", match["rest"]
        if rest.startswith("if "):  # its condition has more lines
            return [], at
        comment = next((piece[0] for piece in PIECE.finditer(text) if piece["comment"]), "")
        body = [(file, f"{'':{indent + 4}}{part}") for part in (comment, rest) if part.strip("{")]
        at += 1
        while at < len(lines) and (
            _indent(lines[at]) > indent or (rest == "{" and not lines[at][1])
        ):
            body.append(lines[at])
            at += 1
        branches.append((condition, body))
        code = bare("\n".join(text for _, text in body))
        if code.count("{") != code.count("}"):
            return [], at
        if rest == "{":
            closing = bare(lines[at][1]).strip() if at < len(lines) else ""
            if not closing.startswith("}"):
                return [], at
            at += closing == "}"
            if closing == "}":
                break
        if not condition:
            break
    return branches, at


def _left(branches: list[Branch], known: Macros, indent: int) -> list[Line] | None:
    """What is left of an `if`; None if all of it, as where a name that is declared within might be
    one of those around."""
    for condition, body in branches:
        value = _number(condition, known) if condition else 1
        if value is None:
            return None
        if value:
            left = [(file, text[4:]) for file, text in body]
            declares = any(_indent(line) == indent and DECLARATION.match(line[1]) for line in left)
            return None if declares else left
    return [] if branches else None


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


def _used(lines: list[Line], settings: set[str]) -> list[Line]:
    """Without definitions that nothing else mentions, and without what is said of them alone."""
    items = list(_items(lines))
    code = [item for item in items if item.is_code]
    kept = {item for item in code if not item.names or item.names & settings}
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
