"""A check is repeated where what it runs has changed, and nowhere else; findings follow their lines."""

from __future__ import annotations

from pathlib import Path

import pytest
from lsprotocol import types
from support.lsp_editor import Editor

SOURCE = """\
#include "util.cuh"

__device__ float tripled(float v) { return v + v + v; }

__global__ void first(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] = tripled(x[i]);  // numeric
}

__global__ void second(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float v = x[i + 1];  // outside
        y[i] = doubled(v);
    }
}

template <typename T>
__global__ void third(const T* x, T* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = T(2) * x[i];
}
"""
HEADER = """\
#pragma once
__device__ inline float doubled(float v) { return 2.0f * v; }
"""
TOML = """\
[[kernels]]
name = "first"
source = "pair.cu"
reference = "ref.py"
entry = "first"
dims = { n = { max = 300 } }
args = { x = { in = ["n"] }, y = { out = ["n"] }, n = "n" }
launch = { grid = ["ceil_div(n, 64)"], block = [64] }

[[kernels]]
name = "second"
like = "first"
entry = "second"

[[kernels]]
name = "third"
like = "first"
entry = "third<float>"
"""
REFERENCE = "from factors import FACTOR\n\n\ndef reference(inputs):\n    return FACTOR * inputs['x']\n"
FACTORS = "FACTOR = 2.0\n"
ALL = {"first", "second", "third"}


class Session:
    """An editor with the file open, which counts by the server's log what runs."""

    def __init__(self, editor: Editor) -> None:
        self.editor = editor
        self.read = 0
        self.text = SOURCE

    async def start(self) -> None:
        root = self.editor.root
        contents = {
            "pair.cu": SOURCE,
            "util.cuh": HEADER,
            "gpuemu.toml": TOML,
            "ref.py": REFERENCE,
            "factors.py": FACTORS,
        }
        for name, text in contents.items():
            (root / name).write_text(text, encoding="utf-8")
        await self.editor.start()
        self.editor.open("pair.cu")
        assert await self.ran() == ALL
        self.right_lines()

    async def ran(self) -> set[str]:
        """Wait until the server is idle; return the kernels whose cases ran since the last call."""
        await self.editor.idle()
        lines = [item.message for item in self.editor.client.log_messages[self.read :]]
        self.read += len(lines)
        results = [line for line in lines if line.split(":")[0] in ALL]
        return {line.split(":")[0] for line in results if not line.endswith("code unchanged since an earlier check")}

    async def save(self, text: str) -> set[str]:
        assert text != self.text
        self.text = text
        self.editor.save("pair.cu", text)
        ran = await self.ran()
        self.right_lines()
        return ran

    async def write(self, name: str, text: str) -> set[str]:
        """Change another file of the project, as an editor that saves it does."""
        (self.editor.root / name).write_text(text, encoding="utf-8")
        if name not in self.editor.versions:
            self.editor.open(name)
        self.editor.save(name, text)
        return await self.ran()

    async def as_if_run(self) -> None:
        """Assert that a check that runs everything shows what is shown now."""
        shown = self.editor.last("pair.cu").diagnostics
        await self.editor.command("gpuemu.check", self.editor.uri("pair.cu"))
        assert await self.ran() == ALL
        assert list(map(_content, self.editor.last("pair.cu").diagnostics)) == list(map(_content, shown))

    def right_lines(self) -> None:
        """Assert that both findings are on their lines, with the kernel's name as a related place."""
        lines = self.text.split("\n")
        found = {str(item.code): item for item in self.editor.found("pair.cu")}
        assert set(found) == {"numeric/tolerance-exceeded", "memory/out-of-bounds"}
        wrong, outside = found["numeric/tolerance-exceeded"], found["memory/out-of-bounds"]
        assert "tripled" in lines[wrong.range.start.line]
        assert "x[i + 1]" in lines[outside.range.start.line]
        (kernel,) = [item.location.range.start.line for item in wrong.related_information or []]
        assert "first" in lines[kernel]
        assert self.editor.last("pair.cu").version == self.editor.versions["pair.cu"]


def _content(item: types.Diagnostic) -> tuple[object, ...]:
    related = [(one.location.range, one.message) for one in item.related_information or []]
    return item.code, item.message, item.range, item.severity, related


@pytest.fixture
async def session(editor: Editor) -> Session:
    one = Session(editor)
    await one.start()
    return one


async def test_a_comment_above_runs_nothing(session: Session):
    assert await session.save("// a comment\n" + session.text) == set()


async def test_a_comment_between_and_inside_runs_nothing(session: Session):
    text = session.text.replace("__global__ void second", "// between\n/* and\n   more */\n__global__ void second")
    assert await session.save(text.replace("        float v", "        // inside\n        float v")) == set()
    await session.as_if_run()


async def test_a_blank_line_runs_nothing_and_neither_does_its_removal(session: Session):
    text = session.text
    assert await session.save(text.replace("    if (i < n)\n", "\n\n    if (i < n)\n")) == set()
    assert await session.save(text) == set()


