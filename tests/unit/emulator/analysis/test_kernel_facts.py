"""Facts of compiled kernels: divisions, strides, and what is read."""

from __future__ import annotations

import pytest
from support.emulator_launch import compile_ptx

from gpuemu_lsp.engine.emulator.analysis.kernel_facts import KernelFacts, kernel_facts


def facts(body: str, parameters: str = "int* o, int n, unsigned u, long long l") -> KernelFacts:
    return kernel_facts(compile_ptx(f'extern "C" __global__ void k({parameters}) {{ {body} }}'), "k")


@pytest.mark.parametrize("divisor", [2, 3, 7, 32, 48, 100, 1000])
@pytest.mark.parametrize(("number", "name"), [(1, "n"), (2, "u")])
def test_a_quotient_is_found_whatever_the_compiler_makes_of_it(divisor: int, number: int, name: str) -> None:
    divided = facts(f"o[0] = {name} / {divisor};").divisors(number)
    assert divisor in divided
    # Quotients on the way to it are by factors of the divisor.
    assert all(divisor % one == 0 for one in divided if isinstance(one, int))


@pytest.mark.parametrize("divisor", [2, 3, 32, 100])
def test_a_divisor_whose_remainder_is_used_is_none(divisor: int) -> None:
    used = facts(f"o[0] = n / {divisor}; o[1] = n % {divisor};")
    assert used.remainders(1) == {divisor}
    assert divisor not in used.divisors(1)


@pytest.mark.parametrize("body", ["o[0] = (n + 31) / 32;", "o[0] = 3 * n / 32;", "o[0] = o[1] / 32 + n;"])
def test_other_quotients_are_not_of_the_parameter(body: str) -> None:
    assert not facts(body).divisors(1)


def test_a_size_is_divided_by_that_of_the_block() -> None:
    assert facts("o[0] = n / (int) blockDim.y;").divisors(1) == {"y"}


@pytest.mark.parametrize(("step", "expected"), [("s >>= 1", True), ("s /= 2", True), ("s -= 2", False)])
def test_a_loop_halves_a_size(step: str, expected: bool) -> None:
    loop = f"for (int s = n / 2; s > 0; {step}) {{ if (threadIdx.x < s) o[threadIdx.x] += o[threadIdx.x + s]; "
    assert facts(loop + "__syncthreads(); }").is_halved(1) == expected


@pytest.mark.parametrize(
    ("index", "stride"),
    [("blockIdx.x * 128 + threadIdx.x", 128), ("blockIdx.x * blockDim.x + threadIdx.x", None), ("threadIdx.x", None)],
)
def test_the_block_size_may_be_a_constant(index: str, stride: int | None) -> None:
    found = facts(f"int i = {index}; if (i < n) o[i] = 1;")
    assert (found.block_stride, found.reads_block_size) == (stride, "blockDim" in index)
    assert found.reads_thread_index
    assert found.reads_block_index == ("blockIdx" in index)


def test_parameters_that_are_not_read_and_axes_that_are() -> None:
    found = facts("o[threadIdx.y] = n;")
    assert found.unused_parameters == {2, 3}
    assert found.uses_several_axes
    assert not facts("o[threadIdx.x] = n;").uses_several_axes


def test_cooperative_groups_compute_with_all_axes_for_any_launch() -> None:
    source = """namespace cooperative_groups {
    __device__ int thread_rank() { return threadIdx.y * blockDim.x + threadIdx.x; }
    }
    extern "C" __global__ void k(int* o) { o[cooperative_groups::thread_rank()] = 1; }"""
    found = kernel_facts(compile_ptx(source), "k")
    assert found.reads_block_size
    assert not found.uses_several_axes


@pytest.mark.parametrize(
    ("body", "compared"),
    [
        ("int i = threadIdx.x; if (i < n * u) o[i] = 1;", {1, 2}),
        ("int i = min((int) threadIdx.x, n - 1); o[i] = 1;", {1}),
        ("o[threadIdx.x * n] = u;", set()),
        ("assert(n % 4 == 0); for (int i = threadIdx.x; i < n; i += 32) o[i] = u;", set()),
        ("assert(o != 0); for (int i = threadIdx.x; i < n; i += 32) o[i] = u;", {1}),
    ],
)
def test_parameters_that_something_is_compared_with(body: str, compared: set[int]) -> None:
    assert facts(body).compared_parameters - {0} == compared


