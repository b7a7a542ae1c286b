"""Plans of unregistered kernels from the host code that launches them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from support.plan_facts import is_read, of_any_value, unused

from gpuemu_lsp.engine.plan.host.chosen_launches import host_launches
from gpuemu_lsp.engine.plan.model import Plan, PlanResult, ScalarArg, TensorArg
from gpuemu_lsp.engine.project.expressions import evaluate
from gpuemu_lsp.engine.source.model import SourceFile

Reader = Callable[[str], SourceFile]

ADD = """
__global__ void add(const float* x, const int* index, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[index[i]];
}
"""
MAIN = """
#include <cstdlib>
#define COUNT 1000
constexpr int THREADS = 128;
static int blocks(int n, int size) { return (n + size - 1) / size; }
int main() {
  const size_t bytes = COUNT * sizeof(float);
  float *x, *y, *host = (float*)malloc(bytes);
  int *index, *chosen = new int[COUNT];
  for (int i = 0; i < COUNT; i++) { host[i] = rand() / 3.0f; chosen[i] = rand() % COUNT; }
  cudaMalloc((void**)&x, bytes);
  cudaMalloc(&y, bytes);
  if (cudaMalloc(&index, COUNT * sizeof(int)) != cudaSuccess) { exit(1); }
  cudaMemcpy(x, host, bytes, cudaMemcpyHostToDevice);
  cudaMemcpy(index, chosen, COUNT * sizeof(int), cudaMemcpyHostToDevice);
  dim3 grid, block(THREADS);
  grid.x = blocks(COUNT, block.x);
  add<<<grid, block>>>(x, index, y, COUNT);
  cudaMemcpy(host, y, bytes, cudaMemcpyDeviceToHost);
}
"""


def only(result: PlanResult) -> Plan:
    (plan,) = result.plans
    return plan


def tensors(plan: Plan) -> dict[str, TensorArg]:
    return {arg.param: arg for arg in plan.args if isinstance(arg, TensorArg)}


def test_sizes_contents_and_launch_of_a_program_with_constants(bare: Callable[[str], PlanResult]) -> None:
    """Extents are those of cudaMalloc, values those that the host copies; what is only written is an output."""
    plan = only(bare(ADD + MAIN))
    found = tensors(plan)
    assert {name: (arg.direction, str(arg.shape[0])) for name, arg in found.items()} == {
        "x": ("in", "1000"),
        "index": ("in", "1000"),
        "y": ("out", "1000"),
    }
    assert found["index"].range is not None
    assert [str(bound) for bound in found["index"].range] == ["0", "1000"]
    assert ([str(one) for one in plan.grid], [str(one) for one in plan.block]) == (["8"], ["128"])
    assert plan.dims == ()
    assert not plan.inferred
    assert is_read(plan)
    assert not unused(plan)


def test_a_large_constant_is_scaled_down_with_its_remainder(bare: Callable[[str], PlanResult]) -> None:
    """Sizes that the emulator runs keep the remainder of the division by the block size."""
    plan = only(bare(ADD + MAIN.replace("1000", "10000100")))
    (dim,) = plan.dims
    assert dim.choices
    for size in dim.choices:
        assert size % 128 == 10000100 % 128
        assert evaluate(tensors(plan)["y"].shape[0], {dim.name: size}) == size


def test_sizes_of_an_argument_of_the_program_are_symbols(bare: Callable[[str], PlanResult]) -> None:
    """``argv`` may give a size any value; dependent sizes are expressions of it."""
    host = MAIN.replace("int main() {", "int main(int argc, char** argv) {\n  int n = argc > 1 ? atoi(argv[1]) : 500;")
    plan = only(bare(ADD + host.replace("COUNT", "n").replace("#define n 1000", "")))
    (dim,) = plan.dims
    assert (dim.name, dim.include) == ("n", (500,))
    assert is_read(plan)
    assert of_any_value(plan) == {"n"}
    assert str(tensors(plan)["x"].shape[0]) == "n"


def test_a_dependent_size_is_an_expression(bare: Callable[[str], PlanResult]) -> None:
    """The height of a convolution's output is not a size of its own."""
    plan = only(
        bare("""
__global__ void valid(const float* x, float* y, int h, int k) { }
void run(int h, int k) {
  float *x, *y;
  int oh = h - k + 1;
  cudaMalloc(&x, h * sizeof(float));
  cudaMallocManaged(&y, sizeof(float) * oh);
  valid<<<(oh + 31) / 32, 32>>>(x, y, h, k);
}
""")
    )
    assert {name: str(arg.shape[0]) for name, arg in tensors(plan).items()} == {"x": "h", "y": "h - k + 1"}
    assert [str(arg.value) for arg in plan.args if isinstance(arg, ScalarArg)] == ["h", "k"]


