"""Call a function of an example of TileLang, which has its sizes as parameters.

    python call_example.py FILE FUNCTION ARGUMENTS

``ARGUMENTS`` is a JSON object; a list in it that begins with ``argv`` is the arguments of a command.
"""

import importlib.util
import json
import sys
from pathlib import Path

import tilelang  # noqa: F401
import torch


def main() -> None:
    file, function, text = sys.argv[1:]
    path = Path(file).resolve()
    sys.path.insert(0, str(path.parent))
    sys.argv = [str(path)]
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    torch.manual_seed(0)
    getattr(module, function)(**json.loads(text))


if __name__ == "__main__":
    main()
