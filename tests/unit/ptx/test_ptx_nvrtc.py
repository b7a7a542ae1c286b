"""The parser on output of NVRTC."""

from __future__ import annotations

import pytest
from support.ptx_text import compiled, entry_of, loose_ends, module_of

from gpuemu_lsp.engine.ptx import normalise, parse
from gpuemu_lsp.engine.ptx.model import Address, Immediate, Negated, Pair, Register, Symbol, Vector
from gpuemu_lsp.engine.ptx.traversal import instructions_of, reachable

KERNELS = {
    "template": (
        "template <typename T, int N> __global__ void k(const T* x, T* y) {"
        " for (int i = 0; i < N; ++i) y[i] = x[i] * T(2); }",
        "k<double, 3>",
    ),
    "extern_shared": (
        "extern __shared__ float smem[];\n"
        "__global__ void k(float* x) { smem[threadIdx.x] = x[threadIdx.x]; __syncthreads(); x[0] = smem[1]; }",
        "k",
    ),
    "demoted_shared": (
        "__global__ void k(float* x) { __shared__ float tile[16][17]; tile[threadIdx.x][3] = x[0];"
        " __syncthreads(); x[2] = tile[3][threadIdx.x]; }",
        "k",
    ),
    "printf": ('__global__ void k(float* x) { printf("%d; {%f} // \\"\\n", threadIdx.x, x[0]); }', "k"),
    "assert": ("#include <assert.h>\n__global__ void k(int* x) { assert(x[threadIdx.x] > 0); }", "k"),
    "device_function": (
        "struct P { int n; float a[3]; const float* x; };\n"
        "__device__ __noinline__ float f(float a, P p) { return a * p.a[1] + p.n + p.x[0]; }\n"
        "__global__ void k(float* x, P p) { x[0] = f(x[1], p); }",
        "k",
    ),
    "dense_switch": (
        "__global__ void k(int* x) { int v = x[0]; switch (x[1]) {"
        + "".join(f" case {i}: v = __clz(v) * {i * i + 7} ^ x[{i + 2}]; x[{i}] = v + {i}; break;" for i in range(12))
        + " } x[1] = v; }",
        "k",
    ),
    "function_pointers": (
        "typedef float (*F)(float);\n"
        "__device__ float f1(float x) { return x + 1; }\n__device__ float f2(float x) { return x * 2; }\n"
        "__device__ F table[2] = {f1, f2};\n__global__ void k(float* x, int i) { x[0] = table[i](x[1]); }",
        "k",
    ),
    "virtual_call": (
        "struct B { __device__ virtual float go(float x) { return x; } };\n"
        "struct D : B { __device__ float go(float x) override { return x * 3; } };\n"
        "__global__ void k(float* x, int i) { B b; D d; B* p = i ? &b : &d; x[0] = p->go(x[1]); }",
        "k",
    ),
    "recursion": (
        "__device__ int fact(int n) { return n < 2 ? 1 : n * fact(n - 1); }\n"
        "__global__ void k(int* x) { x[0] = fact(x[1]); }",
        "k",
    ),
    "inline_asm": (
        "__global__ void k(int* x) { int a = x[0], b;\n"
        ' asm volatile("{ .reg .pred p; setp.ne.b32 p, %1, 0; selp.b32 %0, 1, 2, p; }" : "=r"(b) : "r"(a));\n'
        ' asm volatile("{\\n .reg .pred p;\\n .reg .b32 t;\\nAGAIN:\\n add.s32 t, %1, 1;\\n setp.lt.s32 p, t, 0;\\n"\n'
        '   "@!p bra DONE;\\n bra.uni AGAIN;\\nDONE:\\n mov.b32 %0, t;\\n}" : "=r"(a) : "r"(b));\n'
        ' asm volatile("{\\n .reg .pred p;\\n .reg .b32 t;\\nAGAIN:\\n add.s32 t, %1, 1;\\n setp.lt.s32 p, t, 0;\\n"\n'
        '   "@!p bra DONE;\\n bra.uni AGAIN;\\nDONE:\\n mov.b32 %0, t;\\n}" : "=r"(b) : "r"(a));\n x[0] = b; }',
        "k",
    ),
    "half": (
        "#include <cuda_fp16.h>\n#include <cuda_bf16.h>\n"
        "__global__ void k(__half2* a, __nv_bfloat16* b) { a[0] = __hadd2(a[1], a[2]); b[0] = b[1] * b[2];"
        " a[3] = __floats2half2_rn(__low2float(a[4]), 1.f); }",
        "k",
    ),
    "constants": (
        "__constant__ float table[8] = {1, 2, 3, 4};\n__constant__ short grid[2][3] = {{1, 2}, {-3}};\n"
        "__device__ int counter = -7;\n__device__ int values[4];\n__device__ int* third = values + 2;\n"
        '__device__ const char* names[2] = {"alpha", "b\\n\\"q"};\n__device__ double half_ = 0.5;\n'
        "__global__ void k(float* x, int i) { x[0] = table[i] + grid[i & 1][i & 2] + *third + names[i][0] + half_;"
        " counter += i; }",
        "k",
    ),
    "vectors": (
        "__global__ void __launch_bounds__(128, 2) k(float4* x, double2* y) { float4 v = x[0]; v.x += v.w; x[1] = v;"
        " double2 d = y[0]; d.y *= d.x; y[1] = d; }",
        "k",
    ),
    "local_array": (
        "__global__ void k(float* x, int i) { float a[16];\n#pragma unroll 1\nfor (int j = 0; j < 16; ++j) a[j] = x[j];"
        " x[0] = a[i]; }",
        "k",
    ),
    "warp": (
        "__global__ void k(float* x, int i) { unsigned m = __ballot_sync(~0u, i & 1);"
        " x[0] = __shfl_down_sync(m, x[1], 1) + __shfl_xor_sync(~0u, x[2], 2) + __any_sync(m, i > 3);"
        " atomicAdd(x, 1.f); __syncwarp(); __threadfence(); }",
        "k",
    ),
    "textures": (
        "__global__ void k(cudaTextureObject_t t, float* y) { y[0] = tex2D<float>(t, threadIdx.x, 1.f);"
        " float4 q = tex1Dfetch<float4>(t, 3); y[1] = q.x + q.w; }",
        "k",
    ),
    "cooperative_groups": (
        "#include <cooperative_groups.h>\nnamespace cg = cooperative_groups;\n"
        "__global__ void k(float* x) { auto g = cg::this_grid();"
        " auto w = cg::tiled_partition<32>(cg::this_thread_block());"
        " float s = x[g.thread_rank()]; s += w.shfl_down(s, 1); g.sync(); if (w.thread_rank() == 0) x[0] = s; }",
        "k",
    ),
    "tensor_cores": (
        "#include <mma.h>\n__global__ void k(const __half* a, float* c) { using namespace nvcuda::wmma;\n"
        " fragment<matrix_a, 16, 16, 16, __half, row_major> fa; fragment<matrix_b, 16, 16, 16, __half, col_major> fb;\n"
        " fragment<accumulator, 16, 16, 16, float> fc; fill_fragment(fc, 0.f); load_matrix_sync(fa, a, 16);\n"
        " load_matrix_sync(fb, a, 16); mma_sync(fc, fa, fb, fc); store_matrix_sync(c, fc, 16, mem_row_major); }",
        "k",
    ),
}


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("optimize", [True, False])
def test_every_instruction_and_name_is_parsed(name: str, optimize: bool) -> None:
    code, expression = KERNELS[name]
    text = compiled(code, expression, optimize=optimize)
    module = parse(text)
    assert loose_ends(module) == set()
    # Every line with a typed opcode at its start is an instruction of some function, and nothing else is.
    seen = sum(len(list(instructions_of(function))) for function in module.functions.values())
    kinds = ("ld.", "st.", "mov.", "add.", "ret;", "bra", "call", "setp.", "cvt", "mul.", "fma.", "mad.", "selp.")
    lines = [line.strip() for line in text.splitlines()]
    least = sum(line.startswith(kinds) or line.startswith("@") for line in lines)
    assert least <= seen <= sum(line.count(";") for line in lines)
    assert entry_of(module).text_lines[1] < len(lines)


