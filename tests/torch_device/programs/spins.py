"""A launch that takes hours, in a process that kills itself after a second if its argument says so."""

import os
import signal
import sys
import threading
import time

import torch
import triton
import triton.language as tl


@triton.jit
def spin(x, count):
    total = 0.0
    for i in range(count):
        total += tl.load(x + i % 64)
    tl.store(x, total)


def kill():
    time.sleep(1)
    os.kill(os.getpid(), signal.SIGKILL)


x = torch.ones(64, device="cuda")
spin[(1,)](x, 10)
print("ready", flush=True)
if "kill" in sys.argv:
    threading.Thread(target=kill).start()
spin[(1,)](x, 2_000_000_000)
