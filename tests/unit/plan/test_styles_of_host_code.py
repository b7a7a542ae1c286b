"""Plans from host code in the styles in which programs are written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from support.plan_facts import has_open_lengths, is_read

from gpuemu_lsp.engine.plan.model import Plan, PlanResult, TensorArg
from gpuemu_lsp.engine.plan.resolve import resolve, unregistered
from gpuemu_lsp.engine.project.expressions import evaluate
from gpuemu_lsp.engine.source import read
from gpuemu_lsp.engine.source.model import SourceFile

Reader = Callable[[str], SourceFile]
SCALE = (
    "__global__ void scale(float* x, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) x[i] *= 2; }\n"
)


def launched(result: PlanResult) -> Plan:
    """Return the only plan, which is that of a launch in the program with all lengths known."""
    (plan,) = result.plans
    assert is_read(plan)
    assert not plan.inferred
    return plan


def smallest(plan: Plan) -> dict[str, int]:
    return {dim.name: min(dim.choices or (dim.minimum or 1,)) for dim in plan.dims}


@pytest.mark.parametrize(
    "main",
    [
        pytest.param(
            "const int N = 32 * 1024 * 1024; float* x; cudaMalloc(&x, N * 4);scale<<<N / 256 / 4, 256>>>(x, N);",
            id="a quotient of a quotient",
        ),
        pytest.param(
            "const size_t bytes = 1024 * 1024 * 16 * sizeof(float); float* x; cudaMalloc(&x, bytes);"
            "scale<<<bytes / sizeof(float) / 256, 256>>>(x, bytes / sizeof(float));",
            id="a constant in bytes",
        ),
        pytest.param(
            "int n; float* x; n = 16777216; cudaMalloc(&x, n * sizeof(float)); scale<<<n / 256, 256>>>(x, n);",
            id="a constant that is assigned",
        ),
    ],
)
def test_large_constants_are_scaled_however_they_are_written(bare: Callable[[str], PlanResult], main: str) -> None:
    """The smallest size has a block for the kernel, and buffers of some bytes."""
    plan = launched(bare(f"{SCALE} int main() {{ {main} }}"))
    sizes = smallest(plan)
    assert sizes
    assert all(evaluate(extent, sizes) > 0 for extent in plan.grid)
    assert 0 < sum(evaluate(arg.shape[0], sizes) for arg in plan.args if isinstance(arg, TensorArg)) <= 1 << 20


@pytest.mark.parametrize(
    "main",
    [
        pytest.param("scale << <2, 128 >> > (x, 256);", id="brackets that a formatter has split"),
        pytest.param(
            "#if CUDART_VERSION >= 2020\nscale<<<2, 128>>>(x, 256);\n#else\nexit(1);\n#endif\n", id="an older CUDA"
        ),
        pytest.param("uint3 grid = make_uint3(2, 1, 1); scale<<<grid, 128>>>(x, 256);", id="a grid of type uint3"),
        pytest.param(
            "#ifdef __DEVICE_EMULATION__\n#define T 1\n#else\n#define T (4 << 5)\n#endif\nscale<<<2, T>>>(x, 256);\n",
            id="device emulation",
        ),
    ],
)
def test_launches_that_the_preprocessor_or_a_formatter_hides(bare: Callable[[str], PlanResult], main: str) -> None:
    """The launch is read as nvcc compiles it."""
    text = f"int main() {{ float* x; cudaMalloc(&x, 1024);\n{main}\nreturn 0; }}\n"
    plan = launched(bare(SCALE + text))
    assert ([str(one) for one in plan.grid], [evaluate(one, {}) for one in plan.block]) == (["2"], [128])


def test_a_class_is_the_template_argument_of_an_object_that_is_passed(bare: Callable[[str], PlanResult]) -> None:
    """The instance is that of the object's class, an argument that the launch does not write."""
    text = """
    struct Relu { __device__ float operator()(float x) const { return x > 0 ? x : 0; } };
    struct Times { float factor; __device__ float operator()(float x) const { return factor * x; } };
    template <class Op> __global__ void apply(float* x, int n, Op op) {
      int i = blockIdx.x * blockDim.x + threadIdx.x;
      if (i < n) x[i] = op(x[i]);
    }
    """
    for written, entry in (("Relu{}", "apply<Relu>"), ("Times{3}", "apply<Times>")):
        main = f"int main() {{ float* x; cudaMalloc(&x, 400); apply<<<1, 128>>>(x, 100, {written}); }}"
        assert launched(bare(text + main)).entry == entry


