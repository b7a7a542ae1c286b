"""Declarations at namespace scope in the forms of C++17, which the device view has to leave as they are.

Each form yields text and the functions that it declares. ``@`` stands for the program's suffix.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from benchmarks.cuda_programs.expressions import Callee
from benchmarks.cuda_programs.types import FLOAT, HALF, INT, LONG, UNSIGNED, UNSIGNED_LONG

PREAMBLE = """
typedef unsigned long long ull;
template <class T> __device__ T quotient(T a, T b) {
    if (b == 0 || (b == (T)-1 && (T)-1 < (T)0)) return a;
    return (T)(a / b);
}
template <class T> __device__ T remainder_of(T a, T b) {
    if (b == 0 || (b == (T)-1 && (T)-1 < (T)0)) return b;
    return (T)(a % b);
}
__device__ inline ull bits(float x) { return x != x ? 0x7fffffffu : __float_as_uint(x); }
__device__ inline ull bits(double x) { return x != x ? 0x7fffffffffffffffull : (ull)__double_as_longlong(x); }
__device__ inline ull bits(__half x) { return __hisnan(x) ? 0x7fff : __half_as_ushort(x); }
__device__ inline ull bits(__nv_bfloat16 x) { return __hisnan(x) ? 0x7fff : __bfloat16_as_ushort(x); }
template <class T> __device__ ull bits(T x) { return (ull)x; }
"""
"""Helpers of every program; ``bits`` hides the sign and payload of NaNs."""

_U, _I, _L, _F = UNSIGNED, INT, LONG, FLOAT
_Form = Callable[[random.Random], tuple[str, list[Callee]]]


def _constants(rng: random.Random) -> tuple[str, list[Callee]]:
    n = rng.choice([2, 4, 6, 10])
    text = f"""#define SIZE@ {n}
constexpr unsigned half@(SIZE@ / 2);
constexpr int more@{{SIZE@ + 1}}, less@ = {{SIZE@ - 1}};
static const long long large@ = 1'000'000'007LL, hex@ = 0xFF'FF;
const auto product@ = (unsigned)(more@ * (less@));
constexpr bool wide@ = sizeof(int) > (2), narrow@(!wide@);
inline constexpr float scale@(0x1.8p1f);
template <class T> constexpr T ratio@ = T(SIZE@) / T(2);
static_assert(half@ * 2 == SIZE@, "even (");"""
    return text, [
        Callee("({} + half@ * product@)", _U, (_U,)),
        Callee("(long long)((ull){} * (ull)large@ - (ull)hex@)", _L, (_L,)),
        Callee("(narrow@ ? {} : more@)", _I, (_I,)),
        Callee("({} * scale@ + ratio@<float>)", _F, (_F,)),
    ]


def _tables(rng: random.Random) -> tuple[str, list[Callee]]:
    numbers = ", ".join(str(rng.getrandbits(32)) + "u" for _ in range(8))
    a, b, c, d = (f"{rng.uniform(-9, 9):.3f}f" for _ in range(4))
    text = f"""__constant__ unsigned table@[8] = {{{numbers}}};
__device__ const float weights@[2][2] = {{{{{a}, {b}}}, {{{c}, {d}}}}};
__device__ static const char letters@[] = "{{a\\"b;}}//";
__constant__ struct {{ int a; short b[2]; }} pair@ = {{{rng.randrange(99)}, {{-1, {rng.randrange(99)}}}}};"""
    return text, [
        Callee("table@[{} & 7u]", _U, (_U,)),
        Callee("weights@[{} & 1u][{} & 1u]", _F, (_U, _U)),
        Callee("(int)letters@[{} & 7u]", _I, (_U,)),
        Callee("(pair@.a + pair@.b[{} & 1u])", _I, (_U,)),
    ]


def _struct(rng: random.Random) -> tuple[str, list[Callee]]:
    text = """struct Point@ {
    static constexpr int dimensions = 3;
    using value_type = int;
    int x{1}, y = 2;
    unsigned char tag : 3, rest : 5;
    __device__ Point@(int a, int b) : x(a), y{b}, tag(a & 7), rest(b & 31) {}
    __device__ Point@() : tag(5), rest(17) {}
    __device__ Point@ operator+(const Point@& o) const {
        return {(int)((unsigned)x + (unsigned)o.x), (int)((unsigned)y - (unsigned)o.y)};
    }
    __device__ bool operator<(Point@ o) const noexcept { return x < o.x || (x == o.x && y < o.y); }
    __device__ int operator[](unsigned i) const { return i == 0 ? x : y; }
    __device__ explicit operator bool() const { return x != 0; }
    template <class F> __device__ int with(F f) const { return f(x, y); }
    __device__ friend int dot@(const Point@& a, const Point@& b);
};
__device__ inline int dot@(const Point@& a, const Point@& b) {
    return (int)((unsigned)a.x * (unsigned)b.x + (unsigned)a.y * (unsigned)b.y + (unsigned)a.tag * b.rest);
}
__device__ auto larger@(Point@ a, Point@ b) -> Point@ { return a < b ? b : a; }"""
    return text, [
        Callee("dot@(Point@({}, {}), Point@{{{}, {}}})", _I, (_I,) * 4),
        Callee("larger@({{{}, {}}}, Point@() + Point@({}, {}))[{} & 1u]", _I, (_I, _I, _I, _I, _U)),
        Callee("(Point@({}, {}) ? Point@::dimensions : -1)", _I, (_I, _I)),
        Callee("Point@({}, {}).with([](int a, int b) {{ return a > b ? a & b : a ^ b; }})", _I, (_I, _I)),
    ]


def _enum(rng: random.Random) -> tuple[str, list[Callee]]:
    text = """enum class Mode@ : unsigned char { first = 1, second, third = 1 << 3 };
