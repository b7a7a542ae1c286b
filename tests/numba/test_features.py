"""What programs use of numba-cuda beyond a plain launch: memory, types, linking, sessions."""

from __future__ import annotations

import inspect
import math
from pathlib import Path

import numpy as np
import pytest
from numba import cuda, float32, float64, vectorize

from gpuemu.numba import KernelError, UnsupportedLaunchError, emulated


def line_of(kernel, text):
    """Return the 1-based line of this file on which `text` stands in a kernel."""
    lines, first = inspect.getsourcelines(kernel.py_func)
    return first + next(index for index, line in enumerate(lines) if text in line)


def found(session):
    return [(finding.rule, finding.place.range.start.line + 1) for finding in session.findings]


@cuda.jit
def fill(out, value):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = value


@pytest.mark.parametrize("make", ["managed_array", "mapped_array", "device_array", "pinned_array"])
def test_every_kind_of_memory_holds_results(make):
    with emulated() as session:
        array = getattr(cuda, make)(100, np.float64)
        fill[1, 128](array, 2.5)
        host = array.copy_to_host() if make == "device_array" else np.asarray(array)
        assert np.array_equal(host, np.full(100, 2.5)) and not session.findings


def test_streams_and_events_do_the_work_at_once():
    with emulated() as session:
        stream, begin, end = cuda.stream(), cuda.event(), cuda.event()
        data = np.arange(64, dtype=np.float32)
        with cuda.pinned(data):
            begin.record(stream)
            array = cuda.to_device(data, stream=stream)
            fill[1, 64, stream](array, 3)
            end.record(stream)
            end.synchronize()
            assert np.array_equal(array.copy_to_host(stream=stream), np.full(64, 3)) and begin.elapsed_time(end) >= 0
        stream.synchronize()
        cuda.synchronize()
    assert not session.findings


def test_a_reduction():
    data = np.random.default_rng(1).random(3000)
    with emulated() as session:
        total = cuda.reduce(lambda a, b: a + b)
        assert math.isclose(total(data), data.sum(), rel_tol=1e-12) and not session.findings


def test_a_vectorised_function():
    with emulated() as session:

        @vectorize(["float32(float32, float32)", "float64(float64, float64)"], target="cuda")
        def hypotenuse(a, b):
            return math.sqrt(a * a + b * b)

        x = np.arange(1000, dtype=np.float64)
        assert np.allclose(hypotenuse(x, x[::-1].copy()), np.hypot(x, x[::-1])) and not session.findings


POINT = np.dtype([("x", np.float32), ("weight", np.float64), ("count", np.int16)], align=True)


@cuda.jit
def move(points, shift, pair):
    i = cuda.grid(1)
    if i < points.size:
        points[i].x += shift
        points[i].weight *= pair[0]
        points[i].count += pair[1][i]


def test_records_and_tuples():
    points = np.zeros(10, POINT)
    points["weight"], counts = 2, np.arange(10, dtype=np.int16)
    with emulated() as session:
        move[1, 32](points, 1.5, (0.25, counts))
    assert np.all(points["x"] == 1.5) and np.all(points["weight"] == 0.5) and np.array_equal(points["count"], counts)
    assert not session.findings


@cuda.jit
def transposed_sum(matrix, out):
    i = cuda.grid(1)
    if i < matrix.shape[0]:
        total = 0.0
        for j in range(matrix.shape[1]):
            total += matrix[i, j]
        out[i] = total


@pytest.mark.parametrize("order", ["C", "F"])
def test_layouts(order):
    matrix = np.asarray(np.random.default_rng(1).random((20, 30)), order=order)
    out = np.zeros(20)
    with emulated() as session:
        transposed_sum[1, 32](matrix, out)
        transposed_sum[1, 32](cuda.to_device(np.ascontiguousarray(matrix))[:, ::3], out[:20])
    assert np.allclose(out, matrix[:, ::3].sum(axis=1)) and not session.findings


@cuda.jit
def warp_sum(values, out):
    value = values[cuda.grid(1)]
    for shift in (16, 8, 4, 2, 1):
        value += cuda.shfl_down_sync(0xFFFFFFFF, value, shift)
    if cuda.laneid == 0:
        cuda.atomic.add(out, 0, value)


def test_warp_shuffles():
    out = np.zeros(1)
    with emulated() as session:
        warp_sum[2, 128](np.arange(256, dtype=np.float64), out)
    assert out[0] == sum(range(256)) and not session.findings


