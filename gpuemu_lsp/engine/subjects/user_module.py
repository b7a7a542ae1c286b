"""Import of the user's module, which has the kernels. In workers only: it executes the user's code."""

from __future__ import annotations

import ast
import contextlib
import gc
import importlib
import importlib.util
import io
import linecache
import os
import sys
import traceback
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from gpuemu_lsp.engine.compile.torch_devices import importing
from gpuemu_lsp.engine.deadline import DeadlineError
from gpuemu_lsp.engine.subjects.module_slice import slice_of

_KEPT = frozenset({"__main__", "gpuemu", "gpuemu_lsp", "triton", "torch", "numpy"})
_folders: set[str] = set()
"""Folders that modules were imported from in this process."""
_INSTALLED = frozenset({"site-packages", "dist-packages"})
_MANY_MODULES = 50
"""Modules of a large package: Triton has more than 100, PyTorch more than 1,000."""


@dataclass
class ModuleError(Exception):
    """A module that could not be imported.

    ``line`` is 1-based, in ``path``; ``missing`` is the name of a package that is not installed.
    """

    message: str
    path: str
    line: int | None = None
    missing: str | None = None
    module: ModuleType | None = None
    """The module as far as it was executed."""


def why_not_importable(package: str, title: str, execute: bool, action: str) -> str | None:
    """Return why a module with kernels of a package is not imported, None if it is; ``action`` is what imports it."""
    if not execute:
        return f"this workspace is not trusted to execute code, and {action} imports its module"
    found = importlib.util.find_spec(package)
    # A folder of that name, such as one of kernels, has no origin.
    if found is None or found.origin is None:
        return f"{title} is not installed. Install it: pip install 'gpuemu-lsp[{package}]'"
    return None


def import_module(path: str, text: str, entry: str | None = None) -> ModuleType:
    """Execute the text of a module and return it; with ``entry``, only what the kernel of that name needs.

    The modules that it imports from its own folder or package are imported again each time: they may have changed. So
    are those that another module imported from its folder, which may have the same names.

    Raises
    ------
    ModuleError
        If it, or a module that it imports, raises an exception.
    """
    folder, package = _package(Path(path))
    name = f"{package}.{Path(path).stem}" if package else Path(path).stem
    _folders.add(folder)
    _forget(_folders)
    module = ModuleType(name)
    module.__file__, module.__package__ = path, package
    # Triton reads the source of its functions through linecache: that of the editor's text, not of the saved file.
    linecache.cache[path] = (len(text), None, text.splitlines(keepends=True), path)
    try:
        with _environment(folder), large_packages_excluded(), importing(text, package):
            if package:
                importlib.import_module(package)
            sys.modules[name] = module
            code = text if entry is None else slice_of(ast.parse(text, path), entry)
            exec(compile(code, path, "exec", dont_inherit=True), module.__dict__)  # noqa: S102 - the user's own module
    except DeadlineError:
        sys.modules.pop(name, None)
        raise
    except BaseException as error:
        sys.modules.pop(name, None)
        failed = _module_error(error, path)
        failed.module = module
        raise failed from error
    return module


def import_name(name: str, folders: tuple[str, ...]) -> ModuleType:
    """Import a module by its name, from these folders before the installed packages, and return it.

    Modules of these folders are imported again, as by :func:`import_module`; installed ones are kept.

    Raises
    ------
    ModuleError
        If it, or a module that it imports, raises an exception.
    """
    _folders.update(folders)
    _forget(_folders)
    importlib.invalidate_caches()
    with contextlib.ExitStack() as stack:
        for folder in reversed(folders):
            stack.enter_context(_environment(folder))
        try:
            return importlib.import_module(name)
        except DeadlineError:
            raise
        except BaseException as error:
            raise _module_error(error, "") from error


def _package(path: Path) -> tuple[str, str]:
    """Return the folder to import from, and the package of a module; "" for a module outside of packages."""
    folder, parts = path.resolve().parent, []
    while (folder / "__init__.py").is_file() and folder.parent != folder:
        parts.append(folder.name)
        folder = folder.parent
    return str(folder), ".".join(reversed(parts))


def _forget(folders: Iterable[str]) -> None:
    """Remove the modules of some folders from those that are imported."""
    # A prefix: paths of the hundreds of modules of a process, as objects, took a tenth of a save.
    prefixes = tuple(f"{folder.rstrip(os.sep)}{os.sep}" for folder in folders)
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if not file or not file.startswith(prefixes) or not file.endswith(".py"):
            continue
        # A compiled extension registers its operators with PyTorch when it is loaded, which happens once in a process.
        if name.partition(".")[0] not in _KEPT and not _INSTALLED & set(Path(file).parts):
            del sys.modules[name]


@contextlib.contextmanager
def large_packages_excluded() -> Iterator[None]:
    """Exclude what a large package creates from garbage collections.

    With the objects of PyTorch and Triton a full collection takes longer than the check of a kernel; they stay for the
    life of the worker. Collections during the import would find nothing.
    """
    before, enabled = len(sys.modules), gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if len(sys.modules) - before > _MANY_MODULES:
            gc.freeze()
        if enabled:
            gc.enable()


@contextlib.contextmanager
def _environment(folder: str) -> Iterator[None]:
    """Let the module import from its folder; discard its output and warnings."""
    bytecode, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    sys.path.insert(0, folder)
    sink = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors="replace")
    try:
        with contextlib.redirect_stdout(sink), contextlib.redirect_stderr(sink), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        sys.dont_write_bytecode = bytecode


def _module_error(error: BaseException, path: str) -> ModuleError:
    message = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    if isinstance(error, SyntaxError) and error.filename:
        return ModuleError(f"SyntaxError: {error.msg}", error.filename, error.lineno)
    missing = error.name if isinstance(error, ModuleNotFoundError) else None
    frames = traceback.extract_tb(error.__traceback__)
    if not path:
        own = [frame.filename for frame in frames if any(Path(frame.filename).is_relative_to(one) for one in _folders)]
        path = next((name for name in reversed(own) if not _INSTALLED & set(Path(name).parts)), "")
    lines = [frame.lineno for frame in frames if frame.filename == path]
    return ModuleError(message, path, lines[-1] if lines else None, missing)
