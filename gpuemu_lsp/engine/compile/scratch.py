"""The process's private folder: mirrored headers and NVRTC's precompiled prefixes.

NVRTC reads a quoted header next to the including file before anything else, so device views of the user's headers have
to lie in a tree of their own; each begins with a ``#line`` that names the real file.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import os
import re
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gpuemu_lsp.engine.compile.preamble import Preamble
from gpuemu_lsp.engine.compile.program import build

_PREFIX = "gpuemu-lsp-nvrtc-"
_OWNER = re.compile(re.escape(_PREFIX) + r"(\d+)-")


@dataclass(slots=True)
class ScratchFolder:
    """A folder that only this user can enter, removed at exit.

    ``written`` is what the mirror holds now. ``prefixes`` says of each precompiled prefix in which folder it lies, None
    for one that was wanted only once so far, "" for one that could not be made.
    """

    root: Path
    owner: int
    written: dict[str, str] = field(default_factory=dict)
    prefixes: dict[str, str | None] = field(default_factory=dict)

    def mirrored(self, path: str) -> str:
        """Return where ``path`` (absolute) stands in the mirror."""
        return f"{self.root}/mirror{path}"

    def mirror(self, path: str, text: str) -> None:
        """Put a header's text where the compiler will find it."""
        if self.written.get(path) == text:
            return
        target = Path(self.mirrored(path))
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(line_directive(path) + text, encoding="utf-8", errors="replace", newline="")
        self.written[path] = text

    def stand_in(self, path: str) -> None:
        """Make the folder of ``path``: ``../inc/x.h`` is only found from a folder that exists."""
        Path(self.mirrored(path)).parent.mkdir(parents=True, exist_ok=True)

    def forget_others(self, paths: Sequence[str]) -> None:
        """Remove mirrored headers that are not among ``paths``: a deleted header must not be found."""
        for path in set(self.written) - set(paths):
            Path(self.mirrored(path)).unlink(missing_ok=True)
            del self.written[path]

    def prefix_options(self, prefix: Preamble, options: Sequence[str]) -> tuple[str, ...]:
        """Return the options that use a precompiled ``prefix``, making it if need be; none where there is none.

        It takes a compilation of its own: NVRTC makes none from a text with a ``#line``. A costly one is only made for
        whoever comes back, as an editor does and a single check does not. The options must be the same each time.
        """
        key = _key(prefix, options)
        if key not in self.prefixes and prefix.costly:
            self.prefixes[key] = None
        elif self.prefixes.get(key) is None:
            self.precompile(prefix, options)
        folder = self.prefixes[key]
        return (*_place(folder), f"--use-pch={key}.pch") if folder else ()

    def precompile(self, prefix: Preamble, options: Sequence[str]) -> None:
        """Make a precompiled prefix."""
        key, folder = _key(prefix, options), f"{self.root}/pch"
        options = (*options, *_place(folder), f"--create-pch={key}.pch")
        made = build(prefix.text, "prefix", options, (), prefix.headers)
        self.prefixes[key] = folder if made.succeeded and Path(folder, f"{key}.pch").is_file() else ""

    def forget_prefixes(self) -> None:
        """Make every prefix anew: NVRTC could not read one (its memory for them is limited)."""
        self.prefixes.clear()


_scratch: ScratchFolder | None = None


def scratch() -> ScratchFolder:
    """Return this process's folder; a forked child gets one of its own.

    What its parent has precompiled it can use, because its addresses are the same.
    """
    global _scratch
    if _scratch is None or _scratch.owner != os.getpid():
        _sweep()
        root = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-"))
        (root / "pch").mkdir(mode=0o700)
        inherited = {key: folder for key, folder in _scratch.prefixes.items() if folder} if _scratch is not None else {}
        _scratch = ScratchFolder(root, os.getpid(), prefixes={**inherited})
        atexit.register(_remove, root, os.getpid())
    return _scratch


def _key(prefix: Preamble, options: Sequence[str]) -> str:
    words = "\0".join((prefix.text, *options)).encode(errors="replace")
    return hashlib.blake2b(words, digest_size=12).hexdigest()


def _place(folder: str) -> tuple[str, str]:
    return f"--pch-dir={folder}", "--pch-messages=false"


def line_directive(path: str) -> str:
    """Return the directive after which the compiler believes to be on line 1 of ``path``."""
    escaped = path.replace("\\", "\\\\").replace('"', '\\"')
    return f'#line 1 "{escaped}"\n'


def _remove(root: Path, owner: int) -> None:
    if os.getpid() == owner:
        shutil.rmtree(root, ignore_errors=True)


def _sweep() -> None:
    """Remove the folders of our own processes that were killed."""
    for folder in Path(tempfile.gettempdir()).glob(_PREFIX + "*"):
        match = _OWNER.match(folder.name)
        with contextlib.suppress(OSError):
            if match and folder.stat().st_uid == os.getuid() and not _alive(int(match[1])):
                shutil.rmtree(folder, ignore_errors=True)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
