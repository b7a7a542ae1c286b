"""The comment of a pull request by GitHub's REST API, in a job of GitHub Actions."""

from __future__ import annotations

import json
import re
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

_SECONDS = 30
_NEXT = re.compile(r'<([^>]*)>;\s*rel="next"')


class GitHubError(Exception):
    """The comment cannot be written; the message has the reason and the next step."""


@dataclass(frozen=True, slots=True)
class PullRequest:
    """A pull request, as a job of GitHub Actions knows it.

    ``api`` is the address of the REST API, ``pages`` that of the repository's pages; ``base`` and ``head`` are commits.
    """

    api: str
    pages: str
    number: int
    base: str
    head: str
    token: str


def pull_request_of(variables: Mapping[str, str], event: Mapping[str, Any]) -> PullRequest:
    """Return the pull request of a job from its environment and its event.

    Raises
    ------
    GitHubError
        If the job is not about a pull request, or has no token.
    """
    about = event.get("pull_request")
    if not isinstance(about, Mapping):
        raise GitHubError("this job is not about a pull request: let it run on the event pull_request")
    repository, token = variables.get("GITHUB_REPOSITORY", ""), variables.get("GITHUB_TOKEN", "")
    if not repository or not token:
        missing = "GITHUB_TOKEN" if repository else "GITHUB_REPOSITORY"
        raise GitHubError(f"{missing} is not set: run it in a job of GitHub Actions, with the token in its environment")
    return PullRequest(
        f"{variables.get('GITHUB_API_URL', 'https://api.github.com')}/repos/{repository}",
        f"{variables.get('GITHUB_SERVER_URL', 'https://github.com')}/{repository}",
        about["number"],
        about["base"]["sha"],
        about["head"]["sha"],
        token,
    )


def put_comment(request: PullRequest, mark: str, text: str) -> str:
    """Write a comment, in place of an earlier one that begins with ``mark``; return the address of its page.

    Raises
    ------
    GitHubError
        If GitHub refuses it or cannot be reached.
    """
    comments = f"{request.api}/issues/{request.number}/comments"
    own = next((item for item in _listed(request, f"{comments}?per_page=100") if item["body"].startswith(mark)), None)
    if own is None:
        written, _ = _call(request, "POST", comments, {"body": text})
    else:
        written, _ = _call(request, "PATCH", f"{request.api}/issues/comments/{own['id']}", {"body": text})
    return str(written["html_url"])


def _listed(request: PullRequest, address: str | None) -> Iterator[Any]:
    """Yield the items of a list, page by page."""
    while address is not None:
        items, links = _call(request, "GET", address)
        yield from items
        following = _NEXT.search(links)
        address = following[1] if following else None


def _call(request: PullRequest, method: str, address: str, body: Mapping[str, str] | None = None) -> tuple[Any, str]:
    """Return the answer to a call, and its header ``Link``."""
    headers = {
        "Accept": "application/vnd.github+json",
        "Authorization": f"Bearer {request.token}",
        "X-GitHub-Api-Version": "2022-11-28",
    }
    data = None if body is None else json.dumps(body).encode()
    call = urllib.request.Request(address, data, headers, method=method)
    try:
        with urllib.request.urlopen(call, timeout=_SECONDS) as answer:
            return json.load(answer), answer.headers.get("Link", "")
    except urllib.error.HTTPError as error:
        step = ": give the job `permissions: pull-requests: write`" if error.code in (401, 403) else ""
        raise GitHubError(f"GitHub answered {error.code} {error.reason} to {method} {address}{step}") from error
    except (OSError, ValueError) as error:
        raise GitHubError(f"GitHub cannot be reached: {error}") from error
