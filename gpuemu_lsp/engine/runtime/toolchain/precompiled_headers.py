"""Headers of PyTorch for g++, compiled ahead: reading them is most of what a source of an extension costs.

Such a file has 300 MB and takes twice the time of one source. It is made once some sources had the same options, and
few are kept. g++ takes it where its own options allow that, and reads the text of the header otherwise.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from gpuemu_lsp.engine.cache_folder import cache_root
from gpuemu_lsp.engine.runtime.processes.supervised import run_supervised
from gpuemu_lsp.engine.runtime.toolchain.compile_command import CompileCommand
from gpuemu_lsp.engine.runtime.toolchain.host_compiler import host_compiler
from gpuemu_lsp.engine.runtime.toolchain.object_cache import file_identity

_SOURCES_BEFORE = 2
_MOST_KEPT = 3
_USABLE = frozenset(("-fPIC", "-g1", "-fno-optimize-sibling-calls"))
"""Options with which such a file was made; those that change code are to be the same."""
_NAME_OF_MODULE = "-DTORCH_EXTENSION_NAME="
_FOR_OTHERS = 0o022
_HEADER, _FAILED = "gpuemu_headers.h", "failed"


def included_first(command: CompileCommand, torch: Path, text: str, options: Sequence[str]) -> list[str]:
    """Return options for g++ to include a text first, compiled ahead; none if it is not, or cannot be used.

    ``torch`` is PyTorch's folder of headers. ``options`` are those with which g++ compiles the source of a command.
    One of them that optimises is to be left out then.
    """
    own = [word for word in options if not word.startswith(("-W", "-w", "-O"))]
    if not _USABLE.issuperset(own):
        return []
    shared = [word for word in command.shared if not word.startswith(_NAME_OF_MODULE)]
    versions = [file_identity(Path(host_compiler())), file_identity(torch / "torch" / "version.h")]
    header = _header(host_compiler(), text, [*shared, *dict.fromkeys(own)], versions)
    return [] if header is None else ["-include", str(header)]


def _header(compiler: str, text: str, options: Sequence[str], versions: Sequence[str]) -> Path | None:
    """Return a header with a text that is compiled ahead, to be included first; None if there is none.

    ``options`` are those of g++ with which it is used, and ``versions`` change with what the text includes.
    """
    key = hashlib.blake2b(repr((compiler, text, tuple(options), tuple(versions))).encode(), digest_size=12).hexdigest()
    root = cache_root() / "headers"
    folder = root / key
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if any(one.stat().st_uid != os.getuid() or one.stat().st_mode & _FOR_OTHERS for one in (root, folder)):
            return None
        with (folder / "uses").open("ab") as uses:
            # Another process builds it: this source does without.
            fcntl.flock(uses, fcntl.LOCK_EX | fcntl.LOCK_NB)
            header = folder / _HEADER
            compiled = Path(f"{header}.gch")
            if compiled.exists():
                os.utime(folder)
                return header
            uses.write(b".")
            if uses.tell() <= _SOURCES_BEFORE or (folder / _FAILED).exists():
                return None
            header.write_text(text, encoding="utf-8")
            part = folder / "part.gch"
            command = [compiler, *options, "-w", "-x", "c++-header", str(header), "-o", str(part)]
            if run_supervised(command, capture=True).returncode:
                (folder / _FAILED).touch()
                return None
            part.replace(compiled)
        _remove_unused(root)
    except OSError:
        return None
    return header


def _remove_unused(root: Path) -> None:
    """Remove all but the headers that were used last."""
    with contextlib.suppress(OSError):
        for folder in sorted(root.iterdir(), key=lambda path: path.stat().st_mtime)[:-_MOST_KEPT]:
            shutil.rmtree(folder, ignore_errors=True)
