"""Tables are written whole, or not at all."""

import pandas
import pytest

from gemmlab import tables


def test_what_is_written_is_read_again(tmp_path):
    table = pandas.DataFrame({"a": [1, 2], "b": [0.125, 1 / 3], "c": ["x", "y"]})
    tables.write(table, tmp_path / "t.csv", ["b", "a"])
    found = pandas.read_csv(tmp_path / "t.csv")
    assert list(found.columns) == ["b", "a"]
    assert found["b"].tolist() == pytest.approx(table["b"].tolist(), rel=1e-5)


def test_a_table_that_fails_leaves_the_file_as_it_was(tmp_path):
    path = tmp_path / "t.csv"
    tables.write(pandas.DataFrame({"a": [1]}), path)
    before = path.read_bytes()
    with pytest.raises(KeyError):
        tables.write(pandas.DataFrame({"a": [2]}), path, ["missing"])
    assert path.read_bytes() == before
