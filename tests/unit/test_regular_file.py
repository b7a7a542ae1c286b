"""Files that are not ours: only regular ones are read, by every reader, and nothing waits for another one."""

from __future__ import annotations

import os

import pytest

from gpuemu_lsp.engine.check.finding_placer import line_place
from gpuemu_lsp.engine.deadline import DeadlineError, deadline
from gpuemu_lsp.engine.recordings.reader import RecordingError, read_recording
from gpuemu_lsp.engine.regular_file import file_bytes, file_text, readable_text
from gpuemu_lsp.engine.report.source_lines import line_text
from gpuemu_lsp.engine.source.headers.nearby_sources import content
from gpuemu_lsp.server.documents import parsed_files

READERS = {
    "source_lines": (lambda path: line_text(path, 0), ""),
    "line_place": (lambda path: line_place(path, 1), None),
    "readable_text": (readable_text, None),
    "nearby_sources": (content, None),
    "parsed_files": (parsed_files.text_on_disk, None),
}


@pytest.fixture(params=["fifo", "zero", "folder", "terminal"])
def unusual(request, tmp_path):
    path = tmp_path / "k.cu"
    if request.param == "fifo":
        os.mkfifo(path)
    elif request.param == "folder":
        path.mkdir()
    else:
        path.symlink_to({"zero": "/dev/zero", "terminal": "/dev/tty"}[request.param])
    return str(path)


@pytest.mark.parametrize("reader", READERS)
def test_a_file_without_an_end_or_a_writer_is_not_waited_for(reader, unusual):
    read, nothing = READERS[reader]
    try:
        with deadline(5.0):
            assert read(unusual) == nothing
    except DeadlineError:
        pytest.fail(f"{reader} waits for {unusual}")


def test_a_recording_that_is_a_fifo_is_an_error(tmp_path):
    os.mkfifo(tmp_path / "a.gpurec")
    with deadline(5.0), pytest.raises(RecordingError, match="not a regular file"):
        read_recording(tmp_path / "a.gpurec")


def test_a_large_file_is_an_error_and_its_size_is_said(tmp_path):
    path = tmp_path / "k.cu"
    path.write_bytes(b"x" * 11)
    assert file_bytes(path, 11) == b"x" * 11
    with pytest.raises(OSError, match="larger than 10 bytes"):
        file_bytes(path, 10)


def test_a_text_has_neither_a_byte_order_mark_nor_carriage_returns(tmp_path):
    path = tmp_path / "k.cu"
    path.write_bytes(b"\xef\xbb\xbfa\r\nb\rc\n\xff")
    assert file_text(path, "replace") == "a\nb\nc\n\ufffd"
    with pytest.raises(UnicodeDecodeError):
        file_text(path)


def test_a_name_that_no_file_can_have_is_an_ordinary_error():
    with pytest.raises(OSError, match="not a possible file name"):
        file_bytes("a\0b")
