"""Coding agents as LSP clients of gpuemu-lsp: real ones, driven by a scripted model on this machine.

    mkdir agents && npm install --prefix agents --ignore-scripts opencode-ai @anthropic-ai/claude-code
    python -m venv agents/serena && agents/serena/bin/pip install serena-agent
    python -m benchmarks.agent_clients agents [opencode] [claude] [serena]

Each agent opens a project with a wrong kernel, edits it so that it stays wrong, and then corrects it. For each edit its
states are printed, as the agent has received them; the exit code is 1 where a verdict is missing. No account is needed:
the model is a server on a loopback port, the agent's home a folder of its own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

WRONG_LINE, SAME_LINE, GOOD_LINE = (
    "    y[i] = 2.5f * x[i];",
    "    y[i] = 2.5f * x[i]; // why?",
    "    y[i] = 2.0f * x[i];",
)
_KERNEL = """extern "C" __global__ void scale(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
    y[i] = 2.5f * x[i];
}
"""
_PROJECT = """[[kernels]]
name = "scale"
source = "scale.cu"
reference = "ref.py"

[kernels.dims]
n = { min = 1, max = 600 }
[kernels.args]
x = { in = ["n"] }
y = { out = ["n"] }
n = "n"
[kernels.launch]
grid = "ceil_div(n, 128)"
block = 128
"""
_SECONDS = 240
_SERENA = """
from pathlib import Path
from solidlsp.ls import ProcessLaunchInfo, SolidLanguageServer
from solidlsp.ls_config import ExternalLanguageServerId, FilenameMatcher, LanguageServerConfig
from solidlsp.settings import SolidLSPSettings

class Gpuemu(SolidLanguageServer):
    def __init__(self, root):
        config = LanguageServerConfig(ExternalLanguageServerId("gpuemu", FilenameMatcher("*.cu"), Gpuemu))
        command = ProcessLaunchInfo(cmd=["gpuemu-lsp"], cwd=root)
        super().__init__(config, root, command, "cuda-cpp", SolidLSPSettings(project_data_path=root))

    def _create_base_initialize_params(self):
        return {"capabilities": {"textDocument": {"publishDiagnostics": {}, "diagnostic": {}}}}

    def _start_server(self):
        self.server.start()
        self.server.send.initialize(self._create_initialize_params())
        self.server.notify.initialized({})
