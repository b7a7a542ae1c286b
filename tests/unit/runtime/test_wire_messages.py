"""The messages of the runtime library: what is written is read, and what cannot be read is refused."""

from __future__ import annotations

import pytest

from gpuemu_lsp.engine.runtime.protocol import messages
from gpuemu_lsp.engine.runtime.protocol.calls import (
    CopyCall,
    CopyDirection,
    HostWait,
    LaunchCall,
    MatrixOperand,
    MemoryKind,
    MemoryRows,
    ProductCall,
    TensorMapCall,
    WatchedPages,
)
from gpuemu_lsp.engine.runtime.protocol.cpp import messages_header
from gpuemu_lsp.engine.runtime.protocol.records import (
    CallStack,
    Frame,
    MessageError,
    SourceLine,
    calls_of,
    decode,
    encode,
)

FRAMES = (Frame(0x1234, b"/bin/program"), Frame(5, "/lib/\u00e4.so".encode()))
LINE = SourceLine(12, b"/script.py")
STACK = CallStack(b"".join(map(encode, (LINE, *FRAMES))))
OPERAND = MatrixOperand(14, -3, 1 << 40, True, 0x5E3D_0000_0100)

RECORDS = [
    messages.LoadModule(3, ".version 8.0\0.version 8.1"),
    messages.Allocate(1 << 33, MemoryKind.PINNED, STACK),
    messages.Copy(CopyCall(1, 2, 3, 4, 5, 6, 7, HostWait.NEVER, CopyDirection.DEFAULT, b"\0\1"), STACK),
    messages.LaunchKernel(LaunchCall(1, (2, 3, 4), (5, 6, 7), (0, 0, 0), 8, 9, b"parameters"), CallStack()),
    messages.Multiply(
        ProductCall(0, 1, 2, 3, 4, 5, 6, 7, 1.5, -0.0, float("inf"), 1e-300, *[OPERAND] * 6), CallStack()
    ),
    messages.EncodeTensorMap(TensorMapCall(7, 2, 16, 0, 3, 0, True, (64, 32), (128,), (), (1, 1)), STACK),
    messages.ErrorsChecked(),
    messages.ExecuteOperator("aten::add", 1, (MemoryRows(256, 8, 4, 3),), (), (64,), STACK),
    messages.KernelFound(1, 24, 0, 8, 1024, (2, 1, 1), (messages.ParameterPlace(0, 8), messages.ParameterPlace(8, 4))),
    messages.Copied(0, holds=True, watched=(WatchedPages(4096, 8192, readable=True), WatchedPages(0, 1, False))),
    messages.TensorMapEncoded(0, bytes(range(128))),
]


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: type(record).__name__)
def test_a_record_is_read_as_it_was_written(record):
    assert decode(type(record), encode(record)) == record


def test_a_call_stack_has_the_line_and_the_frames_that_were_written():
    assert calls_of(STACK) == (LINE, list(FRAMES))


@pytest.mark.parametrize("record", RECORDS[:6], ids=lambda record: type(record).__name__)
def test_a_message_that_is_cut_is_refused(record):
    fixed = len(encode(record)) - len(getattr(record, "calls", b""))
    for size in range(fixed):
        with pytest.raises(MessageError):
            decode(type(record), encode(record)[:size])


def test_a_message_with_more_than_its_fields_or_other_values_is_refused():
    with pytest.raises(MessageError, match="16 bytes instead of 8"):
        decode(messages.AllocateAgain, bytes(16))
    with pytest.raises(MessageError, match="9 is not a valid WaitScope"):
        decode(messages.Query, (9).to_bytes(8, "little") + bytes(8))
    with pytest.raises(MessageError):
        calls_of(CallStack(STACK[:-1]))
    with pytest.raises(MessageError, match="a file that cannot be"):
        calls_of(CallStack(encode(LINE) + encode(Frame(0, b"a\0b"))))


def test_every_request_has_an_operation_of_its_own():
    header = messages_header()
    for operation, request in enumerate(messages.MESSAGES):
        assert f"struct {request.__name__} {{\n    static constexpr uint32_t OPERATION = {operation};" in header
    assert len(set(messages.MESSAGES)) == len(messages.MESSAGES)