@cuda.jit
def divergent_barrier(out):
    i = cuda.threadIdx.x
    if i < 40:
        cuda.syncthreads()
    out[i] = i


def test_a_barrier_that_some_threads_do_not_reach():
    with emulated(on_finding="collect") as session:
        divergent_barrier[1, 64](np.zeros(64))
    assert [(rule.split("/")[0], line) for rule, line in found(session)] == [
        ("sync", line_of(divergent_barrier, "syncthreads"))
    ]


@cuda.jit
def dynamic_shared(out):
    tile = cuda.shared.array(0, float32)
    i = cuda.threadIdx.x
    tile[i] = i
    cuda.syncthreads()
    out[i] = tile[cuda.blockDim.x - 1 - i]


def test_dynamic_shared_memory_has_the_size_of_the_launch():
    out = np.zeros(64, np.float32)
    with emulated(on_finding="collect") as session:
        dynamic_shared[1, 64, 0, 256](out)
        assert np.array_equal(out, np.arange(64)[::-1]) and not session.findings
        dynamic_shared[1, 64, 0, 128](out)
    assert found(session)[0] == ("memory/out-of-bounds", line_of(dynamic_shared, "tile[i] ="))


@cuda.jit
def local_table(out, n):
    table = cuda.local.array(8, float64)
    for k in range(n):
        table[k] = k
    out[cuda.threadIdx.x] = table[7] * 2 + table[0]


def test_local_arrays_are_zero_as_numba_compiles_them():
    out = np.ones(1)
    with emulated() as session:
        local_table[1, 1](out, 4)
    assert out[0] == 0 and not session.findings


@cuda.jit
def prefix_of_rows(matrix):
    column, grid = cuda.grid(1), cuda.cg.this_grid()
    for row in range(1, matrix.shape[0]):
        other = matrix.shape[1] - column - 1
        matrix[row, column] = matrix[row - 1, other] + 1
        grid.sync()


@cuda.jit
def prefix_of_rows_without_barrier(matrix):
    column = cuda.grid(1)
    for row in range(1, matrix.shape[0]):
        other = matrix.shape[1] - column - 1
        matrix[row, column] = matrix[row - 1, other] + 1


def test_a_barrier_of_the_grid():
    with emulated(on_finding="collect") as session:
        matrix = np.zeros((10, 256), np.int32)
        prefix_of_rows[4, 64](matrix)
        assert np.array_equal(matrix[-1], np.full(256, 9)) and not session.findings
        prefix_of_rows_without_barrier[4, 64](matrix)
    assert found(session) == [("memory/global-race", line_of(prefix_of_rows_without_barrier, "matrix[row, column] ="))]


def test_an_exception_of_a_kernel_in_debug_mode_names_its_thread():
    with emulated():

        @cuda.jit(debug=True, opt=False)
        def refuse(values):
            i = cuda.grid(1)
            if values[i] > 5:
                raise ValueError("too large")

        refuse[1, 6](np.arange(6))
        with pytest.raises(ValueError, match=r"tid=\[0, 0, 6\] ctaid=\[0, 0, 0\]: too large"):
            refuse[1, 7](np.arange(7))


class OwnError(Exception):
    pass


def test_exceptions_of_classes_of_the_program():
    # libNVVM ends the process when it compiles this kernel's debug information without its option for it.
    with emulated():

        @cuda.jit("void(int32)", debug=True, opt=False)
        def refuse(x):
            if x == 1:
                raise OwnError
            elif x == 2:
                raise OwnError("second")

        refuse[1, 1](0)
        with pytest.raises(OwnError):
            refuse[1, 1](1)
        with pytest.raises(OwnError, match="second"):
            refuse[1, 1](2)


@cuda.jit(device=True, debug=True, opt=False)
def third(values, i):
    return values[i + 3]


def test_a_device_function_in_debug_mode():
    with emulated(on_finding="collect") as session:

        @cuda.jit(debug=True, opt=False)
        def call(values, out):
            i = cuda.grid(1)
            out[i] = third(values, i)

        out = np.zeros(8)
        call[1, 8](np.arange(11.0), out)
        assert np.array_equal(out, np.arange(3, 11)) and not session.findings
        call[1, 8](np.arange(10.0), out)
    assert [rule for rule, _ in found(session)] == ["memory/out-of-bounds"]


