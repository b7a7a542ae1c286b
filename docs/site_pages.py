"""Pages of the site that lie outside of docs/: CONTRIBUTING.md and CHANGELOG.md. A hook of ``mkdocs.yml``."""

from __future__ import annotations

from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

_OUTSIDE = {"contributing.md": "CONTRIBUTING.md", "changes.md": "CHANGELOG.md"}
"""Page of the site -> file in the root of the repository."""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the files of the root, whose links into docs/ become links between pages."""
    root = Path(config.docs_dir).parent
    for page, name in _OUTSIDE.items():
        text = (root / name).read_text("utf-8").replace("](docs/", "](")
        files.append(File.generated(config, page, content=text))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Return the text of a page, in which links to the files of the root lead to their pages."""
    for target, name in _OUTSIDE.items():
        markdown = markdown.replace(f"](../{name}", f"]({target}")
    return markdown