def test_numbers_of_the_command_line_are_any_numbers(bare: Callable[[str], PlanResult]) -> None:
    """Those that ``sscanf`` reads from an argument are the user's; those of a file may depend on each other."""
    text = "int main(int argc, char** argv) {{ int n; float* x; {}; cudaMalloc(&x, 4 * n); scale<<<{}, 256>>>(x, n); }}"
    free = []
    for read_ in ('sscanf(argv[1], "%d", &n)', 'fscanf(file, "%d", &n)'):
        plan = launched(bare(SCALE + text.format(read_, "(n + 255) / 256")))
        assert is_read(plan)
        free.append(bool(plan.facts.assumed_sizes))
    assert free == [False, True]


def test_more_sizes_than_can_be_tried_are_lengths_that_are_not_known(bare: Callable[[str], PlanResult]) -> None:
    """A launch whose buffers have sizes from many function calls still determines grid and block."""
    names = [f"p{index}" for index in range(10)]
    kernel = f"__global__ void add({', '.join(f'float* {one}' for one in names)}) {{ {names[0]}[threadIdx.x] = 0; }}\n"
    allocated = " ".join(f"float* {one}; cudaMalloc(&{one}, size_of_file({one}));" for one in names)
    (plan,) = bare(f"{kernel} int main() {{ {allocated} add<<<3, 64>>>({', '.join(names)}); }}").plans
    assert is_read(plan)
    assert has_open_lengths(plan)
    assert [str(one) for one in plan.block] == ["64"]


def test_types_of_a_source_that_another_one_includes(tmp_path: Path) -> None:
    """What the including file has declared before is known: structs, and names of types."""
    kernel = "__global__ void move(particles p, real* out, int n) { if (threadIdx.x < n) out[threadIdx.x] = p.x[0]; }\n"
    main = (
        '#define real double\nstruct particles { real* x; int n; };\n#include "move.cu"\n'
        "int main() { particles p; real* y; p.n = 32; cudaMalloc(&p.x, 8 * p.n); cudaMalloc(&y, 8 * p.n);\n"
        "move<<<1, 32>>>(p, y, p.n); }\n"
    )
    path = tmp_path / "move.cu"
    path.write_text(kernel)
    (tmp_path / "main.cu").write_text(main)
    source = read(str(path), kernel, ())
    plan = launched(resolve(unregistered(source, source.kernels[0]), source))
    assert {arg.param: arg.dtype for arg in plan.args} == {
        "p.x": "float64", "p.n": "int32", "out": "float64", "n": "int32",
    }  # fmt: skip


def test_a_number_of_blocks_that_is_not_known_is_a_size_for_which_nothing_is_claimed(
    bare: Callable[[str], PlanResult],
) -> None:
    """The kernel runs with the program's block and buffers; findings are about sizes that the program may not have."""
    text = "int main() { float* x; cudaMalloc(&x, 4096); scale<<<1 << levels(), 64>>>(x, 1024); }"
    (plan,) = bare(SCALE.replace("int n)", "int n, float* y)") + text.replace("1024)", "1024, x)")).plans
    assert [str(one) for one in plan.grid] == ["blocks_x"]
    assert plan.facts.assumed_sizes == {"blocks_x"}