@pytest.mark.parametrize(
    ("before", "after", "direction", "judged"),
    [
        ("", "cudaMemcpy(host, y, bytes, cudaMemcpyDeviceToHost);", "out", True),
        ("", "cudaMemcpy(host, y, bytes / 2, cudaMemcpyDeviceToHost);", "out", False),
        ("cudaMemset(y, 0, bytes);", "cudaMemcpy(host, y, bytes, cudaMemcpyDeviceToHost);", "inout", True),
        ("fill(y);", "cudaMemcpy(host, y, bytes, cudaMemcpyDeviceToHost);", "inout", True),
        ("", "set<<<1, 1>>>(y); cudaMemcpy(host, y, bytes, cudaMemcpyDeviceToHost);", "out", False),
        ("", "use<<<1, 1>>>(y, z); cudaMemcpy(host, y, bytes, cudaMemcpyDeviceToHost);", "out", True),
        ("", "use<<<1, 1>>>(z, y); cudaMemcpy(host, y, bytes, cudaMemcpyDeviceToHost);", "out", False),
    ],
)
def test_what_the_host_initialises_and_reads(
    bare: Callable[[str], PlanResult], before: str, after: str, direction: str, judged: bool
) -> None:
    """Every element of an output is judged only if the host copies all of what this launch alone has written."""
    plan = only(
        bare(f"""
__global__ void use(const float* y, float* z) {{ }}
__global__ void set(float* y) {{ }}
int main() {{
  float *y, *z; float host[64]; int bytes = 64 * sizeof(float);
  cudaMalloc(&y, bytes);
  cudaMalloc(&z, bytes);
  {before}
  set<<<1, 64>>>(y);
  {after}
}}
""")
    )
    assert tensors(plan)["y"].direction == direction
    assert is_read(plan)
    assert (not unused(plan)) is judged


@pytest.mark.parametrize(
    ("read", "judged"),
    [
        ("for (int i = 0; i < blocks; i++) sum += out[i];", False),
        ("for (int i = 0; i < n; i++) sum += out[i];", True),
        ("for (int i = 0; i < blocks; i++) sum += out[i]; for (int i = 0; i < n; i++) sum -= out[i];", True),
        ("for (int i = 0; i < blocks; i++) sum += out[i]; write(out, n);", True),
        ("for (int i = 0; i < rows; i++) for (int j = 0; j < 64; j++) sum += out[i * 64 + j];", True),
        ('printf("%d", out[0]);', True),
    ],
)
def test_an_output_is_judged_as_far_as_the_host_reads_its_copy(
    bare: Callable[[str], PlanResult], read: str, judged: bool
) -> None:
    """A copy may be of more than one result for each block, where the host adds these only."""
    plan = only(
        bare(f"""
__global__ void total(const int* x, int* y, int n) {{ }}
int main(int argc, char** argv) {{
  int n = atoi(argv[1]), rows = n / 64, blocks = (n + 255) / 256, sum = 0;
  int *x, *y, *in = new int[n], *out = new int[n];
  cudaMalloc(&x, n * sizeof(int));
  cudaMalloc(&y, n * sizeof(int));
  cudaMemcpy(x, in, n * sizeof(int), cudaMemcpyHostToDevice);
  total<<<blocks, 256>>>(x, y, n);
  cudaMemcpy(out, y, n * sizeof(int), cudaMemcpyDeviceToHost);
  {read}
}}
""")
    )
    assert tensors(plan)["y"].direction == "out"
    assert (not unused(plan)) is judged