enum { low@ = -2, high@ = +3 };
[[nodiscard]] __device__ constexpr unsigned number@(Mode@ m) noexcept {
    switch (m) {
        case Mode@::first: return 10u;
        case Mode@::second: { return 20u; }
        default: break;
    }
    return static_cast<unsigned>(m) + 30u;
}"""
    return text, [
        Callee("number@(static_cast<Mode@>({} & 3u))", _U, (_U,)),
        Callee("(number@(Mode@::third) ^ {})", _U, (_U,)),
        Callee("({} > high@ ? low@ : (int)high@)", _I, (_I,)),
    ]


def _templates(rng: random.Random) -> tuple[str, list[Callee]]:
    text = """template <int N, class T = unsigned> struct Power@ {
    __device__ static T of(T x) { return x * Power@<N - 1, T>::of(x); }
};
template <class T> struct Power@<0, T> {
    __device__ static T of(T) { return T(1); }
};
template <class T> __device__ auto twice@(T x) {
    if constexpr (sizeof(T) == 4 && (T)-1 > (T)0) return x << 1;
    else return (T)(x >> 1);
}
template <class... Ts> __device__ unsigned sum@(Ts... all) { return (0u + ... + (unsigned)all); }
template <unsigned W> using Small@ = Power@<(W > 1 ? 2 : 1)>;
template <class F, class... As> __device__ decltype(auto) apply@(F&& f, As&&... as) { return f(as...); }"""
    return text, [
        Callee("Power@<3>::of({})", _U, (_U,)),
        Callee("Power@<2, ull>::of({})", UNSIGNED_LONG, (UNSIGNED_LONG,)),
        Callee("Small@<4>::of({})", _U, (_U,)),
        Callee("twice@({})", _U, (_U,)),
        Callee("twice@<long long>({})", _L, (_L,)),
        Callee("sum@({}, {}, {})", _U, (_U, _I, _L)),
        Callee("apply@([](unsigned a, int b) {{ return a ^ (unsigned)b; }}, {}, {})", _U, (_U, _I)),
    ]


def _namespaces(rng: random.Random) -> tuple[str, list[Callee]]:
    text = """namespace outer@::inner {
using word = unsigned;
constexpr word odd = 7;
__device__ inline word mix(word a, word b = odd) { return (a ^ b) * 0x9E3779B1u; }
namespace {
__device__ word hidden(word a) { return a | 1u; }
}  // namespace
}  // namespace outer@::inner
namespace short@ = outer@::inner;
using outer@::inner::mix;
typedef outer@::inner::word word@;"""
    return text, [
        Callee("short@::mix({})", _U, (_U,)),
        Callee("outer@::inner::mix({}, {})", _U, (_U, _U)),
        Callee("word@(short@::hidden({}))", _U, (_U,)),
    ]


def _macros(rng: random.Random) -> tuple[str, list[Callee]]:
    text = """#define CLAMP@(x, lo, hi) \\
    ((x) < (lo) ? (lo) : \\
     (x) > (hi) ? (hi) : (x))
