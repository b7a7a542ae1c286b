"""Map of the wrong elements of an output: as text for a terminal, or as a PNG."""

from __future__ import annotations

import struct
import zlib

from gpuemu_lsp.engine.findings import Finding

_CELL = 12
_COLOURS = {"#": b"\xc0\x39\x2b", "+": b"\xe6\x7e\x22", ".": b"\xf5\xc5\x90", " ": b"\xe4\xe8\xec"}


def error_map_text(finding: Finding) -> str:
    """Render the map of a numeric finding; empty for an output of one element."""
    rows = _rows(finding)
    if len("".join(rows)) < 2:
        return ""
    head = f"wrong elements of {finding.data.get('output')} (# all, + half, . some):"
    return "".join(f"    {line}\n" for line in (head, *(f"|{row}|" for row in rows)))


def error_map_png(finding: Finding) -> bytes | None:
    """Return the map as a PNG (W3C PNG specification, third edition), or None if the finding has none."""
    rows = _rows(finding)
    if not rows:
        return None
    lines = [b"".join(_COLOURS[sign] * _CELL for sign in row) for row in rows]
    pixels = b"".join((b"\0" + line) * _CELL for line in lines)
    header = struct.pack(">IIBBBBB", len(rows[0]) * _CELL, len(rows) * _CELL, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(pixels, 9)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, data) for kind, data in chunks)


def _rows(finding: Finding) -> list[str]:
    rows = finding.data.get("where")
    return [str(row) for row in rows] if isinstance(rows, list) else []


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
