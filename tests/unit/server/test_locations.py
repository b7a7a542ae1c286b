"""Conversion of URIs and positions between client and engine."""

from __future__ import annotations

import pytest
from lsprotocol import types

from gpuemu_lsp.engine.findings import Position, Range
from gpuemu_lsp.server.documents.locations import (
    byte_position,
    client_position,
    client_range,
    path_from_uri,
    uri_from_path,
)

LINE = "a漢😀é = 0;"  # 1 + 3 + 4 + 2 bytes, 1 + 1 + 2 + 1 UTF-16 units


@pytest.mark.parametrize(
    ("encoding", "columns"), [("utf-8", (0, 1, 4, 8, 10)), ("utf-16", (0, 1, 2, 4, 5)), ("utf-32", (0, 1, 2, 3, 4))]
)
def test_columns_convert_in_both_directions(encoding, columns):
    for column, byte in zip(columns, (0, 1, 4, 8, 10), strict=True):
        assert byte_position([LINE], Position(0, column), encoding) == Position(0, byte)
        assert client_position([LINE], Position(0, byte), encoding) == Position(0, column)


def test_a_column_inside_a_character_is_clamped_to_its_start():
    assert byte_position([LINE], Position(0, 3), "utf-16") == Position(0, 4)  # between the surrogates
    assert client_position([LINE], Position(0, 6), "utf-16") == Position(0, 2)


def test_positions_outside_the_text_are_clamped():
    lines = ["ab", "c"]
    assert byte_position(lines, Position(0, 99), "utf-16") == Position(0, 2)
    assert byte_position(lines, Position(9, 9), "utf-16") == Position(1, 1)
    assert client_position(lines, Position(9, 9), "utf-16") == Position(1, 1)


def test_a_carriage_return_is_not_part_of_the_line():
    assert client_position(["ab\r"], Position(0, 3), "utf-16") == Position(0, 2)


def test_a_range_converts_both_ends():
    span = client_range([LINE, LINE], Range.of(0, 4, 1, 8), "utf-16")
    assert span == types.Range(types.Position(0, 2), types.Position(1, 4))


def test_only_file_uris_have_a_path():
    assert path_from_uri("file:///a/%73.cu") == "/a/s.cu"
    assert path_from_uri("file://localhost/a/b/../s.cu") == "/a/s.cu"
    for uri in ("untitled:Untitled-1", "git:/x/scale.cu?ref"):
        assert path_from_uri(uri) is None
    assert path_from_uri(uri_from_path("/a b/f(x)#1.cu")) == "/a b/f(x)#1.cu"
