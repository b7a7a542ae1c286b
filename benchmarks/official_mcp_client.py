"""The official client of the Model Context Protocol against ``gpuemu mcp``, in both forms of the protocol.

    pip install mcp
    python benchmarks/official_mcp_client.py [--server .venv/bin/gpuemu] [--form auto|legacy ...]

Lists and calls every tool (the client checks each result against the tool's schema), reads resources, cancels a call,
uses a budget up, and kills the server in a call. Ends with 1 if something is not as it should be. ``auto`` is revision
2026-07-28, ``legacy`` the handshake of 2025-11-25. Needs no package of this repository in the client's environment.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import anyio
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

KERNELS = Path(__file__).parent.parent / "kernels"
SCALE = (KERNELS / "memory" / "scale.cu").read_text()
PAST_THE_END = (KERNELS / "memory" / "off_by_one_buggy.cu").read_text()
RACE = str(KERNELS / "sync" / "scan_buggy.cu")
SLOW = {
    "scale.cu": SCALE,
    "ref.py": "import time\n\n\ndef reference(inputs):\n    time.sleep(300)\n",
    "gpuemu.toml": '[[kernels]]\nname = "scale"\nsource = "scale.cu"\nreference = "ref.py"\n'
    'dims.n = { min = 1, max = 32 }\nargs = { x = { in = ["n"] }, y = { out = ["n"] }, n = "n" }\n'
    "launch = { grid = 1, block = 32 }\n",
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", default="gpuemu", help="the command gpuemu")
    parser.add_argument("--form", nargs="*", default=["auto", "legacy"])
    options = parser.parse_args()
    wrong = [fault for form in options.form for fault in asyncio.run(session(options.server, form))]
    wrong += asyncio.run(killed(options.server))
    print("\n".join(wrong) or "all as it should be")
    return bool(wrong)


def server(command: str, folder: str) -> Any:
    return stdio_client(StdioServerParameters(command=str(Path(command).absolute()), args=["mcp"], cwd=folder))


async def session(command: str, form: str) -> list[str]:
    """Return what is wrong in a session with every tool."""
    wrong: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "mine.cu").write_text(SCALE)
        async with Client(server(command, folder), mode=form) as client:
            tools = {tool.name for tool in (await client.list_tools()).tools}
            uncalled = set(tools)

            async def call(tool: str, **arguments: Any) -> dict[str, Any]:
                uncalled.discard(tool)
                began = time.monotonic()
                result = await client.call_tool(tool, arguments)
                said = result.structured_content or {"error": result.content[0].text}
                print(f"{form}: {tool}: {time.monotonic() - began:.2f} s: {json.dumps(said)[:100]}", flush=True)
                return said

            def expect(what: str, holds: bool) -> None:
                if not holds:
                    wrong.append(f"{form}: {what}")

            steps: list[tuple[float, float | None]] = []

            async def progress(done: float, total: float | None, message: str | None) -> None:
                steps.append((done, total))

            uncalled.discard("check")
            checked = await client.call_tool("check", {"path": RACE}, progress_callback=progress)
            expect("check of a race is unsafe", checked.structured_content["verdict"] == "unsafe")
            expect("progress is sent and ends with all kernels", bool(steps) and steps[-1] == (1, 1))
            identity = checked.structured_content["findings"][0]["id"]
            explained = await call("explain", id=identity)
            expect("explain has both threads", len(explained["explanations"][0]["chains"]) == 2)
            expect("minimize", "minimized" in await call("minimize", id=identity))
            expect("reproduce", (await call("reproduce", id=identity))["replays"][0]["verdict"] == "still fails")
            compared = await call("compare", before={"source": SCALE}, after={"source": SCALE})
            expect("compare", compared["verdict"] == "same")
            judged = await call("judge", answer_source="class ModelNew: pass\n")
            expect("judge says why not", "no task was found" in judged.get("error", ""))
            expect("coverage", (await call("coverage", source=SCALE))["percent"] == 100)
            expect("counters", bool((await call("counters", source=SCALE))["kernels"]))
            expect("kernels", bool((await call("kernels", path=RACE))["kernels"]))
            expect("ptx", bool((await call("ptx", source=SCALE, line=5))["lines"]))
            expect("register", (await call("register", path="mine.cu", kernel="scale"))["kernel"] == "scale")
            many = "".join(PAST_THE_END.replace("off_by_one", f"kernel_{number}") for number in range(12))
            rest = (await call("check", source=many))["rest"]
            expect("more", bool((await call("more", cursor=rest[0]["cursor"]))["items"]))
            expect(f"every tool was called, not {uncalled}", not uncalled)

            rule = await client.read_resource("gpuemu://rules/memory/shared-race")
            expect("a rule can be read", "shared-race" in rule.contents[0].text)
            expect("resources are listed", len((await client.list_resources()).resources) > 50)

            began = time.monotonic()
            late = await call("check", files=SLOW, budget=2)
            expect("a budget ends a call", time.monotonic() - began < 10)
            expect("which is then not checked", late["verdict"] == "not-checked" and bool(late["did_not_run"]))
            with anyio.move_on_after(2) as scope:
                await client.call_tool("check", {"files": SLOW})
            expect("a call can be cancelled", scope.cancelled_caught)
            # A kernel without the code that launches it is run as guessed, and stays without a verdict.
            last = await call("check", source=SCALE)
            expect("and the next one is answered", last["verdict"] == "not-checked" and "1 of 1" in last["summary"])
            servers = descendants(os.getpid())
        expect("no process is left", await gone(servers))
    return wrong


async def killed(command: str) -> list[str]:
    """Return what is wrong after a server was killed in a call."""
    with tempfile.TemporaryDirectory() as folder:
        caught = ""
        processes: set[int] = set()
        try:
            async with Client(server(command, folder), mode="auto") as client, anyio.create_task_group() as group:

                async def kill() -> None:
                    await anyio.sleep(3)
                    processes.update(descendants(os.getpid()))
                    (first,) = (pid for pid in processes if parent(pid) == os.getpid())
                    os.kill(first, signal.SIGKILL)

                group.start_soon(kill)
                await client.call_tool("check", {"files": SLOW})
        except BaseException as error:
            caught = repr(error)
        print(f"killed: the client got {caught[:100]}")
        wrong = [] if caught else ["killed: the client got no error"]
        return wrong if await gone(processes) else [*wrong, "killed: processes are left"]


def descendants(root: int) -> set[int]:
    parents = {int(path.name): parent(int(path.name)) for path in Path("/proc").iterdir() if path.name.isdigit()}
    known = {root}
    while more := {pid for pid, above in parents.items() if above in known} - known:
        known |= more
    return known - {root}


def parent(pid: int) -> int:
    try:
        return int((Path("/proc") / str(pid) / "stat").read_text().rsplit(")", 1)[1].split()[1])
    except OSError:
        return 0


async def gone(processes: set[int]) -> bool:
    for _ in range(100):
        if not {pid for pid in processes if parent(pid)}:
            return True
        await anyio.sleep(0.1)
    return False


if __name__ == "__main__":
    sys.exit(main())