def test_a_constant_of_the_file_is_smaller_though_a_parameter_of_the_kernel_has_its_name(
    bare: Callable[[str], PlanResult],
) -> None:
    plan = only(
        bare("""
const int len = 32 * 1024 * 1024;
__global__ void twice(int* x, int len) { }
int main() {
  int* x;
  cudaMalloc(&x, len * sizeof(int));
  cudaMemset(x, 0, len * sizeof(int));
  twice<<<(len + 255) / 256, 256>>>(x, len);
}
""")
    )
    assert [str(axis) for axis in plan.grid] == ["ceil_div(len, 256)"]
    assert str(tensors(plan)["x"].shape[0]) == "len"


def test_shared_memory_that_depends_on_a_type_is_enough_for_both(bare: Callable[[str], PlanResult]) -> None:
    plan = only(
        bare("""
#include <torch/extension.h>
__global__ void sums(const float* x, float* y, int n) { }
torch::Tensor sum(torch::Tensor x) {
  int n = x.numel(), threads = 512, bytes = 0;
  if (x.scalar_type() == torch::kDouble) bytes = 2 * threads * sizeof(double);
  else bytes = 2 * threads * sizeof(float);
  auto y = torch::empty({n}, x.options());
  sums<<<(n + 511) / 512, threads, bytes>>>(x.data_ptr<float>(), y.data_ptr<float>(), n);
  return y;
}
""")
    )
    assert next(dim.choices for dim in plan.dims if dim.name in str(plan.shared)) == (8192,)


def test_of_two_constants_of_one_value_that_of_the_grid_is_smaller(bare: Callable[[str], PlanResult]) -> None:
    plan = only(
        bare("""
#define NUM_THREADS 1000
#define NUM_BLOCKS 1000
__global__ void count(int* x) { }
int main() {
  int* x;
  cudaMalloc(&x, sizeof(int));
  cudaMemset(x, 0, sizeof(int));
  count<<<NUM_BLOCKS, NUM_THREADS>>>(x);
}
""")
    )
    assert ([str(axis) for axis in plan.grid], [str(axis) for axis in plan.block]) == (["NUM_BLOCKS"], ["1000"])


@pytest.mark.parametrize(
    "launched",
    [
        "cudaLaunchConfig_t config = {0}; config.gridDim = dim3((n + 255) / 256); config.blockDim = 256;"
        " cudaLaunchKernelEx(&config, add, x, index, y, n);",
        "cudaLaunchConfig_t config{dim3((n + 255) / 256), dim3(256), 0, 0};"
        " void* args[] = {&x, &index, &y, &n}; cudaLaunchKernelExC(&config, (void*)add, args);",
        "void* args[] = {&x, &index, &y, &n}; cudaLaunchCooperativeKernel((void*)add, (n + 255) / 256, 256, args, 0, 0);",
    ],
)
def test_functions_of_the_runtime_launch_kernels(bare: Callable[[str], PlanResult], launched: str) -> None:
    """The configuration is a struct, and the arguments follow it or are at the addresses in an array."""
    plan = only(
        bare(f"""{ADD}
void run(int n) {{
  float *x, *y;
  int* index;
  cudaMalloc(&x, n * sizeof(float));
  cudaMalloc(&y, 2 * n * sizeof(float));
  cudaMalloc(&index, n * sizeof(int));
  {launched}
}}
""")
    )
    assert {name: str(arg.shape[0]) for name, arg in tensors(plan).items()} == {"x": "n", "index": "n", "y": "2 * n"}
    assert ([str(one) for one in plan.grid], [str(one) for one in plan.block]) == (["ceil_div(n, 256)"], ["256"])


@pytest.mark.parametrize(
    ("place", "part"),
    [("y + r * n", True), ("&y[r * n]", True), ("(float*)(y + r * n)", True), ("r % 2 ? y : x", False), ("y", False)],
)
def test_a_pointer_set_in_a_loop_is_to_a_part(reader: Reader, place: str, part: bool) -> None:
    """Several launches write an allocation, each another part; a choice between two is to the whole of one."""
    source = reader(f"""
__global__ void fill(float* out, int n) {{ out[blockIdx.x * 256 + threadIdx.x] = n; }}
void run(int rows, int n) {{
  float *x, *y;
  cudaMalloc(&x, rows * n * sizeof(float));
  cudaMalloc(&y, rows * n * sizeof(float));
  for (int r = 0; r < rows; r++) {{
    float* p = {place};
    fill<<<(n + 255) / 256, 256>>>(p, n);
  }}
}}
""")
    assert {one.launch.parts for one in host_launches(source, "fill", ())} == {frozenset({0} if part else ())}