async def test_reformatting_runs_nothing(session: Session):
    text = session.text.replace("    if (i < n)\n        y[i] = ", "    if (i < n) { y[i] = ")
    text = text.replace("tripled(x[i]);  // numeric\n", "tripled(x[i]);  // numeric\n    }\n")
    assert await session.save(text.replace("    int i", "  int   i")) == set()
    await session.as_if_run()


async def test_an_edit_of_one_kernel_runs_no_other(session: Session):
    assert await session.save(session.text.replace("T(2) * x[i]", "T(4) * x[i] * T(0.5)")) == {"third"}
    added = "\n__global__ void another(float* x) { x[threadIdx.x] = 1.0f; }\n"
    assert (
        await session.save(session.text.replace("\n__global__ void first", added + "\n__global__ void first")) == set()
    )


async def test_an_edit_of_a_device_function_runs_its_callers(session: Session):
    assert await session.save(session.text.replace("return v + v + v;", "return 3.5f * v;")) == {"first"}


async def test_an_edit_of_a_header_runs_its_users(session: Session):
    assert await session.write("util.cuh", "// comment\n" + HEADER) == set()
    session.right_lines()
    assert await session.write("util.cuh", HEADER.replace("2.0f * v", "2.5f * v")) == {"second"}


async def test_a_finding_in_a_header_follows_its_line(session: Session):
    header = HEADER.replace("return 2.0f * v;", "\n    __shared__ float s[2];\n    return s[threadIdx.x & 1] * v;\n")
    assert await session.write("util.cuh", header) == {"second"}
    for moved in (header, "// one\n\n" + header):
        if moved != header:
            assert await session.write("util.cuh", moved) == set()
        (line,) = {item.range.start.line for item in session.editor.found("util.cuh")}
        assert "s[threadIdx.x & 1]" in moved.split("\n")[line]


async def test_an_edit_of_the_reference_or_of_its_modules_runs_everything(session: Session):
    assert await session.write("ref.py", REFERENCE + "# a comment\n") == ALL
    assert await session.write("factors.py", "FACTOR = 2.0  # a comment\n") == ALL
    assert await session.save("// a comment\n" + session.text) == set()


async def test_an_edit_of_data_that_the_reference_reads_runs_everything(session: Session):
    (session.editor.root / "factor.txt").write_text("2.0", encoding="utf-8")
    reference = "from pathlib import Path\n\n\ndef reference(inputs):\n"
    reference += "    return float(Path(__file__).with_name('factor.txt').read_text()) * inputs['x']\n"
    assert await session.write("ref.py", reference) == ALL
    (session.editor.root / "factor.txt").write_text("2.000", encoding="utf-8")
    assert await session.save("// a comment\n" + session.text) == ALL


async def test_an_edit_of_the_configuration_runs_what_it_concerns(session: Session):
    assert await session.write("gpuemu.toml", "# a comment\n\n" + TOML) == set()
    limits = TOML.replace('name = "third"\n', 'name = "third"\nartifact_checks = { max_registers = 200 }\n')
    assert await session.write("gpuemu.toml", limits) == set()
    dims = limits.replace('name = "third"\n', 'name = "third"\ndims = { n = { max = 200 } }\n')
    assert await session.write("gpuemu.toml", dims) == {"third"}


async def test_a_command_always_runs(session: Session):
    await session.editor.command("gpuemu.check", session.editor.uri("pair.cu"))
    assert await session.ran() == ALL
    await session.editor.command("gpuemu.fuzz", session.editor.uri("pair.cu"))
    assert await session.ran() == ALL
    assert await session.save("// a comment\n" + session.text) <= ALL  # the deep check may have stored other cases


async def test_a_suppression_comment_takes_effect(session: Session):
    editor = session.editor
    editor.save("pair.cu", SOURCE.replace("// numeric", "// gpuemu: ignore[numeric/tolerance-exceeded]"))
    assert await session.ran() == {"first"}
    assert editor.codes("pair.cu") == {"memory/out-of-bounds"}


async def test_a_kernel_that_does_not_compile_stops_no_other(session: Session):
    broken = session.text.replace("T(2) * x[i]", "x[i].missing")
    session.editor.save("pair.cu", broken)
    assert await session.ran() == {"third"}
    assert session.editor.codes("pair.cu") == {"compile/error", "numeric/tolerance-exceeded", "memory/out-of-bounds"}


async def test_a_check_that_a_time_limit_ended_is_repeated(editor: Editor, tmp_path: Path):
    text = "__global__ void spin(float* x, int n) {\n    while (n > 0) x[0] += 1.0f;\n}\n"
    text += "__global__ void other(float* x, int n) { if (threadIdx.x < n) x[threadIdx.x] = 1.0f; }\n"
    (editor.root / "k.cu").write_text(text, encoding="utf-8")
    await editor.start()
    editor.open("k.cu")
    await editor.idle()
    before = len(editor.client.log_messages)
    editor.save("k.cu", "// a comment\n" + text)
    await editor.idle()
    lines = [item.message for item in editor.client.log_messages[before:]]
    assert not [line for line in lines if line.startswith("spin:") and "unchanged" in line]
    assert [line for line in lines if line.startswith("other:") and "unchanged" in line]
