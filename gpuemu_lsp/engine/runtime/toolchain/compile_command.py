"""A command that compiles one CUDA source: its files, and its options for the host's and the device's compiler."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

_SHARED = ("-I", "-D", "-U", "-std=", "--std=")
_SHARED_WITH_VALUE = frozenset(("-isystem", "-I", "-D", "-U", "-include"))
_FOR_HOST = frozenset(("-Xcompiler", "--compiler-options"))
_TARGET = frozenset(("-o", "--output-file"))
_DEPENDENCIES = frozenset(("-MF", "--dependency-output"))
_WITHOUT_EFFECT = frozenset(("-c", "--compile", "-MD", "-MMD", "--generate-dependencies-with-compile"))
_SOURCES = (".cu", ".hip", ".cpp", ".cc", ".cxx")


@dataclass(frozen=True, slots=True)
class CompileCommand:
    """``nvcc -c`` or ``c++ -c`` of one source.

    ``dependencies`` is the file for the names of headers, None if none is asked for. ``shared`` are options that both
    compilers take, ``host`` those for the host's alone and ``device`` the others.
    """

    source: Path
    target: Path
    dependencies: Path | None
    shared: tuple[str, ...]
    host: tuple[str, ...]
    device: tuple[str, ...]

    @property
    def folders(self) -> tuple[Path, ...]:
        """The folders of headers, in their order."""
        words = self.shared
        after = [words[place + 1] for place, word in enumerate(words[:-1]) if word in ("-I", "-isystem")]
        return tuple(Path(one) for one in (*(w[2:] for w in words if w.startswith("-I") and len(w) > 2), *after))


def compile_command(words: Sequence[str]) -> CompileCommand | None:
    """Return what a command compiles, None if it does anything but to make one object of one source."""
    if "-c" not in words and "--compile" not in words:
        return None
    files: dict[str, Path] = {}
    sources = list[Path]()
    shared, host, device = list[str](), list[str](), list[str]()
    remaining = iter(words)
    for word in remaining:
        name, equals, value = word.partition("=")
        if word in _TARGET or word in _DEPENDENCIES:
            files["target" if word in _TARGET else "dependencies"] = Path(next(remaining, ""))
        elif equals and name in _TARGET | _DEPENDENCIES:
            files["target" if name in _TARGET else "dependencies"] = Path(value)
        elif word in _SHARED_WITH_VALUE:
            shared += [word, next(remaining, "")]
        elif name in _FOR_HOST:
            # Build systems quote the value once more.
            host += (value if equals else next(remaining, "")).strip("'\"").split(",")
        elif word.startswith(_SHARED):
            shared.append(word)
        elif word.endswith(_SOURCES) and not word.startswith("-"):
            sources.append(Path(word))
        elif word not in _WITHOUT_EFFECT:
            device.append(word)
    if len(sources) != 1 or "target" not in files:
        return None
    return CompileCommand(
        sources[0], files["target"], files.get("dependencies"), tuple(shared), tuple(host), tuple(device)
    )
