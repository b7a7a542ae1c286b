"""One idiom is taught once: the same computation of a launch's sizes is read in every language."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest

from gpuemu_lsp.engine.hostcode.assumptions import HostAssumptions
from gpuemu_lsp.engine.hostcode.cpp.declarations import HostFile
from gpuemu_lsp.engine.hostcode.cpp.declarations import program_of as cpp_program
from gpuemu_lsp.engine.hostcode.launches import interpret, roots
from gpuemu_lsp.engine.hostcode.program import HostProgram
from gpuemu_lsp.engine.hostcode.python.declarations import program_of as python_program
from gpuemu_lsp.engine.hostcode.python.modules import functions_of
from gpuemu_lsp.engine.hostcode.python.modules import python_program as triton_program
from gpuemu_lsp.engine.source import read
from gpuemu_lsp.engine.source.model import EmbeddingModule
from gpuemu_lsp.engine.source.preprocessor.macros import MacroTable
from gpuemu_lsp.engine.source.python import module_scope

KERNEL = "__global__ void k(float* x, int n) {}"


@dataclass(frozen=True, slots=True)
class Idiom:
    """Declarations, and statements that compute ``blocks`` and ``threads`` from ``n``, in Python and in C++."""

    python: tuple[str, str]
    cpp: tuple[str, str] = ("", "")
    sizes: str = "ceil_div(n, 64) 64"


IDIOMS = {
    "a record of sizes": Idiom(
        ("@dataclass\nclass Sizes:\n    threads: int = 128\n    rows: int = 1\n",
         "s = Sizes(threads=64); blocks = -(-n // s.threads); threads = s.threads"),
        ("struct Sizes { int threads = 128; int rows = 1; };",
         "Sizes s; s.threads = 64; int blocks = (n + s.threads - 1) / s.threads, threads = s.threads;"),
    ),
    "a function that rounds up": Idiom(
        ("def up(a, b):\n    return -(-a // b)\n", "blocks = up(n, 64); threads = 64"),
        ("int up(int a, int b) { return a / b + (a % b != 0); }", "int blocks = up(n, 64), threads = 64;"),
    ),
    "a function without a name that rounds up": Idiom(
        ("up = lambda a, b=64: (a + b - 1) // b\n", "blocks = up(n); threads = 64"),
        ("", "auto up = [](int a, int b) { return (a + b - 1) / b; }; int blocks = up(n, 64), threads = 64;"),
    ),
    "a function in a function": Idiom(
        ("", "def up(a, b):\n        return a // b + bool(a % b)\n    blocks = up(n, 64); threads = 64"),
    ),
    "at least one": Idiom(
        ("", "blocks = n if n > 0 else 1; threads = 64"),
        ("", "int blocks = n <= 0 ? 1 : n, threads = 64;"),
        "n 64",
    ),
    "at most a number": Idiom(
        ("", "blocks = n if n < 9 else 8; threads = 64"),
        ("", "int blocks = n >= 9 ? 8 : n, threads = 64;"),
        "min(n, 8) 64",
    ),
    "a selection of a number": Idiom(
        ("KIND = 2\n", "match KIND:\n        case 1: threads = 32\n        case 2: threads = 64\n"
         "        case _: threads = 128\n    blocks = -(-n // threads)"),
        ("constexpr int KIND = 2;", "int threads; switch (KIND) { case 1: threads = 32; break; case 2: threads = 64; break; "
         "default: threads = 128; } int blocks = (n + threads - 1) / threads;"),
    ),
    "a selection of a name": Idiom(
        ("KIND = 'wide'\n", "match KIND:\n        case 'narrow': threads = 32\n        case 'wide': threads = 64\n"
         "        case _: threads = 128\n    blocks = -(-n // threads)"),
    ),
}  # fmt: skip


def cupy(idiom: Idiom) -> HostProgram | None:
    """Return a module that launches a kernel of CuPy."""
    declarations, body = idiom.python
    text = f"import cupy as cp\nfrom dataclasses import dataclass\nk = cp.RawKernel('{KERNEL}', 'k')\n{declarations}"
    text += f"def f(x, n):\n    {body}\n    k((blocks,), (threads,), (x, n))\n"
    return python_program(replace(read("/p/model.py", KERNEL), module=EmbeddingModule(text, 0)))


def cuda(idiom: Idiom) -> HostProgram | None:
    """Return a source that launches a kernel of CUDA."""
    declarations, body = idiom.cpp
    code = f"{KERNEL} {declarations} void f(float* x, int n) {{ {body} k<<<blocks, threads>>>(x, n); }}"
    return cpp_program([HostFile("k.cu", code)], MacroTable(()), {})


def triton(idiom: Idiom) -> HostProgram:
    """Return a module that launches a kernel of Triton."""
    declarations, body = idiom.python
    text = (
        f"from dataclasses import dataclass\n@triton.jit\ndef k(x, n, BLOCK: tl.constexpr):\n    pass\n{declarations}"
    )
    text += f"def f(x, n: int):\n    {body}\n    k[(blocks,)](x, n, BLOCK=threads)\n"
    scope = module_scope("/p/model.py", text)
    return triton_program(scope, {"k": functions_of(scope.root)["k"]})


CASES = [
    *(pytest.param(cupy, idiom, id=f"{name} in CuPy") for name, idiom in IDIOMS.items()),
    *(pytest.param(triton, idiom, id=f"{name} in Triton") for name, idiom in IDIOMS.items()),
    *(pytest.param(cuda, idiom, id=f"{name} in CUDA") for name, idiom in IDIOMS.items() if idiom.cpp[1]),
]


@pytest.mark.parametrize(("program", "idiom"), CASES)
def test_an_idiom_is_read_in_each_language(program: Callable[[Idiom], HostProgram | None], idiom: Idiom) -> None:
    unit = program(idiom)
    assert unit is not None
    runs = [interpret(unit, root, HostAssumptions()) for root in roots(unit, ["k"])]
    (launch,) = (launch for run in runs for launch in run.launches)
    assert " ".join(map(str, (*launch.grid, *(launch.keywords.values() or launch.block)))) == idiom.sizes
