"""Triton kernels in the editor: time from a save to the verdict, against Triton's own compilation of the kernel.

Run by :mod:`benchmarks.triton_speed`. A server is driven as an editor does, with softmax, a product and flash attention
of ``kernels/triton/ops``, each alone in a project: once with one dtype, as an entry has by default, and once with those
of its entry. Each save changes the PTX; the file is opened and checked before, so that workers are warm, and the caches
have no entry for the new code. Between the saves, a warm process compiles the same text for the first case of each
dtype with Triton's own backend and without a cache, as Triton does at the first launch of each: to a cubin, for which
ptxas runs as it does on a save. Times depend on what else runs, and a short one less than a long one; so processor time
of both is measured too, that of all processes of the server.
"""

from __future__ import annotations

import ast
import asyncio
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from lsprotocol import types

from benchmarks.editor_client import Editor

_ROOT = Path(__file__).parent.parent
_OPS = _ROOT / "kernels" / "triton" / "ops"
KERNELS = ("triton_softmax", "triton_matmul_cores", "triton_flash_attention")
_STORE = re.compile(r"^    tl\.store\(", re.M)
_EDIT = "    if tl.num_programs(2) == {}:\n        tl.debug_barrier()\n    tl.store("
"""Replaces the first store. The PTX has the number, so that each save is translated as well as compiled."""


def measure(repeat: int) -> dict[str, dict[str, float]]:
    """Return seconds of Triton's compilation, of a save and of the save of a comment by kernel and dtypes: medians.

    ``compile processor`` and ``save processor`` are processor time, ``processor ratio`` the median of their ratio.
    """
    return asyncio.run(_measure(repeat))


async def _measure(repeat: int) -> dict[str, dict[str, float]]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ["GPUEMU_CACHE_DIR"], os.environ["TRITON_CACHE_DIR"] = f"{name}/gpuemu", f"{name}/triton"
        figures = {}
        for kernel in KERNELS:
            every = ast.literal_eval(_entry(kernel)[1])
            for dtypes in [every[:1], every][: len(every)]:
                label = f"{kernel} ({', '.join(dtypes)})"
                figures[label] = await _kernel(_project(kernel, folder / label, dtypes), folder / label, repeat)
        return figures


async def _kernel(path: Path, folder: Path, repeat: int) -> dict[str, float]:
    text = path.read_text(encoding="utf-8")
    compiler = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.triton_saves", str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=_ROOT,
    )
    editor = Editor()
    await editor.start(folder)
    _open(editor, path, text)
    await editor.idle()
    saves, comments, compilations, processor = [], [], [], []
    for number in range(repeat):
        edited = _STORE.sub(_EDIT.format(1000 + number), text, count=1)
        before = _processor_seconds(editor.pid)
        saves.append(await _save(editor, path, edited))
        spent = _processor_seconds(editor.pid) - before
        comments.append(await _save(editor, path, f"# {number}\n{edited}"))
        seconds, compiler_seconds = _compile(compiler, edited)
        compilations.append(seconds)
        processor.append((compiler_seconds, spent))
    await editor.client.shutdown_session()
    await editor.client.stop()
    compiler.communicate()
    return {
        "compile": statistics.median(compilations),
        "save": statistics.median(saves),
        "ratio": statistics.median(save / one for save, one in zip(saves, compilations, strict=True)),
        "comment": statistics.median(comments),
        "compile processor": statistics.median(one for one, _ in processor),
        "save processor": statistics.median(one for _, one in processor),
        "processor ratio": statistics.median(save / one for one, save in processor),
    }


def _entry(name: str) -> tuple[str, str]:
    """Return the text of a kernel's entry, and that of its dtypes."""
    config = (_OPS / "gpuemu.toml").read_text(encoding="utf-8")
    entry = next(part for part in config.split("[[kernels]]\n")[1:] if f'name = "{name}"' in part)
    match = re.search(r"^dtypes = (.*)$", entry, re.M)
    assert match is not None
    return entry, match[1]


