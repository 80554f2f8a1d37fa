"""What is left of a kernel's code where only what its settings need is shown."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

Line = tuple[str, str]  # of which file, and the text; one that ends with \ has the next one, too

COMMENT = r"//[^\n]*|/\*.*?\*/"
LITERAL = r'R"(?P<end>[^()\s]*)\(.*?\)(?P=end)"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])\''
PIECE = re.compile(rf"(?P<comment>{COMMENT})|(?P<literal>{LITERAL})", re.S)
DEFINITION = re.compile(r"\s*#\s*define\s+(\w+)(\()?\s*(.*)", re.S)
HEADING = "// ----"


def bare(text: str) -> str:
    """The code without comments, and with nothing in its literals."""
    return PIECE.sub(lambda piece: " " if piece["comment"] else '""', text)


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
