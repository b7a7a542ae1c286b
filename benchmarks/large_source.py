"""Generated CUDA sources of any length, built like those of a library: helpers, macros, templates, host launches.

Unit by unit, so that two sources of different length differ in nothing else: a comment, a macro, device helpers, a
kernel of one of four kinds, the host function that launches it, and host code up to the wanted number of lines.
"""

from __future__ import annotations

from collections.abc import Iterator

_HEAD = """\
// Generated: {kernels} kernels in about {lines} lines.
#include <cstdio>
#include <cstdlib>
#include <vector>
#include <cuda_runtime.h>

#define CHECK(call)                                                                    \\
    do {{                                                                               \\
        cudaError_t status = (call);                                                   \\
        if (status != cudaSuccess) {{ fprintf(stderr, "%s\\n", cudaGetErrorString(status)); exit(1); }} \\
    }} while (0)
#define CEIL_DIV(a, b) (((a) + (b) - 1) / (b))

constexpr int BLOCK = 256;
constexpr int TILE = 16;

template <typename T>
__device__ __forceinline__ T clamp_to(T value, T low, T high) {{
    return value < low ? low : value > high ? high : value;
}}

__device__ __forceinline__ float warp_sum(float value) {{
    for (int offset = 16; offset > 0; offset >>= 1) value += __shfl_xor_sync(0xffffffffu, value, offset);
    return value;
}}
"""

_HELPERS = """
/*
 * Stage {i}: {words}.
 * The constants were fitted offline; see the notes in the repository's wiki.
 */
#define SCALE_{i} {scale}f
#if defined(USE_FAST_{i})
#define ROUND_{i}(x) __float2int_rn(x)
#else
#define ROUND_{i}(x) static_cast<int>(rintf(x))
#endif

struct Stage{i}Params {{
    float gain;  // multiplies every element
    float offset;
}};

__device__ inline float stage_{i}(float x) {{
    // A rational approximation: exact at 0, monotone between -4 and 4.
    const float clamped = clamp_to(x, -4.0f, 4.0f);
    return clamped * SCALE_{i} / (1.0f + clamped * clamped);
}}
"""

_KERNELS = (
    """
__global__ void map_{i}(const float* __restrict__ in, float* __restrict__ out, int n) {{
    const int index = blockIdx.x * blockDim.x + threadIdx.x;
    if (index {less} n) out[index] = stage_{i}(in[index]);
}}
""",
    """
__global__ void axpy_{i}(const float* __restrict__ x, float* __restrict__ y, float alpha, int n) {{
    for (int index = blockIdx.x * blockDim.x + threadIdx.x; index < n; index += gridDim.x * blockDim.x) {{
        y[index] = alpha * stage_{i}(x[index]) + y[index];
    }}
}}
""",
    """
__global__ void rows_{i}(const float* __restrict__ in, float* __restrict__ out, int rows, int columns) {{
    const int row = blockIdx.x;
    float sum = 0.0f;
    for (int column = threadIdx.x; column < columns; column += blockDim.x) sum += stage_{i}(in[row * columns + column]);
    __shared__ float partial[BLOCK / 32];
    sum = warp_sum(sum);
    if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {{
        float total = 0.0f;
        for (int warp = 0; warp < BLOCK / 32; ++warp) total += partial[warp];
        out[row] = total;
    }}
}}
""",
    """
template <typename T>
__global__ void transpose_{i}(const T* __restrict__ in, T* __restrict__ out, int rows, int columns) {{
    __shared__ T tile[TILE][TILE + 1];
    int x = blockIdx.x * TILE + threadIdx.x, y = blockIdx.y * TILE + threadIdx.y;
    if (x < columns && y < rows) tile[threadIdx.y][threadIdx.x] = in[y * columns + x];
    __syncthreads();
    x = blockIdx.y * TILE + threadIdx.x, y = blockIdx.x * TILE + threadIdx.y;
    if (x < rows && y < columns) out[y * rows + x] = tile[threadIdx.x][threadIdx.y];
}}
""",
)

