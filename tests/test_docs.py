"""The examples in the documentation give what they say."""

import doctest
from pathlib import Path

import pytest

DOCS = Path(__file__).parent.parent / "docs"


@pytest.mark.parametrize("name", ["simulator.md"])
def test_the_examples_of_a_document_run(name):
    done = doctest.testfile(str(DOCS / name), module_relative=False)
    assert done.attempted > 5 and done.failed == 0
