"""Sections of a page that several benchmarks write: each replaces the text between its own two markers."""

from __future__ import annotations

import re
from pathlib import Path


def put(page: Path | None, part: str, text: str) -> None:
    """Replace a section of a page, or append it if the page does not have it; without a page, print it."""
    if page is None:
        print(text, end="")
        return
    begin, end = f"<!-- begin {part} -->", f"<!-- end {part} -->"
    block = f"{begin}\n{text.strip()}\n{end}"
    before = page.read_text(encoding="utf-8") if page.exists() else ""
    old = re.compile(re.escape(begin) + ".*?" + re.escape(end), re.DOTALL)
    if old.search(before):
        after = old.sub(lambda _: block, before)
    else:
        after = f"{before.rstrip()}\n\n{block}\n".lstrip()
    page.write_text(after, encoding="utf-8")
