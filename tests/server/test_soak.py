"""Soak test: random edits, saves, undos, renames, invalid configurations and cancels across many kernels.

``GPUEMU_SOAK_SECONDS`` is its duration (default 3, full run 180). Hover latency is printed; only the full run, on an
otherwise idle machine, asserts its limit.
"""

from __future__ import annotations

import asyncio
import os
import random
import time

from support.lsp_editor import Editor
from support.processes import alive, descendants, resident_mb
from support.server_kernels import GOOD, TOML, WRONG, write

SECONDS = float(os.environ.get("GPUEMU_SOAK_SECONDS", "3"))
FULL = 120.0
KERNELS = 20
BROKEN = GOOD.replace("2.0f * x[i]", "nowhere")


def _toml(count: int) -> str:
    return "\n".join(TOML.replace('"scale"', f'"k{i}"').replace("scale.cu", f"k{i}.cu") for i in range(count))


def _source(text: str, index: int) -> str:
    return text.replace("scale", f"k{index}")


async def test_the_server_keeps_answering_and_ends_with_correct_results(editor: Editor):
    random_ = random.Random(20251121)
    write(editor.root)
    (editor.root / "gpuemu.toml").write_text(_toml(KERNELS), encoding="utf-8")
    texts = {}
    for index in range(KERNELS):
        texts[index] = _source(GOOD, index)
        (editor.root / f"k{index}.cu").write_text(texts[index], encoding="utf-8")
    await editor.start()
    editor.open("gpuemu.toml")
    for index in range(KERNELS):
        editor.open(f"k{index}.cu")
    await editor.idle()
    server = editor.client._server.pid
    start_mb = resident_mb(server)
    hovers: list[float] = []
    deadline = time.monotonic() + SECONDS
    operations = 0
    while time.monotonic() < deadline:
        operations += 1
        index = random_.randrange(KERNELS)
        name = f"k{index}.cu"
        what = random_.choice(("edit", "edit", "save", "save", "undo", "rename", "config", "cancel", "hover"))
        if what == "edit":
            editor.replace(name, _source(random_.choice((GOOD, WRONG, BROKEN)), index))
        elif what == "save":
            editor.save(name, _source(random_.choice((GOOD, WRONG, BROKEN)), index))
        elif what == "undo":
            editor.replace(name, texts[index])
        elif what == "rename":
            editor.close(name)
            editor.open(name, texts[index])
        elif what == "config":
            editor.save("gpuemu.toml", random_.choice((_toml(KERNELS), _toml(KERNELS) + "\n[kernels", _toml(3))))
        elif what == "cancel":
            await editor.command("gpuemu.cancel")
        started = time.monotonic()
        await editor.hover(name, 0, GOOD.index("scale"))
        hovers.append(time.monotonic() - started)
        await asyncio.sleep(random_.choice((0.0, 0.05, 0.3)))
    editor.save("gpuemu.toml", _toml(KERNELS))
    for index in range(KERNELS):
        text = (GOOD, WRONG, BROKEN)[index % 3]
        editor.save(f"k{index}.cu", _source(text, index))
    await editor.command("gpuemu.checkAll")
    await asyncio.wait_for(editor.client.protocol.send_request_async("gpuemu/waitForIdle", {}), 240)
    wanted = [set(), {"numeric/tolerance-exceeded"}, {"compile/error"}]
    assert [editor.codes(f"k{index}.cu") for index in range(KERNELS)] == [wanted[i % 3] for i in range(KERNELS)]
    assert editor.found("gpuemu.toml") == []
    await editor.until(lambda: editor.progress.count("begin") == editor.progress.count("end"))
    hovers.sort()
    p99 = hovers[int(0.99 * (len(hovers) - 1))]
    grown = resident_mb(server) / start_mb
    print(f"{operations} operations, hover p99 {1e3 * p99:.0f} ms, memory {grown:.2f} of its start")  # noqa: T201
    if SECONDS >= FULL:
        assert p99 < 0.1
        assert grown < 1.2
    pids = descendants(server)
    await editor.client.shutdown_session()
    await editor.until(lambda: not alive(pids))
    editor.client.capabilities = None
