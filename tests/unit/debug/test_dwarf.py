"""DWARF of NVRTC's unoptimised PTX: scopes, types and places of variables."""

from __future__ import annotations

from support.emulator_launch import compile_ptx

from gpuemu_lsp.engine.debug.dwarf.entries import scopes_of
from gpuemu_lsp.engine.debug.dwarf.model import SourceVariable, all_scopes
from gpuemu_lsp.engine.debug.dwarf.sections import assembled
from gpuemu_lsp.engine.ptx.slicing import ModuleText

ZOO = """
enum Mode { ADD = 1, SCALE = 2 };
struct Pair { int first; float second; };
struct Node { Pair pair; double weights[3]; };
struct Flags { unsigned low : 4, high : 3; int sign : 2; };

__device__ __forceinline__ float squared(float v) { float doubled = v * v; return doubled; }
__device__ __noinline__ float halved(float h) { float result = h * 0.5f; return result; }

template <typename T>
__global__ void zoo(const T* x, T* y, int n, Mode mode) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    Node node;
    node.pair.first = n;
    node.weights[2] = 1.5;
    Flags flags;
    flags.high = n;
    bool inside = i < n;
    if (inside) {
        unsigned long long wide = (unsigned long long)i << 32;
        y[i] = squared(x[i]) + halved(x[i]) + (mode == SCALE ? node.weights[i % 3] : (T)wide);
    }
}
template __global__ void zoo<float>(const float*, float*, int, Mode);
__global__ void other(int* z) { int only = threadIdx.x; z[only] = only; }
"""


def variables() -> dict[str, SourceVariable]:
    text = compile_ptx(ZOO, "-G")
    module = ModuleText(text)
    # As the product has it: the code of one kernel, and the sections of all.
    code = module.slice(["_Z3zooIfEvPKT_PS0_i4Mode"])
    scopes = scopes_of(assembled(code, module.debug_sections))
    return {variable.name: variable for scope in all_scopes(scopes) for variable in scope.variables}


def test_variables_have_types_and_places():
    found = variables()
    kinds = {name: (one.type.kind, one.type.size) for name, one in found.items()}
    assert kinds["x"] == kinds["y"] == ("pointer", 8)
    assert kinds["n"] == kinds["i"] == ("base", 4)
    assert kinds["mode"] == ("enum", 4) and dict(found["mode"].type.enumerators) == {"ADD": 1, "SCALE": 2}
    assert kinds["inside"] == ("base", 1) and found["inside"].type.encoding == "bool"
    assert kinds["wide"] == ("base", 8) and found["wide"].type.encoding == "uint"
    assert kinds["doubled"] == kinds["result"] == ("base", 4) and found["doubled"].type.encoding == "float"
    node = found["node"].type
    assert node.kind == "struct" and [(name, offset) for name, offset, _ in node.members] == [
        ("pair", 0),
        ("weights", 8),
    ]
    assert node.members[1][2].counts == (3,)
    assert {storage.space for _, _, storage in found["node"].storages} == {"local"}
    assert all(low < high for one in found.values() for low, high, _ in one.storages)


def test_members_of_some_bits_are_numbers_of_their_own():
    members = {name: type_ for name, _, type_ in variables()["flags"].type.members}
    data = 0b10_101_0011
    assert {name: type_.number(data) for name, type_ in members.items()} == {"low": 3, "high": 5, "sign": -2}


def test_the_variables_of_a_kernel_that_was_cut_out_have_no_scope():
    assert "only" not in variables()


def test_code_without_debug_information_has_no_variables():
    text = compile_ptx(ZOO)
    assert scopes_of(assembled(text, ModuleText(text).debug_sections)) == ()
