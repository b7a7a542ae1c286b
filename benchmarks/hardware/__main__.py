"""Command line: see the package."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

import benchmarks.hardware as package


def main() -> int:
    parser = argparse.ArgumentParser(description=package.__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=("record", "programs", "replay", "launches"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--first", type=int, default=0, help="first seed")
    parser.add_argument("--count", type=int, default=200, help="random programs in CUDA C++")
    parser.add_argument("--kernels", type=int, default=1000, help="random kernels in PTX")
    parser.add_argument("--log", type=Path, help="JSON of all results")
    parser.add_argument("pytest", nargs="*", help="arguments of pytest")
    options = parser.parse_args()
    # What only one of the commands needs is imported there: the machine with the GPU has NumPy and CuPy only.
    if options.command == "replay":
        from benchmarks.hardware.replay import replay

        return int(replay(options.folder, options.log) > 0)
    if options.command == "launches":
        from benchmarks.hardware.replay import run_launches

        run_launches(options.folder)
        return 0
    from benchmarks.hardware import recorder

    if options.command == "record":
        import pytest

        os.environ[recorder.FOLDER_VARIABLE] = str(options.folder)
        return int(pytest.main(["-p", recorder.__name__, *options.pytest]))
    from benchmarks.hardware.programs import run_programs

    with recorder.recording(options.folder) as recorded:
        run_programs(options.first, options.count, options.kernels, recorded)
    print(dict(recorded.counts))
    return 0


if __name__ == "__main__":
    sys.exit(main())