def _project(name: str, folder: Path, dtypes: list[str]) -> Path:
    """Copy one kernel of the corpus with its reference; return the path of its source."""
    shutil.copytree(_ROOT / "kernels" / "reference", folder / "reference")
    (folder / "triton" / "ops").mkdir(parents=True)
    entry, every = _entry(name)
    entry = entry.replace(every, json.dumps(dtypes))
    (folder / "triton" / "ops" / "gpuemu.toml").write_text(f"[[kernels]]\n{entry}", encoding="utf-8")
    match = re.search(r'^source = "(.*)"', entry, re.M)
    assert match is not None
    return Path(shutil.copy(_OPS / match[1], folder / "triton" / "ops" / match[1]))


def _open(editor: Editor, path: Path, text: str) -> None:
    editor.versions[path.as_uri()] = 1
    item = types.TextDocumentItem(path.as_uri(), "python", 1, text)
    editor.client.text_document_did_open(types.DidOpenTextDocumentParams(item))


async def _save(editor: Editor, path: Path, text: str) -> float:
    editor.type(path, text)
    since = time.perf_counter()
    editor.save(path)
    await editor.idle()
    return time.perf_counter() - since


def _processor_seconds(pid: int) -> float:
    """Return the processor time of a process and its descendants, those that have ended included."""
    parents: dict[int, list[int]] = {}
    ticks: dict[int, int] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            # The name of the program, in parentheses, may have spaces.
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        number = int(stat.parent.name)
        parents.setdefault(int(fields[1]), []).append(number)
        ticks[number] = sum(map(int, fields[11:15]))
    total, waiting = 0, [pid]
    while waiting:
        one = waiting.pop()
        total += ticks.get(one, 0)
        waiting += parents.get(one, [])
    return total / os.sysconf("SC_CLK_TCK")


# ---- the compiler's process ------------------------------------------------------------------------------------------


def _compile(compiler: subprocess.Popen[str], text: str) -> tuple[float, float]:
    assert compiler.stdin is not None and compiler.stdout is not None
    compiler.stdin.write(f"{text!r}\n")
    compiler.stdin.flush()
    seconds, processor = map(float, compiler.stdout.readline().split())
    return seconds, processor


def _compile_texts(folder: Path) -> None:
    """Compile the first case of each dtype of each text that the standard input has; print the sum of the seconds."""
    import triton
    from triton.backends.nvidia.compiler import CUDABackend

    from gpuemu_lsp.engine.check.prepare import prepare
    from gpuemu_lsp.engine.compile.triton_backend import restore_backend, use_ptx_backend
    from gpuemu_lsp.engine.project.load import load
    from gpuemu_lsp.engine.subjects.request import CheckOptions, CheckRequest

    compile_ = triton.compiler.compile
    seconds: list[tuple[float, float]] = []

    def timed(*arguments: object, **options: object) -> object:
        restore_backend(CUDABackend)
        started, processor = time.perf_counter(), _own_processor_seconds()
        try:
            return compile_(*arguments, **options)
        finally:
            seconds.append((time.perf_counter() - started, _own_processor_seconds() - processor))
            use_ptx_backend()

    triton.compiler.compile = timed
    (spec,) = load(folder / "triton" / "ops" / "gpuemu.toml").kernels
    triton.knobs.compilation.always_compile = True
    each_dtype = [replace(spec, dtypes=(dtype,)) for dtype in spec.dtypes or ()]
    prepare(CheckRequest(spec, CheckOptions()))
    for line in sys.stdin:
        first = []
        for one in each_dtype:
            before = len(seconds)
            prepare(CheckRequest(one, CheckOptions(), text=ast.literal_eval(line)))
            first.append(seconds[before])
        print(*map(sum, zip(*first, strict=True)), flush=True)


def _own_processor_seconds() -> float:
    """Return the processor time of this process and of the children that have ended."""
    return sum(os.times()[:4])


if __name__ == "__main__":
    _compile_texts(Path(sys.argv[1]))