@pytest.mark.parametrize(
    ("kernel", "launched", "entry"),
    [
        (
            "template <int N> __global__ void k(float* x, int n)",
            "auto launch = [&](auto size) { k<size.value><<<n, size.value>>>(x, n); };"
            " launch(std::integral_constant<int, 64>{});",
            "k<64>",
        ),
        (
            "template <typename T, bool B> __global__ void k(T* x, int n, std::bool_constant<B>)",
            "k<<<n, 32>>>(x, n, std::bool_constant<true>{});",
            "k<float, true>",
        ),
        (
            "__device__ float twice(float x) { return 2 * x; }\ntypedef float (*function)(float);\n"
            "template <function F> __global__ void k(float* x, int n)",
            "k<twice><<<n, 32>>>(x, n);",
            "k<twice>",
        ),
        (
            "typedef enum { SUM, PRODUCT } mode_t;\n__global__ void k(float* x, int n, mode_t mode)",
            'int mode = atoi(getenv("MODE")); k<<<n, 32>>>(x, n, (mode_t)mode);',
            "k",
        ),
    ],
)
def test_constants_that_are_types_select_an_instance(
    bare: Callable[[str], PlanResult], kernel: str, launched: str, entry: str
) -> None:
    """Objects of std::integral_constant, functions, enumerators, templates, and macros around the launch."""
    plan = only(
        bare(f"""
{kernel} {{ if (threadIdx.x == 0 && blockIdx.x < n) x[blockIdx.x] = 1; }}
void run(int n) {{
  float* x;
  cudaMalloc(&x, n * sizeof(float));
  {launched}
}}
""")
    )
    assert (plan.entry, [str(one) for one in plan.grid]) == (entry, ["n"])
    assert {name: str(arg.shape[0]) for name, arg in tensors(plan).items()} == {"x": "n"}
    assert len(plan.args) == kernel.rpartition("(")[2].count(",") + 1


def test_instances_that_this_run_of_the_program_does_not_launch_are_found(bare: Callable[[str], PlanResult]) -> None:
    """Callers may select the other one; those of a function template are what it is instantiated for."""
    result = bare("""
template <typename T, int B> __global__ void k(T* x, int n) { if (blockIdx.x * B + threadIdx.x < n) x[threadIdx.x] = 1; }
template <typename T> void typed(T* x, int n) { k<T, 8><<<n / 8, 8>>>(x, n); }
template void typed<double>(double* x, int n);
void run(float* x, int n, int block) {
  if (block == 16) k<float, 16><<<n / 16, 16>>>(x, n);
  else k<float, 32><<<n / 32, 32>>>(x, n);
}
int main() { float* x; cudaMalloc(&x, 64 * sizeof(float)); run(x, 64, 32); }
""")
    assert sorted(result.entries) == ["k<double, 8>", "k<float, 16>", "k<float, 32>"]


def test_an_explicit_instantiation_gives_all_template_arguments(bare: Callable[[str], PlanResult]) -> None:
    """Of which one is the type of an index and one a number."""
    result = bare("""
template <typename T, typename I, int B> __global__ void k(T* x, const I* at, I n) {
  if (blockIdx.x * B + threadIdx.x < n) x[at[threadIdx.x]] = 1;
}
template <typename T, typename I, int B> void run(T* x, const I* at, int n) { k<T, I, B><<<n / B, B>>>(x, at, n); }
template void run<float, unsigned int, 32>(float* x, const unsigned int* at, int n);
template void run<double, long long, 64>(double* x, const long long* at, int n);
""")
    assert sorted(result.entries) == ["k<double, long long, 64>", "k<float, unsigned int, 32>"]


def test_the_parameters_of_an_instantiation_give_template_arguments(bare: Callable[[str], PlanResult]) -> None:
    """With a macro for the instantiations, and a default."""
    result = bare("""
template <typename T, int B> __global__ void k(T* x, int n) { if (blockIdx.x * B + threadIdx.x < n) x[threadIdx.x] = 1; }
template <typename T, int B = 64> void run(T* x, int n) { k<T, B><<<n / B, B>>>(x, n); }
template void run(int* x, int n);
#define INSTANTIATE(T) template void run<T, 32>(T* x, int n); template void run(T*, int)
INSTANTIATE(double);
""")
    assert sorted(result.entries) == ["k<double, 32>", "k<double, 64>", "k<int, 64>"]