@pytest.mark.parametrize("name", KERNELS)
def test_the_normal_form_does_not_depend_on_names(name: str) -> None:
    code, expression = KERNELS[name]
    text = compiled(code, expression)
    renamed = text.replace("%r", "%q").replace("$L__BB", "$L__QQ").replace("__local_depot", "__local_depot7")
    assert normalise(parse(renamed)) == normalise(parse(text))


def entry(name: str):
    return entry_of(module_of(*KERNELS[name]))


def test_dynamic_shared_memory_has_size_zero() -> None:
    (smem,) = [v for v in module_of(*KERNELS["extern_shared"]).variables if v.space == "shared"]
    assert (smem.size, smem.extern, smem.is_array, smem.alignment >= 4) == (0, True, True, True)


def test_shared_variables_inside_the_kernel_belong_to_it() -> None:
    (tile,) = [v for v in entry("demoted_shared").variables if v.space == "shared"]
    assert (tile.size, tile.is_array, tile.extern) == (16 * 17 * 4, True, False)


def test_strings_with_syntax_characters() -> None:
    strings = [v.init for v in module_of(*KERNELS["printf"]).variables if v.init is not None]
    assert b'%d; {%f} // "\n\0' in strings


@pytest.mark.parametrize(
    ("name", "image"),
    [
        ("table", b"\0\0\x80?\0\0\0@\0\0@@\0\0\x80@" + bytes(16)),
        ("grid", bytes([1, 0, 2, 0, 0, 0, 0xFD, 0xFF, 0, 0, 0, 0])),
        ("counter", b"\xf9\xff\xff\xff"),
        ("half_", b"\0\0\0\0\0\0\xe0?"),
        ("values", None),
    ],
)
def test_initial_values(name: str, image: bytes | None) -> None:
    (variable,) = [v for v in module_of(*KERNELS["constants"]).variables if v.name == name]
    assert variable.init == image
    assert image is None or variable.size == len(image)


