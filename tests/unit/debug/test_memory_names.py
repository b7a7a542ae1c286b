"""Names and values of elements of memory."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from gpuemu_lsp.engine.debug.memory_names import Format, MemoryNames
from gpuemu_lsp.engine.emulator.launch.recorder import MemoryPicture


def test_elements_that_are_accessed_as_one_word_are_shown_one_by_one():
    values = np.array([1.0, -0.5, 2.0, 0.25], dtype=np.float16)
    picture = MemoryPicture("x", "buffer", 4096, 2, values.view(np.uint8), np.zeros(8, np.uint8))
    accesses: Any = SimpleNamespace(picture=lambda address: picture if 4096 <= address < 4104 else None)
    names = MemoryNames(SimpleNamespace(), accesses, {"x": Format(np.dtype("<f2"))})  # type: ignore[arg-type]
    pair, four = int(values[2:].view("<u4")[0]), int(values.view("<u8")[0])
    assert names.value(4100, 4, pair, 0) == "{2.0, 0.25}" and names.name(4100, 4) == "x[2]"
    assert names.value(4096, 8, four, 0) == "{1.0, -0.5, 2.0, 0.25}"
    assert names.value(4098, 2, int(values[1:2].view("<u2")[0]), 0) == -0.5