#if defined(SOMETHING_ELSE) && (SOMETHING_ELSE > 1)
this is not C++ { ( "
#elif 1 /* { */
#define DEVICE@ __device__ __forceinline__
#endif
// A comment with a brace { and a "quote
DEVICE@ int clamped@(int x) { return CLAMP@(x, -100, 100); }
DEVICE@ float folded@(float x) { return CLAMP@(x, -2.5f, 1e3f); }
__device__ constexpr const char* text@ = R"x(}; __global__ void no() { )")x";"""
    return text, [
        Callee("clamped@({})", _I, (_I,)),
        Callee("folded@({})", _F, (_F,)),
        Callee("(int)text@[{} & 15u]", _I, (_U,)),
    ]


def _lambdas(rng: random.Random) -> tuple[str, list[Callee]]:
    text = """__device__ int chosen@(int x, unsigned which) {
    const auto square = [](int v) { return (int)((unsigned)v * (unsigned)v); };
    auto added = [x](auto v) mutable { x ^= (int)v; return x; };
    int total = 0;
    auto count = [&total, &square](int v) -> int { total = square(v) & 0xff; return total; };
    switch (which & 3u) {
        case 0: return square(x);
        case 1: return added(which);
        case 2: count(x); break;
        default: total = added(1) ^ added(2);
    }
    return total;
}
struct Functor@ {
    int k;
    __device__ int operator()(int v) const { return v > k ? v & k : v | k; }
};
template <class F> __device__ int folded_with@(F f, int a, int b) {
    int values[] = {a, b, f(a)};
    int r = 0;
    for (const int& v : values) r ^= f(v);
    return r;
}"""
    return text, [
        Callee("chosen@({}, {})", _I, (_I, _U)),
        Callee("folded_with@(Functor@{{{}}}, {}, {})", _I, (_I, _I, _I)),
    ]


def _bindings(rng: random.Random) -> tuple[str, list[Callee]]:
    text = """struct Range@ { int first; unsigned long long second; float third; };
__device__ Range@ made@(int a, ull b) {
    Range@ r{};
    if (const unsigned low = (unsigned)b & 15u; low > 7u) r.first = a;
    else r = Range@{(int)low, b, 0.5f};
    return r;
}
__device__ ull bound@(int a, ull b) {
    auto [x, y, z] = made@(a, b);
    const int pair[2] = {x, x ^ 5};
    const auto& [p, q] = pair;
    return (ull)(long long)p + y + (z > 0.25f ? (ull)(unsigned)q : 1ull);
}
union Bits@ {
    unsigned word;
    unsigned char bytes[4];
};
struct alignas(8) Aligned@ { short a; alignas(4) signed char b; };
__device__ int sizes@(unsigned w) {
    Bits@ u;
    u.word = w;
    Aligned@ s = {(short)w, (signed char)(w >> 16)};
    Aligned@* const p = &s;
    p->a = (short)(p->a ^ p->b);
    return (int)(sizeof(Aligned@) * alignof(Aligned@)) + p->a + (int)(u.word & 255u);
}"""
    return text, [Callee("bound@({}, {})", UNSIGNED_LONG, (_I, UNSIGNED_LONG)), Callee("sizes@({})", _I, (_U,))]


def _pointers(rng: random.Random) -> tuple[str, list[Callee]]:
    text = """__device__ void swapped@(unsigned& a, unsigned* b) { const unsigned t = a; a = *b; *b = t; }
__device__ __noinline__ unsigned walked@(const unsigned* p, int n) {
    unsigned r = 1;
    while (n-- > 0) r = r * 31u + *p++;
    return r;
}
__device__ unsigned locals@(unsigned a, unsigned b, unsigned i) {
    unsigned values[4] = {a, b};
    swapped@(values[i & 3u], &values[(i >> 2) & 3u]);
    unsigned* const last = values + 3;
    *last += a;
    return walked@(values, 1 + (int)(i & 3u)) ^ last[-1];
}
__device__ __noinline__ float far@(float x, __half h) {
    if (x < 0.0f) return -x;
    do x = x * 0.5f; while (x > 100.0f && x < 1e30f);
    return x + __half2float(h);
}"""
    return text, [Callee("locals@({}, {}, {})", _U, (_U, _U, _U)), Callee("far@({}, {})", _F, (_F, HALF))]


def _literals(rng: random.Random) -> tuple[str, list[Callee]]:
    text = """__device__ constexpr unsigned operator""_k@(unsigned long long v) { return (unsigned)v * 1024u; }
constexpr char16_t letter@ = u'\\u00e9';
constexpr unsigned binary@ = 0b1010'1010u, octal@ = 0'17, character@ = '\\'', brace@ = '{';
extern "C" __device__ unsigned linked@(unsigned a) { return a + 3_k@; }
extern "C" {
__device__ int linked_too@(int a) { return a ^ 0x55; }
}"""
    return text, [
        Callee("linked@({} ^ binary@)", _U, (_U,)),
        Callee("(linked_too@({}) & (int)(octal@ | brace@ | character@ | letter@))", _I, (_I,)),
    ]


FORMS: tuple[_Form, ...] = (
    _constants, _tables, _struct, _enum, _templates, _namespaces, _macros, _lambdas, _bindings, _pointers, _literals
)  # fmt: skip

HOST_ONLY = """#include <iostream>
#include <vector>
#include <string>
#include <cuda_fp16.h>
#include <cuda_bf16.h>
"""
"""Head of a file of programs, of which the device view keeps only the device headers."""


def launcher(name: str, grid: int, block: int) -> str:
    """Return a host function that launches kernel ``name``, which the device view has to remove."""
    return f"""static std::vector<unsigned long long> run_{name}(const std::vector<unsigned>& in) {{
    unsigned* d_in; unsigned long long *d_out, *d_sums;
    cudaMalloc(&d_in, in.size() * sizeof(unsigned)); cudaMalloc(&d_out, 1 << 20); cudaMalloc(&d_sums, 64);
    {name}<<<{grid}, {block}>>>(d_in, d_out, d_sums);
    if (cudaDeviceSynchronize() != cudaSuccess) std::cerr << "failed {{" << std::string("{name}") << '\\n';
    return {{}};
}}
"""