_LAUNCHES = (
    """
void run_map_{i}(const float* in, float* out, int n) {{
    map_{i}<<<CEIL_DIV(n, BLOCK), BLOCK>>>(in, out, n);
    CHECK(cudaGetLastError());
}}
""",
    """
void run_axpy_{i}(const float* x, float* y, float alpha, int n) {{
    const int blocks = CEIL_DIV(n, BLOCK);
    axpy_{i}<<<blocks, BLOCK>>>(x, y, alpha, n);
    CHECK(cudaGetLastError());
}}
""",
    """
void run_rows_{i}(const float* in, float* out, int rows, int columns) {{
    rows_{i}<<<rows, BLOCK>>>(in, out, rows, columns);
    CHECK(cudaGetLastError());
}}
""",
    """
void run_transpose_{i}(const float* in, float* out, int rows, int columns) {{
    dim3 block(TILE, TILE);
    dim3 grid(CEIL_DIV(columns, TILE), CEIL_DIV(rows, TILE));
    transpose_{i}<float><<<grid, block>>>(in, out, rows, columns);
    CHECK(cudaGetLastError());
}}
""",
)

_HOST = (
    """
static float reference_{i}_{j}(const std::vector<float>& values, int first, int last) {{
    float sum = 0.0f;  // in the order of the elements
    for (int index = first; index < last; ++index) {{
        const float value = values[index];
        if (value != value) continue;
        sum += value > 0.5f ? value * {scale}f : -value;
    }}
    return sum;
}}
""",
    """
// Prints the {j}th table of stage {i}; the columns are those of the paper.
static void print_{i}_{j}(const char* title, const float* values, int count) {{
    printf("%s ({words})\\n", title);
    for (int index = 0; index < count; ++index) {{
        switch (index % 4) {{
            case 0: printf("  %8.3f", values[index]); break;
            case 3: printf("  %8.3f\\n", values[index]); break;
            default: printf(" %9.4f", values[index]);
        }}
    }}
}}
""",
    """
struct Options{i}_{j} {{
    int repeats = {j};
    bool verbose = false;
    std::vector<float> weights;

    bool parse(int argc, char** argv) {{
        for (int index = 1; index < argc; ++index) {{
            if (argv[index][0] == '-') verbose = argv[index][1] == 'v';
            else repeats = atoi(argv[index]);
        }}
        return repeats > 0;
    }}
}};
""",
)
_WORDS = ("normalises its input", "smooths a signal", "adds a bias", "sums each row", "exchanges rows and columns")


def large_source(kernels: int, lines: int) -> str:
    """Return a source with a number of kernels in about a number of lines. The first kernel reads out of bounds."""
    head = _HEAD.format(kernels=kernels, lines=lines)
    each = (lines - head.count("\n")) / kernels
    text, wanted = [head], float(head.count("\n"))
    written = head.count("\n")
    for number in range(kernels):
        wanted += each
        for piece in _unit(number):
            text.append(piece)
            written += piece.count("\n")
        for piece in _padding(number):
            if written + piece.count("\n") > wanted:
                break
            text.append(piece)
            written += piece.count("\n")
    return "".join(text)


def kernel_names(kernels: int) -> list[str]:
    """Return the names of the kernels of such a source, in order."""
    return [f"{('map', 'axpy', 'rows', 'transpose')[number % 4]}_{number}" for number in range(kernels)]


def _unit(number: int) -> Iterator[str]:
    values = {
        "i": number,
        "scale": f"{1 + number / 16:.4f}",
        "words": _WORDS[number % len(_WORDS)],
        "less": "<=" if number == 0 else "<",
    }
    yield _HELPERS.format(**values)
    yield _KERNELS[number % 4].format(**values)
    yield _LAUNCHES[number % 4].format(**values)


def _padding(number: int) -> Iterator[str]:
    for index in range(1 << 20):
        values = {"i": number, "j": index, "scale": f"{1 + index / 8:.3f}", "words": _WORDS[index % len(_WORDS)]}
        yield _HOST[index % 3].format(**values)
