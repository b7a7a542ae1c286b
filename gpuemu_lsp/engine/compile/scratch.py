"""Scratch directory of a process: mirrored headers and NVRTC's precompiled headers.

NVRTC searches the including file's directory first for a quoted header, so device views of user headers are written to
a directory tree of their own. Each begins with a ``#line`` that names the real file.
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
_USES_OF_COSTLY = 2
_USES = 4
"""Compilations with a preamble of which the last one precompiles it. That takes 35 ms and saves 5 ms each; with a
costly preamble, it saves what it takes."""
_OWNER = re.compile(re.escape(_PREFIX) + r"(\d+)-")


@dataclass(slots=True)
class ScratchFolder:
    """A directory with mode 0700, removed at exit.

    ``written`` are the texts in the mirror by real path. ``prefixes`` maps the key of a preamble to the directory of
    its precompiled header, "" if precompilation failed. ``uses`` are the compilations with each of the others.
    """

    root: Path
    owner: int
    written: dict[str, str] = field(default_factory=dict)
    prefixes: dict[str, str] = field(default_factory=dict)
    uses: dict[str, int] = field(default_factory=dict)

    def mirror_path(self, path: str) -> str:
        """Return the mirrored path of an absolute ``path``."""
        return f"{self.root}/mirror{path}"

    def mirror(self, path: str, text: str) -> None:
        """Write a header's text to the mirror."""
        if self.written.get(path) == text:
            return
        target = Path(self.mirror_path(path))
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(line_directive(path) + text, encoding="utf-8", errors="replace", newline="")
        self.written[path] = text

    def make_directory(self, path: str) -> None:
        """Create the directory of ``path`` in the mirror: ``../inc/x.h`` is found only from an existing directory."""
        Path(self.mirror_path(path)).parent.mkdir(parents=True, exist_ok=True)

    def remove_others(self, paths: Sequence[str]) -> None:
        """Remove all mirrored headers except ``paths``, since a header that was deleted must not be found."""
        for path in set(self.written) - set(paths):
            Path(self.mirror_path(path)).unlink(missing_ok=True)
            del self.written[path]

    def prefix_options(self, prefix: Preamble, options: Sequence[str]) -> tuple[str, ...]:
        """Return the options that use the precompiled ``prefix``, creating it if necessary; empty without one.

        NVRTC creates none from a text with a ``#line``, so precompilation is a separate call, which an editor session
        makes up for and a single check does not. The options have to be equal at creation and use.
        """
        key = _key(prefix, options)
        if self.prefixes.get(key) is None:
            self.uses[key] = self.uses.get(key, 0) + 1
            if self.uses[key] < (_USES_OF_COSTLY if prefix.costly else _USES):
                return ()
            self.precompile(prefix, options)
        folder = self.prefixes[key]
        return (*_place(folder), f"--use-pch={key}.pch") if folder else ()

    def precompile(self, prefix: Preamble, options: Sequence[str]) -> None:
        """Precompile a preamble."""
        key, folder = _key(prefix, options), f"{self.root}/pch"
        options = (*options, *_place(folder), f"--create-pch={key}.pch")
        made = build(prefix.text, "prefix", options, (), prefix.headers)
        self.prefixes[key] = folder if made.succeeded and Path(folder, f"{key}.pch").is_file() else ""

    def reset_prefixes(self) -> None:
        """Forget all precompiled headers after NVRTC failed to read one (its memory for them is limited)."""
        self.prefixes.clear()


_scratch: ScratchFolder | None = None


def scratch() -> ScratchFolder:
    """Return the scratch directory of this process; a forked child gets its own.

    The child can use its parent's precompiled headers, which are bound to addresses that are equal after a fork.
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
    # A precompiled header has no code, so that it serves the real and the virtual architecture.
    real = (option.replace("=compute_", "=sm_") for option in options)
    words = "\0".join((prefix.text, *real)).encode(errors="replace")
    return hashlib.blake2b(words, digest_size=12).hexdigest()


def _place(folder: str) -> tuple[str, str]:
    return f"--pch-dir={folder}", "--pch-messages=false"


def line_directive(path: str) -> str:
    """Return the directive that makes the next line the first line of ``path``."""
    escaped = path.replace("\\", "\\\\").replace('"', '\\"')
    return f'#line 1 "{escaped}"\n'


def _remove(root: Path, owner: int) -> None:
    if os.getpid() == owner:
        shutil.rmtree(root, ignore_errors=True)


def _sweep() -> None:
    """Remove scratch directories of this user's processes that no longer run."""
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
