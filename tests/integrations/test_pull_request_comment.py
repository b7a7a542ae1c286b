"""The comment on a pull request: what is new, fixed and unknown, and GitHub's REST API as its documentation shows it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from gpuemu_lsp.engine.report.markdown import MARK
from gpuemu_lsp.engine.report.pull_request import Side, compare_reports, render_comment

OTHER = {
    "id": 1,
    "node_id": "MDEyOklzc3VlQ29tbWVudDE=",
    "url": "https://api.github.com/repos/octocat/Hello-World/issues/comments/1",
    "html_url": "https://github.com/octocat/Hello-World/issues/1347#issuecomment-1",
    "body": "Me too",
    "user": {"login": "octocat", "id": 1, "type": "User", "site_admin": False},
    "created_at": "2011-04-14T16:00:49Z",
    "updated_at": "2011-04-14T16:00:49Z",
    "issue_url": "https://api.github.com/repos/octocat/Hello-World/issues/1347",
    "author_association": "COLLABORATOR",
}
"""A comment as the documentation of "List issue comments" has it (REST API, version 2022-11-28)."""


def finding(rule: str, line: int, kernel: str | None = "scale", fingerprint: str = "", **more: Any) -> dict[str, Any]:
    place = {"start": {"line": line - 1, "character": 0}, "end": {"line": line - 1, "character": 5}}
    return {
        "rule": rule,
        "severity": "error",
        "message": f"{rule} | in `{kernel}`\nmore",
        "path": "k ernels/scale.cu",
        "range": place,
        "kernel": kernel,
        "dtype": "float32",
        "fingerprint": fingerprint or f"{rule}{line}",
        **more,
    }


def report(*findings: dict[str, Any], **statuses: str) -> dict[str, Any]:
    cases = {"run": 8, "passed": 8}
    kernels = [
        {"name": name, "source": "k ernels/scale.cu", "status": status, "cases": cases, "compared": status == "passed"}
        for name, status in statuses.items()
    ]
    return {"version": 1, "kernels": kernels, "findings": list(findings), "summary": {}}


BASE = report(
    finding("memory/out-of-bounds", 3),
    finding("sync/race", 7),
    finding("numeric/nan", 9, "softmax"),
    finding("memory/misaligned", 12, fingerprint="before the line was edited"),
    finding("numeric/inf", 15),
    scale="failed",
    softmax="failed",
)
HEAD = report(
    finding("sync/race", 17, fingerprint="sync/race7"),
    finding("memory/uninitialized-read", 20),
    finding("memory/misaligned", 12, fingerprint="the edited line"),
    finding("compile/error", 1, "softmax"),
    scale="failed",
    softmax="error",
)


def test_one_fixed_one_added_and_one_that_did_not_run():
    changes = compare_reports(BASE, HEAD)
    assert [item["rule"] for item in changes.new] == ["memory/uninitialized-read", "compile/error"]
    assert [item["rule"] for item in changes.fixed] == ["memory/out-of-bounds"]
    assert [item["rule"] for item in changes.kept] == ["sync/race", "memory/misaligned"]
    assert [item["rule"] for item in changes.unknown] == ["numeric/nan", "numeric/inf"]
    text = render_comment(Side(HEAD, "https://g/o/r/blob/HEAD"), Side(BASE, "https://g/o/r/blob/BASE"))
    assert text.startswith(f"{MARK}\n## gpuemu: 4 errors, 1 of 2 kernels did not run\n")
    new, fixed, unknown = (text.index(f"### {title}") for title in ("New", "Fixed", "Not known any more"))
    assert new < text.index("https://g/o/r/blob/HEAD/k%20ernels/scale.cu#L20") < fixed
    assert fixed < text.index("https://g/o/r/blob/BASE/k%20ernels/scale.cu#L3") < unknown
    assert "| softmax | ❌ failed | ❌ error |" in text and "memory/uninitialized-read \\| in \\`scale\\`" in text
    assert "### Did not run" in text and "| softmax | compile/error" in text


def test_a_comment_without_a_base_has_the_reason():
    text = render_comment(Side(report(scale="passed"), "https://g"), None, "it was not checked")
    assert "## gpuemu: 1 kernel clean" in text and "Not compared with the base: it was not checked." in text
    assert "nothing was checked" in render_comment(Side(report(), "https://g"), None)


class GitHub:
    """A server with the comments of a pull request, a page of them at a time."""

    def __init__(self) -> None:
        self.comments: list[dict[str, Any]] = [OTHER]
        self.status = 200
        self.calls: list[str] = []
        github = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_: Any) -> None:
                pass

            def answer(self) -> None:
                github.calls.append(f"{self.command} {self.path}")
                assert self.headers["Authorization"] == "Bearer secret"
                size = int(self.headers["Content-Length"] or 0)
                body = json.loads(self.rfile.read(size)) if size else {}
                answer: Any = {"message": "Resource not accessible by integration"}
                link = ""
                if github.status == 200:
                    answer, link = github.answer(self.command, self.path, body)
                self.send_response(github.status)
                if link:
                    self.send_header("Link", link)
                self.end_headers()
                self.wfile.write(json.dumps(answer).encode())

            do_GET = do_POST = do_PATCH = answer

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def answer(self, method: str, path: str, body: dict[str, Any]) -> tuple[Any, str]:
        comments = "/repos/octocat/Hello-World/issues/1347/comments"
        if method == "GET":
            page = int(path.partition("&page=")[2] or 1)
            following = f'<{self.address}{comments}?per_page=100&page={page + 1}>; rel="next"'
            return self.comments[page - 1 : page], following if page < len(self.comments) else ""
        if method == "POST":
            assert path == comments
            self.comments.append({**OTHER, "id": 42, "body": body["body"]})
            return self.comments[-1], ""
        assert path == "/repos/octocat/Hello-World/issues/comments/42"
        self.comments[1]["body"] = body["body"]
        return self.comments[1], ""


@pytest.fixture
def github() -> Iterator[GitHub]:
    github = GitHub()
    yield github
    github.server.shutdown()


def test_the_comment_is_written_once_and_then_replaced(github: GitHub, tmp_path: Path):
    (tmp_path / "head.json").write_text(json.dumps(HEAD))
    (tmp_path / "base.json").write_text(json.dumps(BASE))
    event = {"number": 1347, "pull_request": {"number": 1347, "base": {"sha": "b" * 40}, "head": {"sha": "a" * 40}}}
    (tmp_path / "event.json").write_text(json.dumps(event))
    variables = {
        "GITHUB_API_URL": github.address,
        "GITHUB_SERVER_URL": "https://github.com",
        "GITHUB_REPOSITORY": "octocat/Hello-World",
        "GITHUB_EVENT_PATH": str(tmp_path / "event.json"),
        "GITHUB_TOKEN": "secret",
    }

    def comment(**more: str) -> subprocess.CompletedProcess[str]:
        words = ["comment", "head.json", "--base", "base.json", "--folder", "cuda"]
        command = [sys.executable, "-m", "gpuemu_lsp.cli.gpuemu", *words]
        env = {**os.environ, **variables, **more}
        return subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=60)

    first = comment()
    assert first.returncode == 0 and first.stdout == f"{OTHER['html_url']}\n"
    assert "blob/" + "a" * 40 + "/cuda/k%20ernels/scale.cu#L20" in github.comments[1]["body"]
    (tmp_path / "base.json").unlink()
    assert comment().returncode == 0
    assert len(github.comments) == 2 and "Not compared with the base" in github.comments[1]["body"]
    assert [call.split()[0] for call in github.calls] == ["GET", "POST", "GET", "GET", "PATCH"]
    github.status = 403
    refused = comment()
    assert refused.returncode == 2 and "pull-requests: write" in refused.stderr
    assert "not about a pull request" in comment(GITHUB_EVENT_PATH="/nowhere").stderr
    (tmp_path / "head.json").write_text("{}")
    assert "head.json is not a result of --format json" in comment().stderr