def test_a_kernel_that_is_never_launched_is_launched_as_another_one_with_its_parameters(reader: Reader) -> None:
    """Of several versions of a kernel in a file the program launches one."""
    versions = "".join(
        f"__global__ void {name}(const float* x, float* y) {{ y[{index}] = x[{index}]; }}\n"
        for name, index in (("first", "threadIdx.x"), ("second", "threadIdx.x + blockDim.x * blockIdx.x"))
    )
    main = "int main() { float *x, *y; cudaMalloc(&x, 512); cudaMalloc(&y, 512); second<<<1, 128>>>(x, y); }"
    source = reader(versions + main)
    for kernel, variant in zip(source.kernels, ("second", ""), strict=True):
        plan = launched(resolve(unregistered(source, kernel), source))
        assert is_read(plan)
        assert not variant or f"'{variant}'" in plan.facts.instance.reason


def test_pointers_in_memory_are_null_as_the_program_does_not_show_them(bare: Callable[[str], PlanResult]) -> None:
    """Nothing that depends on their values is claimed."""
    text = "__global__ void reset(int** table) { table[threadIdx.x] = nullptr; }\n"
    plan = launched(bare(text + "int main() { int** t; cudaMalloc(&t, 32 * sizeof(int*)); reset<<<1, 32>>>(t); }"))
    (table,) = plan.args
    assert isinstance(table, TensorArg)
    assert (table.dtype, str(table.shape[0])) == ("uint64", "32")
    assert table.range is not None
    assert [str(one) for one in table.range] == ["0", "1"]
    assert is_read(plan)
    assert plan.facts.assumed_values == {"table"}


def test_an_instance_that_the_program_does_not_launch_leaves_the_others_checked(
    bare: Callable[[str], PlanResult],
) -> None:
    """That it lacks a launch is a hint about it, and not about the kernel."""
    kernel = (
        "template <int TILE> __global__ void tile(float* x, int rows, int cols)"
        "{ if (blockIdx.y < rows) x[blockIdx.y * cols + threadIdx.y * TILE + threadIdx.x] = 0; }\n"
    )
    main = (
        "int main() { int size = 16; float* x; cudaMalloc(&x, 4096); dim3 grid(1, 4), block(16, 16);"
        "if (size == 8) tile<8><<<grid, 64>>>(x, 4, 256); else tile<16><<<grid, block>>>(x, 4, 256); }"
    )
    result = bare(kernel + main)
    assert [plan.entry for plan in result.plans if plan.launched] == ["tile<16>"]
    assert all(one.rule == "config/launch-inferred" for one in result.findings)


@pytest.mark.parametrize(
    "written", ["items[i].key = i;", "Item* one = items + i; one->key = i;", "(*(items + i)).key = i;"]
)
def test_members_that_the_host_assigns_are_initialised(bare: Callable[[str], PlanResult], written: str) -> None:
    """Managed memory of structs is an input, whose values are not known."""
    text = (
        "struct Item { int key; int next; };\n"
        "__global__ void link(Item* items, int n) { if (threadIdx.x < n) items[threadIdx.x].next = items[0].key; }\n"
        "int main() { Item* items; cudaMallocManaged(&items, 32 * sizeof(Item));"
        f"for (int i = 0; i < 32; i++) {{ {written} }} link<<<1, 32>>>(items, 32); }}"
    )
    plan = launched(bare(text))
    assert {arg.param: arg.direction for arg in plan.args if isinstance(arg, TensorArg)} == {"items": "inout"}
    assert is_read(plan)
    assert plan.facts.assumed_values == {"items"}


@pytest.mark.parametrize(("stated", "multiple"), [(256, 256), (4096, 1)])
def test_a_multiple_that_is_too_large_to_try_does_not_restrict_a_size(
    bare: Callable[[str], PlanResult], stated: int, multiple: int
) -> None:
    """A size is at most 1,024 where nothing else is stated."""
    host = f"assert(n % {stated} == 0); float* x; cudaMalloc(&x, n * 4); scale<<<(n + 255) / 256, 256>>>(x, n);"
    plan = launched(bare(f"{SCALE} void run(int n) {{ {host} }}"))
    assert [dim.multiple_of for dim in plan.dims] == [multiple]
