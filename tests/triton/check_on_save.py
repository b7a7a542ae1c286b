"""Check the kernel of a project as on a save, and print as JSON in which processes its code was compiled.

python check_on_save.py FOLDER
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from triton.compiler import ASTSource

from gpuemu_lsp.engine.check.model import KernelReport
from gpuemu_lsp.engine.check.pipeline import check_kernel
from gpuemu_lsp.engine.findings import Finding
from gpuemu_lsp.engine.jobs.requests import targets
from gpuemu_lsp.engine.subjects.request import CheckOptions


def main(folder: str) -> None:
    (request,) = targets.collect([folder], CheckOptions(), Path(folder)).requests
    here = os.getpid()
    make_ir = ASTSource.make_ir
    with tempfile.NamedTemporaryFile("a+") as log:

        def make_ir_and_record(self, *arguments, **options):
            # Opened for appending: each process writes whole lines to the end.
            print("this process" if os.getpid() == here else "another process", self.signature["x"], sep="\t", file=log)
            log.flush()
            return make_ir(self, *arguments, **options)

        ASTSource.make_ir = make_ir_and_record
        events = list(check_kernel(replace(request, options=replace(request.options, specialisations="general"))))
        log.seek(0)
        compiled = sorted(line.split("\t") for line in log.read().splitlines())
    (report,) = (event for event in events if isinstance(event, KernelReport))
    try:
        children = 1 if os.waitpid(-1, os.WNOHANG) else 0
    except ChildProcessError:
        children = 0
    result = {
        "status": report.status,
        "dtypes of findings": sorted({event.dtype for event in events if isinstance(event, Finding)}),
        "compiled": compiled,
        "children": children,
    }
    sys.stdout.write(f"{json.dumps(result)}\n")


if __name__ == "__main__":
    main(sys.argv[1])
