"""Frames: round trip under any chunking of the stream, and detection of corrupt streams."""

from __future__ import annotations

import itertools
import json
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuemu_lsp.engine.workers.frames import MAX_FRAME, FrameError, FrameReader, encode

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.lists(JSON, max_size=4), st.lists(st.integers(0, 200), max_size=8))
def test_any_chunking_of_the_stream_gives_the_same_messages(messages, cuts):
    stream = b"".join(map(encode, messages))
    reader, got = FrameReader(), []
    edges = [0, *sorted(cut for cut in cuts if cut <= len(stream)), len(stream)]
    for start, end in itertools.pairwise(edges):
        got += reader.feed(stream[start:end])
    assert got == messages


def test_infinities_and_nan_pass():
    (got,) = FrameReader().feed(encode([float("inf"), float("-inf")]))
    assert got == [float("inf"), float("-inf")]
    (got,) = FrameReader().feed(encode(float("nan")))
    assert got != got


@pytest.mark.parametrize(
    "data",
    [b"\xff" * 8, struct.pack("<I", MAX_FRAME + 1), struct.pack("<I", 3) + b"{x}", struct.pack("<I", 1) + b"\xff"],
)
def test_a_corrupt_stream_is_an_error(data):
    with pytest.raises(FrameError):
        list(FrameReader().feed(data))


def test_messages_before_the_corruption_are_not_lost():
    reader = FrameReader().feed(encode(1) + encode("two") + b"\xff" * 4)
    assert [next(reader), next(reader)] == [1, "two"]
    with pytest.raises(FrameError):
        next(reader)


def test_values_that_are_not_json_are_rejected():
    with pytest.raises(TypeError):
        encode({1, 2})
    assert json.loads(encode("ü\udcff")[4:]) == "ü\udcff"