def test_cuda_cpp_and_ptx_are_linked():
    source = cuda.CUSource(
        'extern "C" __device__ int add_cpp(float* out, float a, float b) { *out = a + b; return 0; }'
    )
    add = cuda.declare_device("add_cpp", "float32(float32, float32)", link=source)
    with emulated() as session:

        @cuda.jit
        def call(out):
            i = cuda.grid(1)
            out[i] = add(i, float32(0.5))

        out = np.zeros(32, np.float32)
        call[1, 32](out)
    assert np.array_equal(out, np.arange(32) + 0.5) and not session.findings


def test_a_library_of_machine_code_is_refused():
    add = cuda.declare_device("add_object", "float32(float32)", link=cuda.Object(b"\\x7fELF"))
    with emulated():

        @cuda.jit
        def call(out):
            out[0] = add(out[0])

        with pytest.raises(UnsupportedLaunchError, match="machine code"):
            call[1, 1](np.zeros(1, np.float32))


def test_a_device_array_of_the_global_scope_is_refused():
    with emulated():
        table = cuda.to_device(np.arange(4.0))

        @cuda.jit
        def lookup(out):
            out[0] = table[2]

        with pytest.raises(UnsupportedLaunchError, match="global scope"):
            lookup[1, 1](np.zeros(1))


def test_arrays_and_kernels_outlive_their_session():
    with emulated() as session:
        array = cuda.to_device(np.zeros(16))
        fill[1, 16](array, 1.0)
    with emulated("sm_90") as later:
        fill[1, 8](array[:8], 2.0)
        assert np.array_equal(array.copy_to_host(), [2.0] * 8 + [1.0] * 8)
    assert not session.findings and [record.artifact.arch for record in later.launches] == ["sm_90"]


def test_a_launch_that_did_not_run_raises():
    with emulated(seconds=0.2), pytest.raises(KernelError):

        @cuda.jit
        def forever(flag):
            while flag[0] == 0:
                cuda.threadfence()

        forever[1, 1](np.zeros(1, np.int32))


def test_a_block_of_too_many_threads_is_refused_as_by_the_driver():
    from numba.cuda.cudadrv.driver import CudaAPIError

    with emulated(), pytest.raises(CudaAPIError, match="INVALID_VALUE"):
        fill[1, 2048](np.zeros(4), 1.0)


def test_an_error_in_a_kernel_of_numba_is_on_the_line_that_calls_it():
    with emulated(on_finding="collect") as session:
        total = cuda.reduce(lambda a, b: a + b)
        total(cuda.device_array(100, np.float64))  # the line of the finding
    lines = Path(__file__).read_text().splitlines()
    assert {rule for rule, _ in found(session)} == {"memory/uninitialized-read"}
    assert all("lambda" in lines[n - 1] or "the line of the finding" in lines[n - 1] for _, n in found(session))


@cuda.jit
def set_points(points):
    i = cuda.grid(1)
    points[i].x = i
    points[i].weight = i
    points[i].count = i


@cuda.jit
def copy_points(source, target):
    i = cuda.grid(1)
    target[i] = source[i]


def test_padding_of_records_is_not_read_when_records_are_copied():
    with emulated() as session:
        source, target = cuda.device_array(32, POINT), cuda.device_array(32, POINT)
        set_points[1, 32](source)
        copy_points[1, 32](source, target)
        assert np.array_equal(target.copy_to_host()["count"], np.arange(32))
    assert not session.findings


def test_launches_of_several_threads():
    from concurrent.futures import ThreadPoolExecutor

    def job(value):
        array = cuda.device_array(100, np.float64)
        fill[1, 128](array, value)
        return array.copy_to_host()

    with emulated() as session, ThreadPoolExecutor(4) as threads:
        results = list(threads.map(job, range(8)))
    assert [set(result) for result in results] == [{value} for value in range(8)]
    assert not session.findings and len(session.launches) == 8


def test_line_information_brings_no_warnings(recwarn):
    namespace = {}
    exec("def nowhere(x):\n    x[0] = 1\n", namespace)  # noqa: S102 - a function without a file
    with emulated():
        cuda.jit(namespace["nowhere"])[1, 1](np.zeros(1))
    assert not [warning for warning in recwarn if "DebugInfo" in warning.category.__name__]


@cuda.jit
def say(n):
    if cuda.grid(1) == 3:
        print("thread", cuda.grid(1), n, 0.5)  # noqa: T201 - what is tested


def test_output_of_a_kernel(capsys):
    with emulated():
        say[1, 8](7)
    assert capsys.readouterr().out == "thread 3 7 0.500000\n"
