"""What is done in a process of Python under ``gpuemu run`` when the program imports a package that launches kernels.

- ``hook``: a folder for ``PYTHONPATH``, whose ``sitecustomize`` installs :mod:`.boot` in each process of Python
- :mod:`.boot`: the table of packages, and what each needs
- :mod:`.languages`: the table of languages, for the command that starts the process
"""

from pathlib import Path
from typing import Final

HOOK: Final = Path(__file__).parent / "hook"
