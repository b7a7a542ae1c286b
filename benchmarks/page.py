"""One page, several benchmarks: each owns the part between its own two marks, and running it again replaces that."""

from __future__ import annotations

import re
from pathlib import Path


def put(page: Path | None, part: str, text: str) -> None:
    """Write a part of a page, where it stood before or else at the end; without a page, print it."""
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
