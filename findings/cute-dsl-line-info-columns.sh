#!/usr/bin/env bash
# nvidia-cutlass-dsl 4.8.1: columns of .loc in generated PTX count from 0, lines from 1.
#
# Expected: columns that count from 1, as those of nvcc and Triton do: a statement behind four spaces is at column 5. In
# DWARF's line table, which ptxas makes of .loc, column 0 means that no column is known.
# Seen: the statement is at column 4, and a function that begins a line at column 0. A tool that underlines the column
# is one character to the left, and takes the first column of a line for none.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet nvidia-cutlass-dsl==4.8.1 numpy==2.3.5
cat > "$folder/columns.py" <<'PYTHON'
import re

import cutlass
import cutlass.cute as cute


@cute.kernel
def double(x: cute.Tensor):
    i, _, _ = cute.arch.thread_idx()
    x[i] = x[i] + x[i]  # four spaces before it


@cute.jit
def launch(x: cute.Tensor):
    double(x).launch(grid=(1, 1, 1), block=(32, 1, 1))


tensor = cute.runtime.make_fake_compact_tensor(cutlass.Float32, (32,))
text = cute.compile(launch, tensor, options="--keep-ptx --gpu-arch sm_80 --generate-line-info").__ptx__
text = text if "\n" in text else open(text).read()
with open(__file__) as source:
    line = next(number for number, code in enumerate(source, start=1) if "four spaces" in code)
columns = {int(column) for at, column in re.findall(r"\.loc\s+\d+\s+(\d+)\s+(\d+)", text) if int(at) == line}
print(f"columns of line {line}: {sorted(columns)}; the statement begins in column 5, counted from 1")
raise SystemExit(0 if min(columns) == 4 else 1)
PYTHON
cd "$folder" && "$folder/venv/bin/python" columns.py
