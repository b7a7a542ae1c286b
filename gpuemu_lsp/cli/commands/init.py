"""``gpuemu init``: a gpuemu.toml that registers the existing kernels, or an example that passes."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

from gpuemu_lsp.cli.commands.init_ops import FRAMEWORKS, op_files
from gpuemu_lsp.cli.output import print_out
from gpuemu_lsp.engine.jobs.requests.targets import collect
from gpuemu_lsp.engine.kernel_names import plain_name
from gpuemu_lsp.engine.project.load import CONFIG_NAME
from gpuemu_lsp.engine.project.message_text import toml
from gpuemu_lsp.engine.report.exit_codes import EXIT_CLEAN, EXIT_USAGE
from gpuemu_lsp.engine.report.text import count
from gpuemu_lsp.engine.subjects.request import CheckOptions

_CONFIG = """\
# The kernels to check, and their references. All keys: docs/config.md of gpuemu-lsp.

[project]
name = {name}

[[kernels]]
name = "gelu"
source = "kernels/gelu.cu"
reference = "kernels/ref_gelu.py"

# The tables below are optional: they are inferred from the kernel's signature.
[kernels.dims]
n = {{ min = 1, max = 4096 }}

[kernels.args]
x = {{ in = ["n"] }}
y = {{ out = ["n"] }}
n = "n"

[kernels.launch]
grid = "ceil_div(n, 256)"
block = 256

[kernels.artifact_checks]
max_registers = 32
max_spills = 0
"""

_KERNEL = """\
// gelu(x) = x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3)))
__global__ void gelu(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float v = x[i];
        y[i] = 0.5f * v * (1.0f + tanhf(0.7978845608f * (v + 0.044715f * v * v * v)));
    }
}
"""

_REFERENCE = '''\
import numpy as np


def reference(inputs, **kwargs):
    """Return the expected output of gelu.cu. The inputs are the kernel's, converted to fp64."""
    x = inputs["x"]
    return 0.5 * x * (1.0 + np.tanh(np.sqrt(2.0 / np.pi) * (x + 0.044715 * x**3)))
'''


_HEADER = """\
# The kernels to check, and their references. All keys: docs/config.md of gpuemu-lsp.

[project]
name = {name}

# Without a reference a kernel runs under the memory and synchronisation checkers only. To check its numbers too, write
# a function reference(inputs, **kwargs) in NumPy that returns the correct outputs, and name its file.
"""


def init(folder: Path, name: str | None, framework: str | None = None) -> int:
    """Write the files; write none if one of them exists. With a framework the example is an op of it."""
    title = name or folder.absolute().name or "my-project"
    if (folder / CONFIG_NAME).exists() or (folder / CONFIG_NAME).is_symlink():
        print(f"gpuemu: {folder / CONFIG_NAME} already exists; nothing was written.", file=sys.stderr)
        return EXIT_USAGE
    kernels = [] if framework is not None else _kernels(folder)
    if framework is not None:
        files = {folder / path: text for path, text in op_files(toml(title), FRAMEWORKS[framework]).items()}
    elif kernels:
        files = {folder / CONFIG_NAME: _HEADER.format(name=toml(title)) + "".join(kernels)}
    else:
        files = {
            folder / CONFIG_NAME: _CONFIG.format(name=toml(title)),
            folder / "kernels" / "gelu.cu": _KERNEL,
            folder / "kernels" / "ref_gelu.py": _REFERENCE,
        }
    present = [path for path in files if path.exists() or path.is_symlink()]
    if present:
        names = ", ".join(map(str, present))
        print(f"gpuemu: {names} already exists; nothing was written.", file=sys.stderr)
        return EXIT_USAGE
    try:
        for path, text in files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("x", encoding="utf-8") as file:
                file.write(text)
    except OSError as error:
        print(f"gpuemu: {error.filename}: {error.strerror or error}", file=sys.stderr)
        return EXIT_USAGE
    summary = "".join(f"Wrote {path}\n" for path in files)
    if kernels:
        summary += f"Registered {count(len(kernels), 'kernel')}, none with a reference yet.\n"
    print_out(summary + f"Try: gpuemu test{'' if folder == Path() else f' {shlex.quote(str(folder))}'}\n")
    return EXIT_CLEAN


def _kernels(folder: Path) -> list[str]:
    """Return an entry for each kernel in the .cu files of a folder."""
    if not folder.is_dir():
        return []
    requests = collect([str(folder)], CheckOptions(execute=False), Path.cwd()).requests
    root = Path(os.path.normpath(Path.cwd() / folder))
    taken: set[str] = set()
    entries = []
    for request in requests:
        spec = request.spec
        function = spec.entry or spec.name
        base = plain_name(function)
        stem = Path(spec.source).stem
        choices = (base, f"{stem}_{base}", *(f"{stem}_{base}_{number}" for number in range(2, 1000)))
        name = next(choice for choice in choices if choice not in taken)
        taken.add(name)
        source = Path(spec.source).relative_to(root).as_posix()
        lines = ["", "[[kernels]]", f"name = {toml(name)}", f"source = {toml(source)}"]
        if function != name:
            lines.append(f"entry = {toml(function)}")
        lines.append(f"# reference = {toml(f'ref_{name}.py')}")
        entries.append("\n".join(lines) + "\n")
    return entries