def test_types_of_a_function_that_nothing_instantiates_are_guessed(bare: Callable[[str], PlanResult]) -> None:
    """So that an instance which does not compile is not a mistake."""
    text = """
template <typename T, typename I> __global__ void k(T* x, const I* at, I n) { x[at[threadIdx.x] % n] = 1; }
template <typename T, typename I> void run(T* x, const I* at, int n) { k<T, I><<<1, n>>>(x, at, n); }
"""
    assert bare(text).guessed
    assert not bare(f"{text}template void run<float, int>(float*, const int*, int);").guessed


def test_a_kernel_that_skips_blocks_by_their_indices_writes_a_part(compiled: Callable[[str], PlanResult]) -> None:
    """The lower triangle of a matrix, of which the program copies all."""
    plan = only(
        compiled("""
__global__ void lower(float* out, int n) {
  if (blockIdx.y > blockIdx.x) return;
  out[blockIdx.x * n + blockIdx.y] = 1;
}
int main() {
  float *x, *host = (float*)malloc(64 * 64 * sizeof(float));
  cudaMalloc(&x, 64 * 64 * sizeof(float));
  lower<<<dim3(64, 64), 1>>>(x, 64);
  cudaMemcpy(host, x, 64 * 64 * sizeof(float), cudaMemcpyDeviceToHost);
}
""")
    )
    assert is_read(plan)
    assert "out" in unused(plan)


def test_memory_that_a_branch_allocates_is_passed(bare: Callable[[str], PlanResult]) -> None:
    """The null pointer takes its place only where the kernel does not use it."""
    plan = only(
        bare("""
__global__ void sum(const float* x, float* out, float* partial, int n) {
  if (gridDim.y > 1) partial[blockIdx.x] = x[blockIdx.x];
  out[blockIdx.x] = x[blockIdx.x];
}
torch::Tensor run(torch::Tensor x, int groups) {
  int n = x.numel();
  auto out = torch::empty({n});
  at::Tensor partial;
  if (groups > 1) { partial = at::empty({4 * n}); }
  float* pointer = groups > 1 ? partial.data_ptr<float>() : nullptr;
  sum<<<dim3(n, groups), 1>>>(x.data_ptr<float>(), out.data_ptr<float>(), pointer, n);
  return out;
}
""")
    )
    assert {name: str(arg.shape[0]) for name, arg in tensors(plan).items()}["partial"] == "4 * x_numel"


@pytest.mark.parametrize(
    ("calls", "values"),
    [
        ("cudaMemset(x, 0xff, bytes);", (-1, 0)),
        ("cudaMemset(x, 0xff, bytes); cudaMemcpy(x + at, &first, 4, cudaMemcpyHostToDevice);", (-1, 1)),
        ("cudaMemset(x, 0, bytes); cudaMemcpy(x + at, &limit, 4, cudaMemcpyHostToDevice);", (0, 8)),
        ("cudaMemset(x, 0xff, bytes); cudaMemcpy(x + at, other, 40, cudaMemcpyHostToDevice);", (0, 1)),
        ("cudaMemcpy(x, &limit, bytes, cudaMemcpyHostToDevice);", (7, 8)),
    ],
)
def test_a_copy_to_a_part_leaves_what_was_there(
    bare: Callable[[str], PlanResult], calls: str, values: tuple[int, int]
) -> None:
    """A source that the program lacks may hold any values; zeros are tried then."""
    plan = only(
        bare(f"""
__global__ void search(int* x, int n) {{ }}
int main(int argc, char** argv) {{
  int *x, first = 0, limit = 7, at = atoi(argv[1]), bytes = 64 * sizeof(int);
  int* other = read_numbers(argv[2]);
  cudaMalloc(&x, bytes);
  {calls}
  search<<<1, 64>>>(x, 64);
}}
""")
    )
    low, high = tensors(plan)["x"].range
    assert (evaluate(low, {}), evaluate(high, {})) == values
