"""The library's side of the messages: its compiler reads the generated header, and both sides read the same bytes."""

from __future__ import annotations

import subprocess
from pathlib import Path

from support.nvcc import required_nvcc

from gpuemu_lsp.engine.runtime.protocol import messages
from gpuemu_lsp.engine.runtime.protocol.calls import (
    CopyCall,
    CopyDirection,
    HostWait,
    LaunchCall,
    MatrixOperand,
    ProductCall,
    TensorMapCall,
    WatchedPages,
)
from gpuemu_lsp.engine.runtime.protocol.cpp import messages_header
from gpuemu_lsp.engine.runtime.protocol.records import CallStack, Frame, SourceLine, decode, encode
from gpuemu_lsp.engine.runtime.shim import SOURCES

PROGRAM = r"""
#include "messages.h"
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
using namespace gpuemu;

CallStack CallStack::here() { return {{{0x1234, "/bin/program"}, {5, "/lib/other.so"}}, {12, "/script.py"}}; }

template <class Request>
void write(const char* path, const Request& request) {
    Writer to(Request::OPERATION);
    put(to, request);
    std::ofstream(path, std::ios::binary).write(to.bytes.data(), std::streamsize(to.bytes.size()));
}

template <class Answer>
Answer read(const char* path) {
    std::ifstream file(path, std::ios::binary);
    std::string body((std::istreambuf_iterator<char>(file)), {});
    Reader from{body.data()};
    Answer answer;
    get(from, answer);
    if (from.at != body.data() + body.size()) abort();
    return answer;
}

int main() {
    auto at = [](uint64_t address) { return reinterpret_cast<const void*>(address); };
    message::MatrixOperand operand{14, -3, int64_t(1) << 40, true, at(64)};
    write("Copy", message::Copy{{at(1), 2, at(3), 4, 5, 6, 7, HostWait::NEVER, CopyDirection::DEVICE_TO_HOST,
                                 Bytes("\0\1", 2)}});
    write("LaunchKernel", message::LaunchKernel{{1, dim3(2, 3, 4), dim3(5, 6, 7), dim3(0, 0, 0), 8, 9, Bytes("abc")}});
    write("Multiply", message::Multiply{{0, 1, 2, 3, 4, 5, 6, 7, 1.5, -2, 3e300, 0, operand, operand, operand, operand,
                                         operand, operand}});
    write("EncodeTensorMap", message::EncodeTensorMap{{7, 2, at(16), 0, 3, 1, true, {64, 32}, {128}, {}, {1, 1}}});
    auto kernel = read<message::KernelFound>("KernelFound");
    printf("%d %d %u %u %u %d\n", int(kernel.kernel), int(kernel.most_threads), kernel.cluster.x, kernel.cluster.y,
           kernel.cluster.z, int(kernel.parameters[1].offset));
    auto copied = read<message::Copied>("Copied");
    printf("%d %d %d\n", copied.holds, int(copied.watched[1].size), copied.watched[1].readable);
    printf("%s\n", read<message::TensorMapEncoded>("TensorMapEncoded").record.c_str());
}
"""
OPERAND = MatrixOperand(14, -3, 1 << 40, True, 64)
FRAMES = Frame(0x1234, b"/bin/program"), Frame(5, b"/lib/other.so")
STACK = CallStack(b"".join(map(encode, (SourceLine(12, b"/script.py"), *FRAMES))))
REQUESTS = (
    messages.Copy(CopyCall(1, 2, 3, 4, 5, 6, 7, HostWait.NEVER, CopyDirection.DEVICE_TO_HOST, b"\0\1"), STACK),
    messages.LaunchKernel(LaunchCall(1, (2, 3, 4), (5, 6, 7), (0, 0, 0), 8, 9, b"abc"), STACK),
    messages.Multiply(ProductCall(0, 1, 2, 3, 4, 5, 6, 7, 1.5, -2.0, 3e300, 0.0, *[OPERAND] * 6), STACK),
    messages.EncodeTensorMap(TensorMapCall(7, 2, 16, 0, 3, 1, True, (64, 32), (128,), (), (1, 1)), STACK),
)
ANSWERS = (
    messages.KernelFound(3, 24, 0, 8, 512, (2, 1, 4), (messages.ParameterPlace(0, 8), messages.ParameterPlace(8, 4))),
    messages.Copied(0, holds=True, watched=(WatchedPages(4096, 8192, True), WatchedPages(0, 77, False))),
    messages.TensorMapEncoded(0, b"the map"),
)


def test_both_sides_read_what_the_other_has_written(tmp_path: Path) -> None:
    include = required_nvcc() / "include"
    (tmp_path / "messages.h").write_text(messages_header())
    (tmp_path / "main.cpp").write_text(PROGRAM)
    for answer in ANSWERS:
        (tmp_path / type(answer).__name__).write_bytes(encode(answer))
    command = ["g++", "-std=c++17", "-Wall", "-Werror", "-Wno-unused-parameter", f"-I{SOURCES}", f"-I{include}"]
    subprocess.run([*command, "main.cpp", "-o", "main"], cwd=tmp_path, check=True)
    done = subprocess.run([str(tmp_path / "main")], cwd=tmp_path, check=True, capture_output=True, text=True)
    assert done.stdout.splitlines() == ["3 512 2 1 4 8", "1 77 0", "the map"]
    for request in REQUESTS:
        written = (tmp_path / type(request).__name__).read_bytes()
        assert int.from_bytes(written[:4], "little") == messages.MESSAGES.index(type(request))
        assert decode(type(request), written[8:]) == request
