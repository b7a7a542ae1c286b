"""Rules of the group ``api``: calls of CUDA's runtime, which ``gpuemu run`` checks, and launches from Python."""

from __future__ import annotations

from gpuemu_lsp.engine.findings import Severity
from gpuemu_lsp.engine.rules.model import Example, Rule

RULES = (
    Rule(
        "api/invalid-copy",
        Severity.ERROR,
        "copy or fill outside an allocation",
        "The range of a copy or fill is not inside one live allocation: it passes its end, or the memory was freed. On "
        "a GPU the call fails only where the neighbouring memory is not mapped, and overwrites another allocation "
        "otherwise. Or one of the pointers is null, or the direction, such as `cudaMemcpyHostToDevice`, is not that of "
        "the pointers, or source and target of a copy overlap, for which CUDA defines no behaviour.",
        Example(
            bad="cudaMalloc(&x, n * sizeof(float));\ncudaMemcpy(x, host, (n + 1) * sizeof(float), "
            "cudaMemcpyHostToDevice);\n",
            good="cudaMalloc(&x, n * sizeof(float));\ncudaMemcpy(x, host, n * sizeof(float), "
            "cudaMemcpyHostToDevice);\n",
        ),
    ),
    Rule(
        "api/invalid-free",
        Severity.ERROR,
        "free of something that is not allocated",
        "The pointer was freed before, does not begin an allocation, belongs to memory of another kind, or is that of "
        "host memory which is not registered (any more).",
        Example(bad="cudaFree(x);\ncudaFree(x);\n", good="cudaFree(x);\n"),
    ),
    Rule(
        "api/uninitialized-copy",
        Severity.ERROR,
        "copy of a result that was never written",
        "The program copies memory to the host of which neither a kernel nor a call has written any byte: the kernel "
        "that should have written it did not run, or wrote elsewhere. Where some of the bytes were written it is "
        "information: the last block may be missing, or the program knows how many of the bytes it may use.",
        Example(
            bad="cudaMalloc(&y, bytes);\ncudaMemcpy(host, y, bytes, cudaMemcpyDeviceToHost);\n",
            good="cudaMalloc(&y, bytes);\nscale<<<grid, block>>>(x, y, n);\n"
            "cudaMemcpy(host, y, bytes, cudaMemcpyDeviceToHost);\n",
        ),
    ),
    Rule(
        "api/failed-launch",
        Severity.ERROR,
        "failed launch that is not noticed",
        "The launch is rejected, so that the kernel does not run, and the program never asks with `cudaGetLastError` "
        "or `cudaPeekAtLastError`, or only after a later launch, which then seems to have failed. The results of the "
        "program are those of the memory as it was. A check reports a launch in the kernel's file whose block, a "
        "constant, has more threads than the kernel may have, by its `__launch_bounds__` for example. Where the call "
        "returns the error, as `cudaLaunchKernelEx` does, it is an information: the program may look at it. Of a "
        "registered kernel it is a warning: a size that `gpuemu.toml` declares has a grid beyond the limits of every "
        "device.",
        Example(
            bad="scale<<<grid, 2048>>>(x, y, n);\ncudaDeviceSynchronize();\n",
            good="scale<<<grid, 1024>>>(x, y, n);\nif (cudaGetLastError() != cudaSuccess) return 1;\n",
        ),
    ),
    Rule(
        "api/argument-type",
        Severity.ERROR,
        "argument of another type than the parameter",
        "A launch from Python passes an array whose elements the kernel reads as another type, or a number whose bytes "
        "it does. CuPy and PyCUDA pass addresses and bytes as they are; `cupy.zeros(n)` has elements of `float64`, and "
        "a number of Python is a `double`. Arrays of bytes may be read as any type, and floating-point numbers as "
        "integers of the same size. Found in the source, without running the launch.",
        Example(
            bad="# void scale(const float* x, float* y, float rate, int n)\n"
            "y = cp.zeros(n)\nscale((blocks,), (256,), (x, y, 0.5, n))\n",
            good="# void scale(const float* x, float* y, float rate, int n)\n"
            "y = cp.zeros(n, dtype=cp.float32)\nscale((blocks,), (256,), (x, y, np.float32(0.5), n))\n",
            language="python",
        ),
    ),
    Rule(
        "api/tensor-map",
        Severity.WARNING,
        "tensor map that is refused, or larger than its memory",
        "`cuTensorMapEncodeTiled` refuses the map: the driver says `CUDA_ERROR_INVALID_VALUE` only, the finding which "
        "of its rules is broken. Or the tensor that the map describes does not lie inside one live allocation: the "
        "driver does not check that, and a copy of a box at the end is out of bounds.",
        Example(
            bad="cudaMalloc(&x, rows * columns * sizeof(float));\n"
            "cuuint64_t sizes[] = {columns, rows + 1}, strides[] = {columns * sizeof(float)};\n"
            "cuTensorMapEncodeTiled(&map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 2, x, sizes, strides, ...);\n",
            good="cudaMalloc(&x, rows * columns * sizeof(float));\n"
            "cuuint64_t sizes[] = {columns, rows}, strides[] = {columns * sizeof(float)};\n"
            "cuTensorMapEncodeTiled(&map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 2, x, sizes, strides, ...);\n",
        ),
    ),
    Rule(
        "api/stream-race",
        Severity.ERROR,
        "work on two streams without an order",
        "A copy, fill or kernel accesses bytes that work on another stream writes, and no event, synchronisation or "
        "default stream orders the two. On a GPU they may run at the same time. The same goes for `cudaFreeAsync` of "
        "memory that a launch or copy on another stream uses.",
        Example(
            bad="fill<<<grid, block, 0, first>>>(x, n);\n"
            "cudaMemcpyAsync(host, x, bytes, cudaMemcpyDeviceToHost, second);\n",
            good="fill<<<grid, block, 0, first>>>(x, n);\ncudaEventRecord(done, first);\n"
            "cudaStreamWaitEvent(second, done);\ncudaMemcpyAsync(host, x, bytes, cudaMemcpyDeviceToHost, second);\n",
        ),
    ),
    Rule(
        "api/unsynchronized-read",
        Severity.ERROR,
        "a read of the host before the work that writes has ended",
        "The host reads managed or pinned memory that a kernel or an asynchronous copy writes, and no call has waited "
        "for it. On a GPU it may find the values from before.",
        Example(
            bad='fill<<<grid, block>>>(managed, n);\nprintf("%f\\n", managed[0]);\n',
            good='fill<<<grid, block>>>(managed, n);\ncudaDeviceSynchronize();\nprintf("%f\\n", managed[0]);\n',
        ),
    ),
    Rule(
        "api/unsynchronized-write",
        Severity.ERROR,
        "a write of the host before the copy that reads has ended",
        "The host overwrites managed or pinned memory that an asynchronous copy reads, and no call has waited for it. "
        "On a GPU the copy may find the new values.",
        Example(
            bad="cudaMemcpyAsync(x, pinned, bytes, cudaMemcpyHostToDevice, stream);\npinned[0] = 1;\n",
            good="cudaMemcpyAsync(x, pinned, bytes, cudaMemcpyHostToDevice, stream);\n"
            "cudaStreamSynchronize(stream);\npinned[0] = 1;\n",
        ),
    ),
    Rule(
        "api/leak",
        Severity.ERROR,
        "memory that is never freed",
        "The program has ended without freeing this allocation. Reported with `gpuemu run --leaks` only.",
        Example(bad="cudaMalloc(&x, bytes);\nreturn 0;\n", good="cudaMalloc(&x, bytes);\ncudaFree(x);\nreturn 0;\n"),
    ),
    Rule(
        "api/unsupported",
        Severity.WARNING,
        "function that is not implemented",
        "The program calls a function of CUDA's runtime that `gpuemu run` does not have. The call returns "
        "`cudaErrorNotSupported`; what follows from it is not as on a GPU.",
        Example(bad="cudaGraphCreate(&graph, 0);\n", good="scale<<<grid, block, 0, stream>>>(x, y, n);\n"),
    ),
)