def test_addresses_in_initial_values() -> None:
    variables = {v.name: v for v in module_of(*KERNELS["constants"]).variables}
    assert variables["third"].relocations == ((0, "values", 8),)
    first, second = variables["names"].relocations
    assert (first[0], second[0]) == (0, 8)
    assert variables[first[1]].init == b"alpha\0"
    assert variables[second[1]].init == b'b\n"q\0'


def test_launch_bounds() -> None:
    assert entry("vectors").directives == {"maxntid": (128, 1, 1), "minnctapersm": (2,)}


def test_parameters_by_value() -> None:
    function = entry("device_function")
    assert [(p.size, p.space) for p in function.params] == [(8, "param"), (24, "param")]
    (callee,) = [f for f in module_of(*KERNELS["device_function"]).functions.values() if not f.is_entry]
    assert [p.size for p in callee.returns] == [4]


def test_call_parameters_belong_to_their_sequence() -> None:
    function = entry("device_function")
    (call,) = [i for i in instructions_of(function) if i.opcode == "call"]
    returns, callee, arguments = call.operands
    assert isinstance(returns, Vector) and isinstance(arguments, Vector) and isinstance(callee, Symbol)
    declared = {v.name for v in function.variables if v.space == "param"}
    assert {item.name for item in (*returns.elements, *arguments.elements)} <= declared
    stored = {i.operands[0].base.name for i in instructions_of(function) if i.name.startswith("st.param")}
    assert stored == {item.name for item in arguments.elements}


def test_an_indirect_call_has_its_prototype() -> None:
    function = entry("function_pointers")
    (call,) = [i for i in instructions_of(function) if i.opcode == "call"]
    assert isinstance(call.operands[1], Register)
    assert isinstance(call.operands[3], Symbol)
    returns, params = function.prototypes[call.operands[3].name]
    assert ([v.size for v in returns], [v.size for v in params]) == ([4], [4])
    names = {f.name for f in reachable(module_of(*KERNELS["function_pointers"]), function.name)}
    assert {"_Z2f1f", "_Z2f2f"} <= names


def test_names_of_inner_scopes_are_unique() -> None:
    function = entry("inline_asm")
    labels = [item.name for item in function.body or () if not hasattr(item, "opcode")]
    assert len(labels) == len(set(labels))
    assert sum(name.startswith("AGAIN") for name in labels) == 2
    assert sum(name.partition("@")[0] == "p" for name in function.registers) == 3
    (guarded, *_) = [i for i in instructions_of(function) if i.guard is not None]
    assert guarded.guard is not None and guarded.guard.negated
    assert function.registers[guarded.guard.register.name] == "pred"


def test_shuffles_have_two_destinations() -> None:
    shuffles = [i for i in instructions_of(entry("warp")) if i.opcode == "shfl"]
    assert {i.modifiers for i in shuffles} == {("sync", "down", "b32"), ("sync", "bfly", "b32")}
    assert all(isinstance(i.operands[0], Pair) for i in shuffles)