"""


class Model:
    """A scripted model: it calls tools in order, one per request that offers any, and records what it is sent."""

    def __init__(self, steps: list[tuple[str, dict[str, Any]]]) -> None:
        self.steps = steps
        self.step = 0
        self.requests: list[dict[str, Any]] = []

    def next_call(self, body: dict[str, Any]) -> tuple[str, dict[str, Any]] | None:
        """Return the tool call that answers a request, None where the model has nothing more to do."""
        self.requests.append(body)
        if not body.get("tools") or self.step == len(self.steps):
            return None
        self.step += 1
        return self.steps[self.step - 1]


def _openai(call: tuple[str, dict[str, Any]] | None, number: int) -> Iterator[tuple[str | None, dict[str, Any]]]:
    delta: dict[str, Any] = {"role": "assistant", "content": "done"}
    if call is not None:
        function = {"name": call[0], "arguments": json.dumps(call[1])}
        delta = {"role": "assistant", "tool_calls": [{"index": 0, "id": f"c{number}", "type": "function"}]}
        delta["tool_calls"][0]["function"] = function
    for part, reason in ((delta, None), ({}, "stop" if call is None else "tool_calls")):
        choice = {"index": 0, "delta": part, "finish_reason": reason}
        yield None, {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}


def _anthropic(call: tuple[str, dict[str, Any]] | None, number: int) -> Iterator[tuple[str | None, dict[str, Any]]]:
    usage = {"input_tokens": 1, "output_tokens": 1}
    message = {"id": "m", "type": "message", "role": "assistant", "model": "m", "content": [], "usage": usage}
    block: dict[str, Any] = {"type": "text", "text": ""}
    delta: dict[str, Any] = {"type": "text_delta", "text": "done"}
    if call is not None:
        block = {"type": "tool_use", "id": f"toolu_{number}", "name": call[0], "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(call[1])}
    stop = {"stop_reason": "end_turn" if call is None else "tool_use"}
    yield "message_start", {"message": message}
    yield "content_block_start", {"index": 0, "content_block": block}
    yield "content_block_delta", {"index": 0, "delta": delta}
    yield "content_block_stop", {"index": 0}
    yield "message_delta", {"delta": stop, "usage": {"output_tokens": 1}}
    yield "message_stop", {}


@contextmanager
def _served(model: Model, events: Callable[..., Iterator[tuple[str | None, dict[str, Any]]]]) -> Iterator[str]:
    """Serve a model on a loopback port; the value is its address."""

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            pass

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            self.send_response(200 if "messages" in body and "count" not in self.path else 404)
            self.send_header("content-type", "text/event-stream")
            self.end_headers()
            if "messages" not in body or "count" in self.path:
                return
            for kind, data in events(model.next_call(body), model.step):
                head = "" if kind is None else f"event: {kind}\n"
                text = json.dumps(data if kind is None else {"type": kind, **data})
                self.wfile.write(f"{head}data: {text}\n\n".encode())
            if events is _openai:
                self.wfile.write(b"data: [DONE]\n\n")

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()


def _run(command: list[str], root: Path, home: Path, **environment: str) -> str:
    path = os.pathsep.join((str(Path(sys.executable).parent), "/usr/bin", "/bin"))
    env = {"PATH": path, "HOME": str(home), **environment}
    ended = subprocess.run(
        command, cwd=root, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_SECONDS
    )
    if ended.returncode:
        print(ended.stdout[-1000:], ended.stderr[-1000:], file=sys.stderr)
    return ended.stdout


def opencode(tools: Path, root: Path, home: Path) -> list[str]:
    """Return the states that OpenCode has after each edit, from the metadata of its edits."""
    file = str(root / "scale.cu")
    edits = [(WRONG_LINE, SAME_LINE), (SAME_LINE, GOOD_LINE)]
    model = Model(
        [("read", {"filePath": file})]
        + [("edit", {"filePath": file, "oldString": old, "newString": new}) for old, new in edits]
    )
    with _served(model, _openai) as url:
        provider = {"npm": "@ai-sdk/openai-compatible", "name": "scripted", "models": {"m": {"name": "m"}}}
        provider["options"] = {"baseURL": f"{url}/v1", "apiKey": "none"}
        config = {
            "lsp": {"gpuemu": {"command": ["gpuemu-lsp"], "extensions": [".cu"]}},
            "provider": {"scripted": provider},
            "permission": {"edit": "allow"},
        }
        (root / "opencode.json").write_text(json.dumps(config), encoding="utf-8")
        command = [str(tools / "node_modules/opencode-linux-x64/bin/opencode"), "run", "--model", "scripted/m"]
        quiet = {"OPENCODE_DISABLE_AUTOUPDATE": "1", "OPENCODE_DISABLE_MODELS_FETCH": "1"}
        output = _run([*command, "--format", "json", "correct it"], root, home, **quiet)
    states = []
    for line in output.splitlines():
        part = json.loads(line).get("part", {})
        if part.get("tool") == "edit":
            states += [item["message"] for item in part["state"]["metadata"]["diagnostics"][file] if "data" in item][:1]
    return states


def claude(tools: Path, root: Path, home: Path) -> list[str]:
    """Return the states that Claude Code has sent to its model, with the plugin of this repository."""
    file = str(root / "scale.cu")

    def edit(old: str, new: str) -> list[tuple[str, dict[str, Any]]]:
        wait = ("Bash", {"command": "sleep 6"})  # diagnostics come with a later message
        change = {"file_path": file, "old_string": old, "new_string": new}
        return [("Edit", change), wait, ("Read", {"file_path": file})]

    model = Model(
        [("Read", {"file_path": file}), *edit(WRONG_LINE, SAME_LINE), *edit(SAME_LINE, GOOD_LINE)],
    )
    plugin = Path(__file__).parents[1] / "editors" / "claude-code"
    with _served(model, _anthropic) as url:
        command = [str(tools / "node_modules/@anthropic-ai/claude-code-linux-x64/claude"), "--plugin-dir", str(plugin)]
        quiet = {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1", "IS_SANDBOX": "1"}
        account = {"ANTHROPIC_API_KEY": "none", "ANTHROPIC_BASE_URL": url, "CLAUDE_CONFIG_DIR": str(home / "config")}
        _run([*command, "-p", "correct it", "--allowedTools", "Edit", "Read", "Bash"], root, home, **quiet, **account)
    texts = json.dumps(model.requests[-1]["messages"]) if model.requests else ""
    return [line.strip() for line in texts.split("\\n") if "[checking]" in line or "[verdict]" in line]


def serena(tools: Path, root: Path, home: Path) -> list[str]:
    """Return the states that Serena's language client has after each edit."""
    python = tools / "serena" / "bin" / "python"
    steps = "".join(
        f"Path('scale.cu').write_text(Path('scale.cu').read_text().replace({old!r}, {new!r}))\n"
        "print(server.request_text_document_diagnostics('scale.cu')[0]['message'])\n"
        for old, new in ((WRONG_LINE, SAME_LINE), (SAME_LINE, GOOD_LINE))
    )
    script = f"{_SERENA}\nserver = Gpuemu({str(root)!r})\nserver.start()\n"
    script += steps + "server.stop()\n"
    return _run([str(python), "-c", script], root, home).splitlines()


_CLIENTS = {"opencode": opencode, "claude": claude, "serena": serena}


def main() -> int:
    """Drive the clients that are named, all without names; print the states of each."""
    tools, *names = sys.argv[1:] or ["agents"]
    missing = 0
    for name in names or _CLIENTS:
        with tempfile.TemporaryDirectory() as folder:
            root, home = Path(folder).resolve() / "project", Path(folder) / "home"
            root.mkdir()
            home.mkdir()
            (root / "scale.cu").write_text(_KERNEL, encoding="utf-8")
            (root / "gpuemu.toml").write_text(_PROJECT, encoding="utf-8")
            (root / "ref.py").write_text("def reference(inputs):\n    return 2 * inputs['x']\n", encoding="utf-8")
            states = _CLIENTS[name](Path(tools).resolve(), root, home)
        print(f"{name}:")
        print("".join(f"    {state}\n" for state in states), end="")
        missing += not any("clean: 1 of 1" in state for state in states)
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
