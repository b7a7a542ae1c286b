"""Where the server's log goes: standard error, or the file the user names; standard output belongs to the protocol."""

from __future__ import annotations

import logging
import sys
from pathlib import Path

_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


def configure(level: str, file: str | None) -> str | None:
    """Set level and destination; return why the file cannot be used, if it cannot."""
    trouble = None
    handler: logging.Handler = logging.StreamHandler(sys.stderr)
    if file is not None:
        try:
            path = Path(file).expanduser()
            path.parent.mkdir(parents=True, exist_ok=True)
            handler = logging.FileHandler(path, encoding="utf-8")
        except OSError as error:
            trouble = f"The log file {file} cannot be written: {error.strerror or error}."
    handler.setFormatter(logging.Formatter(_FORMAT))
    root = logging.getLogger()
    for old in list(root.handlers):
        root.removeHandler(old)
        old.close()
    root.addHandler(handler)
    root.setLevel(getattr(logging, level.upper()))
    # pygls writes whole messages at its lower levels: only for those who ask for everything.
    logging.getLogger("pygls").setLevel(logging.DEBUG if level == "debug" else logging.WARNING)
    return trouble