def test_tensor_core_operands_are_vectors() -> None:
    (mma,) = [i for i in instructions_of(entry("tensor_cores")) if i.name.startswith("wmma.mma")]
    assert [len(operand.elements) for operand in mma.operands] == [8, 8, 8, 8]


def test_texture_coordinates_are_a_vector_with_the_texture() -> None:
    (fetch, *_) = [i for i in instructions_of(entry("textures")) if i.opcode == "tex"]
    texture, coordinates = fetch.operands[1].elements
    assert isinstance(texture, Register) and len(coordinates.elements) == 2


def test_locations_have_inlining_chains() -> None:
    code = (
        "__device__ __forceinline__ float inner(float x) { return x * 3.0f; }\n"
        "__device__ __forceinline__ float outer(float x) {\n  return inner(x) + 1.0f;\n}\n"
        "__global__ void k(float* x) {\n  x[0] = outer(x[1]);\n}\n"
    )
    module = module_of(code, "k")
    (fma,) = [i for i in instructions_of(entry_of(module)) if i.opcode in ("fma", "mul")]
    chain = []
    location = fma.location
    while location is not None:
        chain.append((module.files[location.file], location.line, location.function))
        location = location.inlined_at
    outer, kernel = ("/kernels/t.cu", 3, "_Z5outerf"), ("/kernels/t.cu", 6, None)
    assert chain in ([outer, kernel], [("/kernels/t.cu", 1, "_Z5innerf"), outer, kernel])


def test_merged_code_keeps_the_previous_location() -> None:
    code = (
        "__device__ void top(int* at, int v) {\n  if (v >= 0) atomicMax(at, v);\n  else atomicMax(at, v);\n}\n"
        "__global__ void k(int* at, const int* x) {\n  int v = x[threadIdx.x];\n"
        "  if (threadIdx.x % 32 == 0)\n    top(at, v);\n}\n"
    )
    module = module_of(code, "k")
    (merged,) = [i for i in instructions_of(entry_of(module)) if i.opcode == "atom"]
    assert merged.location is not None
    assert merged.location.line in (6, 7, 8)
    assert all(i.location.line for i in instructions_of(entry_of(module)) if i.location)


def test_chains_of_two_call_sites_of_one_function() -> None:
    code = (
        "__device__ __forceinline__ float f(float x) {\n  return x * x;\n}\n"
        "__global__ void k(float* x) {\n  x[0] = f(x[1]);\n  x[2] = f(x[3]);\n}\n"
    )
    module = module_of(code, "k")
    multiplications = [i for i in instructions_of(entry_of(module)) if i.opcode == "mul" and i.modifiers == ("f32",)]
    assert [i.location.line for i in multiplications if i.location] == [2, 2]
    assert [i.location.inlined_at.line for i in multiplications if i.location and i.location.inlined_at] == [5, 6]


@pytest.mark.parametrize("arch", ["sm_70", "sm_90"])
def test_other_architectures(arch: str) -> None:
    module = module_of(*KERNELS["warp"], arch=arch)
    assert module.target == arch
    assert module.address_size == 64
    assert loose_ends(module) == set()


def test_branch_tables() -> None:
    function = entry("dense_switch")
    assert sum(instruction.name == "ret" for instruction in instructions_of(function)) == 1
    indexed = [i for i in instructions_of(function) if i.opcode == "brx"]
    for instruction in indexed:
        assert len(function.branch_targets[instruction.operands[1].name]) > 3


def test_file_names_outside_ascii() -> None:
    from gpuemu_lsp.engine.compile.compiler import compile_source
    from gpuemu_lsp.engine.compile.model import CompileRequest

    result = compile_source(
        CompileRequest("/kernels/größe//a b.cu", "__global__ void k(int* x) { x[0] = 1; }", "sm_80", ("k",))
    )
    assert result.artifact is not None
    assert list(parse(result.artifact.ptx).files.values()) == ["/kernels/größe//a b.cu"]


def test_operand_kinds_of_ordinary_lines() -> None:
    text = compiled("__global__ void k(float* x, int n) { if (n > 3 && n != 7) x[n] = 0.5f; }", "k")
    kinds = {type(operand) for i in instructions_of(entry_of(parse(text))) for operand in i.operands}
    assert {Register, Immediate, Address, Symbol} <= kinds
    assert Negated not in kinds
