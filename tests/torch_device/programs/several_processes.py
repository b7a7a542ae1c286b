"""Processes that use the device one after another, and one that has no connection to it."""

import os
import subprocess
import sys

import torch

USE = "import torch; print(torch.ones(3, device='cuda').sum().item())"

child = os.fork()
if not child:
    x = torch.ones(3, device="cuda") + 1
    del x  # its end is a message whose answer is not read
    os._exit(0)
print(os.waitpid(child, 0)[1])
print(torch.ones(3, device="cuda").sum().item())
print(subprocess.run([sys.executable, "-c", USE], capture_output=True, text=True, check=False).stderr, end="")
