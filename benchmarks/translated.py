"""Translation of every kernel of public files to machine code, and the instructions that are not supported.

    python -m benchmarks.translated FOLDER [--part I/N]

FOLDER has one checkout per repository. Every kernel that is not a template, or that a launch in its file instantiates,
is compiled as in a check and translated twice: the version specialised for blocks of 256 threads, and the scalar-PC
version. No kernel is run. An unsupported instruction stops a launch only where it is reached; here all of them are
listed, reachable or not. No code of the repositories is stored.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

from benchmarks.fresh import nothing_cached
from benchmarks.public_files import requests_of
from gpuemu_lsp.cli.arguments import shard
from gpuemu_lsp.engine.check.prepare import prepare
from gpuemu_lsp.engine.emulator.codegen.translate import runnable
from gpuemu_lsp.engine.emulator.ir.program import Trap
from gpuemu_lsp.engine.emulator.versions.compiled_kernel import CompiledKernel, TranslationError
from gpuemu_lsp.engine.ptx.errors import PtxError
from gpuemu_lsp.engine.ptx.parser import parse

_BLOCK = (256, 1, 1)


def kernels_of(ptx: str, seen: set[str]) -> Iterator[tuple[str, CompiledKernel | None, str]]:
    """Yield the name and translation of each new kernel of a module; None and the error if translation fails."""
    module = parse(ptx)
    for name, function in module.functions.items():
        if not function.is_entry or function.body is None or name in seen:
            continue
        seen.add(name)
        try:
            kernel = CompiledKernel(module, name)
            kernel.specialised(_BLOCK)
            kernel.scalar_pc(_BLOCK)
        except (TranslationError, RecursionError) as error:
            yield name, None, str(error)
        else:
            yield name, kernel, ""


def unsupported(kernel: CompiledKernel) -> set[str]:
    """Return the unsupported opcodes of a kernel."""
    found = set()
    for block in kernel.program.blocks:
        found |= {one.name for one in block.code if not runnable(one)}
        if isinstance(block.terminator, Trap) and block.terminator.rule == "engine/unsupported-instruction":
            found.add(f"{block.terminator.instruction.name} ({block.terminator.message})")
    return found


def main() -> None:
    """Count translated kernels and print unsupported instructions."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--part", type=shard, default=(1, 1), metavar="I/N", help="every N-th file, from the I-th")
    options = parser.parse_args()
    part, parts = options.part
    print("| repository | kernels | translated | without unsupported instructions |\n|---|---|---|---|")
    missing: dict[str, Counter[str]] = defaultdict(Counter)
    failed = []
    for repository in sorted(path for path in options.folder.iterdir() if path.is_dir()):
        seen: dict[str, set[str]] = defaultdict(set)
        translated = whole = 0
        for request in requests_of(repository, 1)[part - 1 :: parts]:
            artifact = prepare(request).artifact
            if artifact is None:
                continue
            try:
                with nothing_cached():
                    for name, kernel, why in kernels_of(artifact.ptx, seen[request.spec.source]):
                        translated += kernel is not None
                        opcodes = unsupported(kernel) if kernel is not None else set()
                        whole += kernel is not None and not opcodes
                        for opcode in opcodes:
                            missing[opcode][repository.name] += 1
                        if kernel is None:
                            failed.append(f"{repository.name} {Path(request.spec.source).name} {name}: {why}")
            except PtxError as error:
                failed.append(f"{repository.name} {Path(request.spec.source).name}: {error}")
        counted = sum(map(len, seen.values()))
        print(f"| {repository.name} | {counted} | {translated} | {whole} |", flush=True)
    for opcode, where in sorted(missing.items()):
        print(f"unsupported: {opcode}: {dict(where)}")
    print("\n".join(failed))
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
