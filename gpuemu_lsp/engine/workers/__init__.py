"""Worker processes: isolation, streaming, time and memory limits, kill and recovery.

Everything that could crash, hang or be the user's own code (NVRTC, the emulator, a reference script) runs here. The
pool knows nothing of kernels: a job is a name of a fixed table of functions and a JSON payload, its results are JSON.

Three kinds of process take part. The *pool* lives in the editor's server or in the command line and is two threads. It
starts one *nursery*, which imports the heavy modules once, runs nothing of the user's, and forks *workers* in a few
milliseconds each; so killing a worker is cheap, and a clean process for every reference is too. The nursery is the
subreaper of everything a worker starts and ends it all when the pool goes away, however the pool went.
"""

from gpuemu_lsp.engine.workers.job_handle import JobHandle
from gpuemu_lsp.engine.workers.model import Job, Limits
from gpuemu_lsp.engine.workers.pool import Pool

__all__ = ["Job", "JobHandle", "Limits", "Pool"]