@pytest.mark.parametrize(
    ("body", "threads"),
    [
        ("__shared__ int s[128]; s[threadIdx.x] = n; __syncthreads(); o[0] = s[n];", 128),
        ("__shared__ int s[512]; s[threadIdx.x] = n; s[threadIdx.x + 256] = u; __syncthreads(); o[0] = s[n];", 256),
        ("__shared__ int s[32]; if (threadIdx.x < 32) s[threadIdx.x] = n; __syncthreads(); o[0] = s[n];", None),
        ("__shared__ int s[32]; s[threadIdx.x / 32] = n; __syncthreads(); o[0] = s[n];", None),
        (
            "__shared__ int s[64]; int t = threadIdx.x; s[t] = n; __syncthreads(); "
            "for (; t < n; t += blockDim.x) o[t] = s[n % 64];",
            64,
        ),
    ],
)
def test_shared_arrays_have_an_element_for_each_thread(body: str, threads: int | None) -> None:
    assert facts(body).array_threads == threads


@pytest.mark.parametrize(
    ("begin", "step", "threads"),
    [("threadIdx.x", "96", 96), ("threadIdx.x", "blockDim.x", None), ("threadIdx.x % 32", "32", None)],
)
def test_loops_that_begin_with_the_thread_index(begin: str, step: str, threads: int | None) -> None:
    found = facts(f"for (int i = {begin}; i < n; i += {step}) o[blockIdx.x * n + i] = 1;")
    assert found.loop_threads == threads
    assert not found.numbers_threads_of_grid


@pytest.mark.parametrize("size", ["128", "blockDim.x"])
def test_threads_of_the_grid_are_numbered(size: str) -> None:
    assert facts(f"for (int i = blockIdx.x * {size} + threadIdx.x; i < n; i += 4096) o[i] = 1;").numbers_threads_of_grid


@pytest.mark.parametrize(
    ("index", "expected"),
    [
        ("blockIdx.x * blockDim.x + threadIdx.x", (1, None)),
        ("(blockIdx.x * blockDim.x + threadIdx.x) / 32", (32, None)),
        ("blockIdx.x * 4 + threadIdx.x / 32", (32, 128)),
        ("blockIdx.x * 64 + threadIdx.x", (1, 64)),
        ("blockIdx.x", (1, None)),
    ],
)
def test_neighbouring_threads_may_work_on_one_element(index: str, expected: tuple[int, int | None]) -> None:
    found = facts(f"int row = {index}; if (row < n) atomicAdd(o + row, (int) (u >> threadIdx.x));")
    assert found.threads_of_element == expected


@pytest.mark.parametrize(
    ("body", "threads", "blocks", "in_block"),
    [
        ("int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n * u) o[i] = 1;", {(1, 2)}, set(), set()),
        ("unsigned i = blockIdx.x * 64 + threadIdx.x; if (i < u) for (int k = 0; k < n; ++k) o[i * n + k] = 1;",
         {(2,)}, set(), set()),
        ("if (blockIdx.x < u) for (int c = threadIdx.x; c < n; c += 64) o[blockIdx.x * n + c] = 1;",
         set(), {(2,)}, {(1,)}),
        ("int i = blockIdx.x * blockDim.x + threadIdx.x; if (i > 0 && i < n - 1) o[i] = 1;", {(1,)}, set(), set()),
        ("int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n / 4) o[i] = u;", set(), set(), set()),
    ],
)  # fmt: skip
def test_sizes_with_which_indices_of_threads_and_blocks_are_compared(
    body: str, threads: set[tuple[int, ...]], blocks: set[tuple[int, ...]], in_block: set[tuple[int, ...]]
) -> None:
    bounds = facts(body).index_bounds([1, 2])
    assert (set(bounds.threads), set(bounds.blocks), set(bounds.in_block)) == (threads, blocks, in_block)
