"""Files are written whole, or not at all."""

import errno
import os

import pandas
import pytest

from gemmlab import files
from gemmlab.kernel import prebuilt
from gemmlab.kernel.fingerprint import Fingerprint
from gemmlab.records import registry


def refusing(code):
    def refuse(*_, **__):
        raise OSError(code, os.strerror(code))

    return refuse


class FullDisk:
    """A file on a disk that is full: the first bytes fit, the rest does not."""

    def __init__(self, handle, mode):
        self.handle = handle

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.close(self.handle)

    def write(self, content):
        os.write(self.handle, content[:3])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def broken(monkeypatch, how):
    if how == "full disk":
        monkeypatch.setattr(files.os, "fdopen", FullDisk)
    elif how == "read-only":
        monkeypatch.setattr(files.tempfile, "mkstemp", refusing(errno.EROFS))
    else:
        monkeypatch.setattr(files.os, "replace", refusing(errno.EACCES))


HOW = {
    "full disk": "No space left on device",
    "read-only": "Read-only file system",
    "not yours": "Permission denied",
}


@pytest.mark.parametrize("how", HOW)
def test_a_file_that_cannot_be_written_stays_as_it_was(tmp_path, monkeypatch, how):
    path = tmp_path / "folder" / "file"
    files.write(path, b"before")
    broken(monkeypatch, how)
    with pytest.raises(OSError, match=HOW[how]):
        files.write(path, b"after")
    assert path.read_bytes() == b"before" and os.listdir(path.parent) == ["file"]


@pytest.mark.parametrize(
    "write",
    [
        lambda folder: prebuilt.write({"key": {}}, folder / "01.json.xz"),
        lambda folder: TABLE.write(pandas.DataFrame({"n": [1]}), folder.name),
    ],
)
def test_prebuilt_kernels_and_tables_are_written_whole_or_not_at_all(tmp_path, monkeypatch, write):
    monkeypatch.setattr(registry, "RESULTS", tmp_path.parent)
    write(tmp_path)
    (name,) = os.listdir(tmp_path)
    before = (tmp_path / name).read_bytes()
    broken(monkeypatch, "full disk")
    with pytest.raises(OSError, match=HOW["full disk"]):
        write(tmp_path)
    assert os.listdir(tmp_path) == [name] and (tmp_path / name).read_bytes() == before


NOTHING = Fingerprint({}, {}, "code")
TABLE = registry.Table(
    name="t", file="t.csv", measure=lambda say: [], key=("n",), columns=registry.SIZE("n"),
    fingerprint_of=lambda row, on: NOTHING,
)  # fmt: skip
