"""Start of the process of an answer: what PyTorch's import makes stays, and is not looked through for garbage.

Run as ``answer_start.py FOLDER``, see :mod:`.answer_process`.
"""

from __future__ import annotations

import gc
import sys
from pathlib import Path


def main(folder: Path) -> int:
    """Run the cases of a request; return its exit code."""
    gc.disable()
    from gpuemu.judge import answer_process

    gc.freeze()
    gc.enable()
    return answer_process.main(folder)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
