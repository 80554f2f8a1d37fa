"""The exercises: they tell right from wrong, and none of them is solved as committed."""

import re

import nbformat
import pytest

from gemmlab.exercises import check, check_kernel
from gemmlab.kernel import load
from gemmlab.ladder import NOTEBOOKS


@pytest.mark.parametrize(
    ("answer", "says"), [(None, "Not answered"), (8, "Right"), (7, "too small"), (9, "too large")]
)
def test_a_number_is_judged(answer, says, capsys):
    check(answer, 8)
    assert says in capsys.readouterr().out


def test_a_kernel_is_judged(capsys):
    right = load("02_coalescing").text
    check_kernel(right, like="02_coalescing")
    assert "Right" in capsys.readouterr().out
    check_kernel(right.replace("k < K", "k < K - 1"), like="02_coalescing")
    assert "cases fail" in capsys.readouterr().out
    check_kernel(right.replace("float sum", "flot sum"), like="02_coalescing")
    assert "does not compile" in capsys.readouterr().out


def test_a_mistake_that_does_no_harm_in_the_simulator_is_found_where_it_is_looked_for(capsys):
    name = "09_double_buffering"
    racy = load(name).text.replace("now ^= 1;", "now ^= 0;")
    check_kernel(racy, like=name, mistakes=True)
    says = capsys.readouterr().out
    assert "cases pass, but there is a write-after-read race" in says and says.count("race") == 1
    check_kernel(load("02_coalescing").text, like="02_coalescing", mistakes=True)
    assert "Right: all" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["01_naive", "02_coalescing"])
def test_the_planted_mistake_is_one_and_its_solution_repairs_it(name, capsys):
    """The repair that the folded solution shows, applied to the source of the exercise."""
    notebook = nbformat.read(NOTEBOOKS / f"{name}.ipynb", as_version=4)
    cells = [cell.source for cell in notebook.cells]
    at = next(i for i, source in enumerate(cells) if "check_kernel(" in source)
    planted = re.search(r'\.replace\("(.*?)", "(.*?)"\)', cells[at]).groups()
    unescaped = cells[at + 1].replace("&gt;", ">").replace("&lt;", "<")
    repair = re.search(r'\.replace\("(.*?)", "(.*?)"\)', unescaped).groups()
    broken = load(name).text.replace(*planted)
    assert broken != load(name).text
    check_kernel(broken, like=name)
    assert "cases fail" in capsys.readouterr().out
    check_kernel(broken.replace(*repair), like=name)
    assert "Right" in capsys.readouterr().out
