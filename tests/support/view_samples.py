"""CUDA sources in usual styles whose device views must compile, with the name expressions to instantiate."""

from __future__ import annotations

from typing import NamedTuple


class Sample(NamedTuple):
    """A .cu text, the kernels to compile from it, and the names and texts of its headers."""

    name: str
    text: str
    expressions: tuple[str, ...] = ("k",)
    headers: tuple[tuple[str, str], ...] = ()


_PLAIN = "__global__ void k(float* x, int n) { int i = threadIdx.x; if (i < n) x[i] = 1.f; }\n"

SAMPLES = (
    Sample("bare", _PLAIN),
    Sample("empty host main", _PLAIN + "int main() { k<<<1, 32>>>(nullptr, 3); return 0; }\n"),
    Sample(
        "everything a tutorial has",
        r"""
#include <iostream>
#include <cstdlib>
#include <vector>
#include <random>
#include <cuda_runtime.h>
#include <cublas_v2.h>
using namespace std;
#define CHECK(call) { const cudaError_t e = call; if (e != cudaSuccess) { \
    fprintf(stderr, "%s:%d %s\n", __FILE__, __LINE__, cudaGetErrorString(e)); exit(1); } }
#define N 1024
const int BLOCK = 256;
static float* host_buffer = (float*)malloc(N * sizeof(float));
int devices = 0;
inline int ceil_div(int a, int b) { return (a + b - 1) / b; }
void fill(float* x, int n) { std::mt19937 g(1); for (int i = 0; i < n; ++i) x[i] = g() / 4e9f; }
__global__ void k(const float* __restrict__ x, float* y, int n) {
  __shared__ float tile[BLOCK];
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  tile[threadIdx.x] = i < n ? x[i] : 0.0f;
  __syncthreads();
  if (i < n) y[i] = tile[threadIdx.x] + ceil_div(n, BLOCK);
}
int main(int argc, char** argv) {
  std::vector<float> h(N); fill(h.data(), N);
  float *dx, *dy; CHECK(cudaMalloc(&dx, N * 4)); CHECK(cudaMalloc((void**)&dy, N * 4));
  k<<<ceil_div(N, BLOCK), BLOCK>>>(dx, dy, N);
  CHECK(cudaDeviceSynchronize());
  std::cout << "done" << std::endl;
}
""",
    ),
    Sample(
        "PyTorch extension",
        r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAGuard.h>
#include <vector>
#define CHECK_CUDA(x) TORCH_CHECK(x.device().is_cuda(), #x " must be a CUDA tensor")
#define CHECK_INPUT(x) CHECK_CUDA(x); TORCH_CHECK(x.is_contiguous())
namespace {
template <typename scalar_t>
__device__ __forceinline__ scalar_t sigmoid(scalar_t z) { return 1.0 / (1.0 + exp(-z)); }
template <typename scalar_t>
__global__ void k(const scalar_t* __restrict__ x, scalar_t* __restrict__ y, size_t size) {
  const int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
  if (i < size) y[i] = sigmoid(x[i]);
}
}  // namespace
torch::Tensor forward(torch::Tensor x) {
  CHECK_INPUT(x);
  const at::cuda::OptionalCUDAGuard guard(device_of(x));
  auto y = torch::empty_like(x);
  AT_DISPATCH_FLOATING_TYPES_AND_HALF(x.scalar_type(), "forward", ([&] {
    k<scalar_t><<<(x.numel() + 255) / 256, 256, 0, at::cuda::getCurrentCUDAStream()>>>(
        x.data_ptr<scalar_t>(), y.data_ptr<scalar_t>(), x.numel());
  }));
  return y;
}
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward, "forward"); }
TORCH_LIBRARY_FRAGMENT(mylib, m) { m.def("forward(Tensor x) -> Tensor"); }
""",
        ("k<float>", "k<double>"),
    ),
    Sample(
        "half that only torch's header brings",
        "#include <torch/extension.h>\n"
        "__global__ void k(const __half* x, __half* y, int n) { if (threadIdx.x < n) y[threadIdx.x] = __hadd(x[0], x[1]); }\n",
    ),
    Sample(
        "LeetGPU style solve",
        "#include <cuda_runtime.h>\n"
        + _PLAIN
        + 'extern "C" void solve(float* x, int n) {\n  k<<<(n + 255) / 256, 256>>>(x, n);\n  cudaDeviceSynchronize();\n}\n',
    ),
    Sample(
        "helper in a header",
        '#include "kernel_math.h"\n'
        "__global__ void k(const float* in, float* out, int n) {\n"
        "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n  if (i < n) out[i] = gelu_forward(in[i]);\n}\n",
        headers=(
            (
                "kernel_math.h",
                "// pure math\ninline float gelu_forward(float x) {\n  const float c = 0.7978845608f;\n"
                "  return 0.5f * x * (1.0f + tanhf(c * (x + 0.044715f * x * x * x)));\n}\n",
            ),
        ),
    ),
    Sample(
        "header full of host code",
        '#include "common.h"\n__global__ void k(float* x) { x[0] = lerp(x[1], x[2], ceil_div(7, 2)) * WARP; }\n',
        headers=(
            (
                "common.h",
                "#pragma once\n#include <stdio.h>\n#include <string>\n#include <chrono>\n#define WARP 32\n"
                "extern cudaDeviceProp prop;\nstruct Timer { std::chrono::steady_clock::time_point t; void start(); };\n"
                'void check(cudaError_t e, const char* f) { if (e) { printf("%s", cudaGetErrorString(e)); exit(1); } }\n'
                "#define CHECK(x) check(x, __FILE__)\n"
                "template <class T> __host__ __device__ T ceil_div(T a, T b) { return (a + b - 1) / b; }\n"
                "static float lerp(float a, float b, float t) { return fma(t, b, fma(-t, a, a)); }\n"
                "inline float* random_floats(size_t n) { float* p = (float*)malloc(n); p[0] = rand(); return p; }\n",
            ),
        ),
    ),
    Sample(
        "header that includes a header in another folder",
        '#include "a/first.cuh"\n__global__ void k(float* x) { x[0] = first(x[1]); }\n',
        headers=(
            (
                "a/first.cuh",
                '#ifndef A_H\n#define A_H\n#include "../b/second.cuh"\n'
                "__device__ float first(float v) { return second(v) + 1; }\n#endif\n",
            ),
            (
                "b/second.cuh",
                "#pragma once\n#include <iostream>\nvoid show() { std::cout << 1; }\n"
                "__device__ inline float second(float v) { return v * 2; }\n",
            ),
        ),
    ),
    Sample(
        "anonymous and nested namespaces, aliases",
        "namespace a::b { namespace { constexpr int kSize = 4; using real = float; }\n"
        "template <int S = kSize> __global__ void k(real* x) { x[0] = S; } }\nnamespace c = a::b;\nusing namespace a::b;\n"
        "void host() { c::k<8><<<1, 1>>>(nullptr); }\n",
        ("a::b::k<4>",),
    ),
    Sample(
        "functors for a template kernel",
        "template <typename T> struct Add { __device__ T operator()(T a, T b) const { return a + b; } };\n"
        "struct Sub { float bias; Sub(float b) : bias{b}, other{0} {} float other;\n"
        "  __host__ __device__ float operator()(float a, float b) const { return a - b - bias; } };\n"
        "template <typename Op> __global__ void k(float* x, Op op) { x[0] = op(x[1], x[2]); }\n"
        "template <typename Op> void launch(float* x, Op op) { k<<<1, 1>>>(x, op); }\n"
        "int main() { launch(nullptr, Add<float>()); launch(nullptr, Sub(1.f)); }\n",
        ("k<Add<float>>", "k<Sub>"),
    ),
    Sample(
        "struct with host members",
        "#include <string>\n#include <iostream>\nstruct Params {\n public:\n  float alpha; int n;\n  Params() = default;\n"
        '  std::string describe() const { return "alpha " + std::to_string(alpha); }\n'
        '  static Params load(const char* path) { FILE* f = fopen(path, "r"); Params p; fclose(f); return p; }\n'
        "  __host__ __device__ float scaled(float v) const { return v * alpha; }\n"
        "  friend std::ostream& operator<<(std::ostream& o, const Params& p) { return o << p.n; }\n};\n"
        "__global__ void k(float* x, Params p) { x[0] = p.scaled(x[0]); }\n",
    ),
    Sample(
        "operators on a vector type",
        "struct Vec { float x, y; };\n__host__ __device__ Vec operator+(Vec a, Vec b) { return {a.x + b.x, a.y + b.y}; }\n"
        "inline Vec operator*(Vec a, float s) { return {a.x * s, a.y * s}; }\n"
        "std::ostream& operator<<(std::ostream& o, const Vec& v) { return o << v.x; }\n"
        "__global__ void k(Vec* v) { v[0] = v[1] + v[2] * 2.f; }\n",
    ),
    Sample(
        "macro attributes",
        '#ifdef __CUDACC__\n#define HD __host__ __device__\n#define KERNEL extern "C" __global__ void\n#else\n#define HD\n'
        "#define KERNEL void\n#endif\n#define INLINE __forceinline__\n#define BOUNDS(n) __launch_bounds__(n)\n"
        "HD INLINE float sq(float v) { return v * v; }\nKERNEL BOUNDS(128) k(float* x) { x[0] = sq(x[0]); }\n",
    ),
    Sample(
        "kernels made by a macro",
        "#define MAKE(T, NAME, OP) \\\n  __global__ void NAME##_##T(T* x, int n) { \\\n"
        "    int i = threadIdx.x; if (i < n) x[i] = x[i] OP 2; }\nMAKE(float, add, +)\nMAKE(int, mul, *)\n#undef MAKE\n"
        "int main() { add_float<<<1, 1>>>(0, 0); }\n",
        ("add_float", "mul_int"),
    ),
    Sample(
        "namespace macros",
        '#define BEGIN_NS namespace mine {\n#define END_NS }\nBEGIN_NS\nvoid host() { printf("x"); std::abort(); }\n'
        + _PLAIN
        + "END_NS\nint main() { mine::k<<<1, 1>>>(0, 0); }\n",
        ("mine::k",),
    ),
    Sample(
        "two heads for one body",
        "#ifdef USE_DOUBLE\n__global__ void k(double* x, int n) {\n#else\n__global__ void k(float* x, int n) {\n#endif\n"
        "  x[0] = n;\n}\nint main() {\n#ifdef USE_DOUBLE\n  double* p;\n#else\n  float* p;\n#endif\n  k<<<1, 1>>>(p, 1);\n}\n",
    ),
    Sample(
        "platform errors",
        '#if defined(_WIN32)\n#include <windows.h>\n#elif defined(__linux__)\n#include <unistd.h>\n#else\n#error "what is this"\n'
        "#endif\n#if CUDART_VERSION < 9000\n#error too old\n#endif\n" + _PLAIN,
    ),
    Sample(
        "constant memory, tables, enums, unions",
        "enum Mode { FAST, SLOW = 5 };\nenum class Kind : unsigned { A, B };\nunion Bits { float f; unsigned u; };\n"
        "typedef struct { float a; int b; } Pair;\ntypedef float (*Unary)(float);\nusing Quad = float4;\n"
        "__constant__ float table[4] = {1, 2, 3, 4};\nconstexpr float lut[3] = {1.f, 2.f, 3.f};\n"
        "__device__ int counter = 0, other;\nstatic __device__ float twice(float v) { return 2 * v; }\n"
        "__global__ void k(Quad* x, Pair* p, Mode m, Kind q) {\n  Bits b; b.u = 1; Unary f = twice; constexpr float c = lut[1];\n"
        "  if (m == SLOW && q == Kind::B) { atomicAdd(&counter, 1); x->x = f(b.f) + table[threadIdx.x] + p->a + c; }\n}\n",
    ),
    Sample(
        "cooperative groups for the device",
        "#include <cooperative_groups.h>\n#include <cooperative_groups/reduce.h>\nnamespace cg = cooperative_groups;\n"
        "__global__ void k(float* x) { auto w = cg::tiled_partition<32>(cg::this_thread_block());\n"
        "  float s = cg::reduce(w, x[threadIdx.x], cg::plus<float>()); if (w.thread_rank() == 0) x[0] = s; }\n",
    ),
    Sample(
        "thrust and cub for the host",
        "#include <thrust/device_vector.h>\n#include <thrust/sort.h>\n#include <cub/cub.cuh>\n"
        + _PLAIN
        + "struct Square { __host__ __device__ float operator()(float v) const { return v * v; } };\n"
        "void run() { thrust::device_vector<float> v(4); thrust::transform(v.begin(), v.end(), v.begin(), Square());\n"
        "  k<<<1, 1>>>(thrust::raw_pointer_cast(v.data()), 4); }\n",
    ),
    Sample(
        "device lambdas in host code",
        _PLAIN + "template <typename F> __global__ void apply(float* x, F f) { x[0] = f(x[0]); }\n"
        "int main() { auto f = [] __device__(float v) { return v + 1; }; apply<<<1, 1>>>((float*)0, f); }\n",
    ),
    Sample(
        "explicit instantiations and specialisations",
        "template <typename T> struct Traits { static constexpr int size = 1; };\n"
        "template <> struct Traits<float> { static constexpr int size = 4; };\n"
        "template <typename T, int N = Traits<T>::size> __global__ void k(T* x) { x[0] = N; }\n"
        "template __global__ void k<float>(float*);\ntemplate <typename T> void launch(T* x) { k<T><<<1, 1>>>(x); }\n"
        "template void launch<float>(float*);\ntemplate void launch<int>(int*);\n",
        ("k<float>", "k<int>"),
    ),
    Sample(
        "device class with out of class members",
        "class Rng {\n  unsigned s;\npublic:\n  __device__ explicit Rng(unsigned seed);\n  __device__ float next();\n"
        "  void print() const;\n};\n__device__ Rng::Rng(unsigned seed) : s(seed) {}\n"
        "__device__ float Rng::next() { s = s * 1664525u + 1013904223u; return s * 2.3e-10f; }\n"
        'void Rng::print() const { printf("%u\\n", s); std::cout << s; }\n'
        "__global__ void k(float* x) { Rng r(threadIdx.x); x[threadIdx.x] = r.next(); }\n",
    ),
    Sample(
        "same name on host and device",
        "void softmax(float* x, int n) { for (int i = 0; i < n; ++i) x[i] /= n; softmax_kernel<<<1, 1>>>(x, n); }\n"
        "__global__ void softmax_kernel(float* x, int n) { float softmax = n; x[0] = softmax; }\n"
        "float n = time(0);\nstd::vector<float> x;\n",
        ("softmax_kernel",),
    ),
    Sample(
        "classes with virtual host interfaces",
        "struct Base { virtual ~Base() {} virtual void run() = 0; };\n"
        "class Impl : public Base { float* p; std::unique_ptr<int> q; public: void run() override { k<<<1, 1>>>(p, 3); } };\n"
        + _PLAIN,
    ),
    Sample(
        "braces and quotes where they mislead",
        "// it's { not a brace\n/* } ' \" */\nconst char* text = \"} \\\" {\";\nconst char c = '{';\nint big = 1'000'000;\n"
        'auto raw = R"x(} )" { )x";\n' + _PLAIN + "int main() { puts(\"}}}\"); return '}'; }\n",
    ),
    Sample("CRLF", (_PLAIN + "int main() {\n  std::cout << 1;\n}\n").replace("\n", "\r\n")),
    Sample("byte order mark", "\ufeff#include <iostream>\n" + _PLAIN),
    Sample("other scripts", '// 行列の積 😀\nvoid 主() { std::cout << "é"; }\n' + _PLAIN),
    Sample("no newline at the end", "int main() { k<<<1,1>>>(0, 0); }\n" + _PLAIN.strip()),
    Sample(
        "asm, volatile shared, launch bounds on the right",
        '__device__ __forceinline__ unsigned lane() { unsigned r; asm volatile("mov.u32 %0, %%laneid;" : "=r"(r)); return r; }\n'
        "__global__ void __launch_bounds__(256, 2) k(float* x) { extern __shared__ float s[]; volatile float* v = s;\n"
        "  v[lane()] = x[0]; x[0] = v[0]; }\n",
    ),
    Sample(
        "scoped enumerations and elaborated types",
        "enum class Mode : int { ROW, COLUMN };\nenum class Later : int;\nenum class Later : int { A, B };\nstruct Pair { int a, b; };\n"
        "static struct timespec began;\nstruct Watch {\n  struct Pair pair;\n  struct timespec now;\n"
        "  void begin() { clock_gettime(0, &now); }\n  void again() { begin(); }\n};\n"
        "template <Mode M> __global__ void k(int* x, struct Pair p) {\n"
        "  int began = M == Mode::ROW ? p.a : p.b, Watch = (int)Later::B;\n  x[0] = began + Watch;\n}\n",
        ("k<Mode::ROW>",),
    ),
    Sample(
        "tensor cores",
        "#include <mma.h>\n#include <cuda_fp16.h>\nusing namespace nvcuda;\n"
        "__global__ void k(const half* a, const half* b, float* c) {\n"
        "  wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;\n"
        "  wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> fb;\n"
        "  wmma::fragment<wmma::accumulator, 16, 16, 16, float> fc;\n  wmma::fill_fragment(fc, 0.0f);\n"
        "  wmma::load_matrix_sync(fa, a, 16); wmma::load_matrix_sync(fb, b, 16); wmma::mma_sync(fc, fa, fb, fc);\n"
        "  wmma::store_matrix_sync(c, fc, 16, wmma::mem_row_major);\n}\n",
    ),
    Sample(
        "unannotated template helpers and constexpr",
        "template <typename T> constexpr T cdiv(T a, T b) { return (a + b - 1) / b; }\n"
        "constexpr int log2i(int n) { return n <= 1 ? 0 : 1 + log2i(n / 2); }\n"
        "template <int N> struct Shape { static constexpr int tiles = cdiv(N, 8); enum { half = N / 2 }; };\n"
        'static_assert(Shape<32>::tiles == 4, "tiles");\n'
        "template <int N> __global__ void k(int* x) { x[0] = Shape<N>::tiles + log2i(N) + Shape<N>::half; }\n",
        ("k<32>",),
    ),
    Sample(
        "static assertions on host types",
        '#include <type_traits>\nstruct Host { std::string s; };\nstatic_assert(sizeof(Host) > 0, "");\n'
        'static_assert(std::is_class<Host>::value, "");\n' + _PLAIN,
    ),
    Sample(
        "unity of C style globals",
        "float *d_a, *d_b; int N = 1 << 20;\nsize_t bytes = N * sizeof(float);\ncudaStream_t streams[4];\ndim3 grid(N / 256), block(256);\n"
        'cudaEvent_t start, stop;\nFILE* log_file = NULL;\nconst char* names[] = {"a", "b"};\nstd::string label = "x";\n'
        + _PLAIN,
    ),
    Sample(
        "test framework and registration macros",
        "#include <gtest/gtest.h>\nTEST(Suite, Name) { EXPECT_EQ(1, 1); k<<<1, 1>>>(0, 0); }\nBENCHMARK(foo)->Range(1, 8);\n"
        'BENCHMARK_MAIN()\nREGISTER_OP("k")\n    .Input("x: float");\n' + _PLAIN,
    ),
    Sample(
        "trailing return types, attributes, requires nothing",
        "[[nodiscard]] __device__ auto f(float v) -> float { return v; }\n"
        "template <typename T, typename = void> struct is_x { static constexpr bool value = false; };\n"
        "template <typename T, bool B = (sizeof(T) > 4)> __device__ T g(T v) { return B ? v : v + T(1); }\n"
        "__global__ void k([[maybe_unused]] float* x) { x[0] = f(g(x[0])); }\n",
    ),
    Sample(
        "old style static launcher in extern C block",
        '#ifdef __cplusplus\nextern "C" {\n#endif\n'
        + _PLAIN
        + "int launch_k(float* x, int n, void* stream) {\n  k<<<1, 32, 0, (cudaStream_t)stream>>>(x, n);\n"
        "  return (int)cudaGetLastError();\n}\n#ifdef __cplusplus\n}\n#endif\n",
    ),
    Sample(
        "NVTX, MPI, OpenCV, Windows",
        '#include <mpi.h>\n#include <nvToolsExt.h>\n#include <opencv2/opencv.hpp>\n#include <Windows.h>\n#include "helper_cuda.h"\n'
        '#pragma comment(lib, "cudart")\n#pragma omp parallel\nusing namespace cv;\nstatic LARGE_INTEGER freq;\n'
        "double now() { LARGE_INTEGER t; QueryPerformanceCounter(&t); return t.QuadPart; }\n"
        + _PLAIN
        + 'int main(int argc, char* argv[]) { MPI_Init(&argc, &argv); cv::Mat m = imread(argv[1]); nvtxRangePush("x");\n'
        "  checkCudaErrors(cudaSetDevice(0)); try { k<<<1, 1>>>((float*)m.data, 1); } catch (const std::exception& e) { throw; } }\n",
    ),
)
