// cuBLAS: vectors here, products of matrices in gpuemu.
#include <cmath>
#include <cstring>

#include "product.h"

using namespace gpuemu;

struct cublasContext {
    cudaStream_t stream = nullptr;
    cublasPointerMode_t mode = CUBLAS_POINTER_MODE_HOST;
    cublasMath_t math = CUBLAS_DEFAULT_MATH;
};

namespace {

template <class T>
constexpr cudaDataType TYPE = CUDA_R_32F;
template <>
constexpr cudaDataType TYPE<double> = CUDA_R_64F;
template <>
constexpr cudaDataType TYPE<cuComplex> = CUDA_C_32F;
template <>
constexpr cudaDataType TYPE<cuDoubleComplex> = CUDA_C_64F;
template <>
constexpr cudaDataType TYPE<__half> = CUDA_R_16F;

// A vector with a distance between its elements; with a negative one it begins at its end.
template <class T>
struct Vector {
    T* at;
    int64_t n, step;
    T& operator[](int64_t i) const { return at[step < 0 ? (i - n + 1) * step : i * step]; }
    bool access(bool writes, cudaStream_t stream) const {
        size_t pitch = sizeof(T) * size_t(step < 0 ? -step : step);
        return gpuemu::access(at, sizeof(T), pitch, size_t(n), writes, stream);
    }
};
template <class T>
bool readable(cublasHandle_t handle, int n, const T* x, int step) {
    return Vector<const T>{x, n, step}.access(false, handle->stream);
}
template <class T>
bool writable(cublasHandle_t handle, int n, T* x, int step) {
    return Vector<T>{x, n, step}.access(true, handle->stream);
}
template <class T>
bool readable_scalar(cublasHandle_t handle, const T* x) {
    return handle->mode == CUBLAS_POINTER_MODE_HOST || access(x, sizeof(T), sizeof(T), 1, false, handle->stream);
}
// A result on the host is there when the call returns.
template <class T>
cublasStatus_t store(cublasHandle_t handle, T* result, T value) {
    if (on_device(result) && !access(result, sizeof(T), sizeof(T), 1, true, handle->stream))
        return CUBLAS_STATUS_INVALID_VALUE;
    if (handle->mode == CUBLAS_POINTER_MODE_HOST) synchronize(WaitScope::STREAM, stream_number(handle->stream));
    *result = value;
    return CUBLAS_STATUS_SUCCESS;
}
constexpr cublasStatus_t INVALID = CUBLAS_STATUS_INVALID_VALUE, DONE = CUBLAS_STATUS_SUCCESS;

template <class T>
cublasStatus_t gemv(cublasHandle_t handle, cublasOperation_t op, int m, int n, const T* alpha, const T* a, int lda,
                    const T* x, int incx, const T* beta, T* y, int incy) {
    count_library_call();
    int rows = op == CUBLAS_OP_N ? m : n, columns = op == CUBLAS_OP_N ? n : m;
    bool there = access(a, sizeof(T) * size_t(m), sizeof(T) * size_t(lda), size_t(n), false, handle->stream) &&
                 readable(handle, columns, x, incx) && (*beta == T(0) || readable(handle, rows, y, incy)) &&
                 writable(handle, rows, y, incy) && readable_scalar(handle, alpha) && readable_scalar(handle, beta);
    if (!there) return INVALID;
    Vector<const T> from{x, columns, incx};
    Vector<T> to{y, rows, incy};
    for (int i = 0; i < rows; i++) {
        double sum = 0;
        for (int j = 0; j < columns; j++)
            sum += double(op == CUBLAS_OP_N ? a[i + size_t(j) * lda] : a[j + size_t(i) * lda]) * double(from[j]);
        to[i] = T(double(*alpha) * sum + (*beta == T(0) ? 0.0 : double(*beta) * double(to[i])));
    }
    return DONE;
}

template <class T>
cublasStatus_t extreme(cublasHandle_t handle, int n, const T* x, int incx, int* result, bool largest) {
    count_library_call();
    if (!readable(handle, n, x, incx)) return INVALID;
    Vector<const T> all{x, n, incx};
    int best = 0;
    for (int i = 1; i < n; i++)
        if (largest ? std::fabs(all[i]) > std::fabs(all[best]) : std::fabs(all[i]) < std::fabs(all[best])) best = i;
    return store(handle, result, n > 0 ? best + 1 : 0);
}

cublasStatus_t gemm(cublasHandle_t handle, cublasOperation_t opa, cublasOperation_t opb, int m, int n, int k,
                    const void* alpha, Matrix a, Matrix b, const void* beta, Matrix c, cudaDataType scale,
                    int64_t count = 1, bool tables = false) {
    if (handle->mode == CUBLAS_POINTER_MODE_DEVICE &&
        !(access(alpha, 4, 4, 1, false, handle->stream) && access(beta, 4, 4, 1, false, handle->stream)))
        return INVALID;
    Product product{opa, opb, m, n, k, count, tables};
    product.a = a;
    product.b = b;
    product.c = product.d = c;
    scalar(alpha, scale, product.alpha);
    scalar(beta, scale, product.beta);
    return multiply(product, handle->stream);
}

// The type of alpha and beta.
cudaDataType scale_of(cublasComputeType_t compute, cudaDataType type) {
    if (compute == CUBLAS_COMPUTE_16F || compute == CUBLAS_COMPUTE_16F_PEDANTIC) return CUDA_R_16F;
    if (compute == CUBLAS_COMPUTE_32I || compute == CUBLAS_COMPUTE_32I_PEDANTIC)
        return type == CUDA_R_32F ? CUDA_R_32F : CUDA_R_32I;
    bool complex = type == CUDA_C_32F || type == CUDA_C_64F;
    bool wide = compute == CUBLAS_COMPUTE_64F || compute == CUBLAS_COMPUTE_64F_PEDANTIC;
    return wide ? (complex ? CUDA_C_64F : CUDA_R_64F) : complex ? CUDA_C_32F : CUDA_R_32F;
}

struct NamedStatus {
    cublasStatus_t status;
    const char *name, *text;
};
const NamedStatus STATUSES[] = {
    {CUBLAS_STATUS_SUCCESS, "CUBLAS_STATUS_SUCCESS", "the operation completed successfully"},
    {CUBLAS_STATUS_NOT_INITIALIZED, "CUBLAS_STATUS_NOT_INITIALIZED", "the library was not initialized"},
    {CUBLAS_STATUS_INVALID_VALUE, "CUBLAS_STATUS_INVALID_VALUE", "an unsupported value or parameter was passed"},
    {CUBLAS_STATUS_NOT_SUPPORTED, "CUBLAS_STATUS_NOT_SUPPORTED", "the requested functionality is not supported"},
};

}  // namespace

// ---- Handles

API cublasStatus_t cublasCreate(cublasHandle_t* handle) {
    *handle = new cublasContext;
    return DONE;
}
API cublasStatus_t cublasDestroy(cublasHandle_t handle) {
    delete handle;
    return DONE;
}
API cublasStatus_t cublasGetVersion(cublasHandle_t, int* version) {
    *version = CUBLAS_VERSION;
    return DONE;
}
API cublasStatus_t cublasSetStream(cublasHandle_t handle, cudaStream_t stream) {
    handle->stream = stream;
    return DONE;
}
API cublasStatus_t cublasGetStream(cublasHandle_t handle, cudaStream_t* stream) {
    *stream = handle->stream;
    return DONE;
}
API cublasStatus_t cublasSetWorkspace(cublasHandle_t, void*, size_t) { return DONE; }
API cublasStatus_t cublasSetPointerMode(cublasHandle_t handle, cublasPointerMode_t mode) {
    handle->mode = mode;
    return DONE;
}
API cublasStatus_t cublasGetPointerMode(cublasHandle_t handle, cublasPointerMode_t* mode) {
    *mode = handle->mode;
    return DONE;
}
API cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t mode) {
    handle->math = mode;
    return DONE;
}
API cublasStatus_t cublasGetMathMode(cublasHandle_t handle, cublasMath_t* mode) {
    *mode = handle->math;
    return DONE;
}
API cublasStatus_t cublasSetAtomicsMode(cublasHandle_t, cublasAtomicsMode_t) { return DONE; }
API const char* cublasGetStatusName(cublasStatus_t status) {
    for (const NamedStatus& one : STATUSES)
        if (one.status == status) return one.name;
    return "CUBLAS_STATUS_INTERNAL_ERROR";
}
API const char* cublasGetStatusString(cublasStatus_t status) {
    for (const NamedStatus& one : STATUSES)
        if (one.status == status) return one.text;
    return "an internal operation failed";
}

// ---- Copies between the host and the device

API cublasStatus_t cublasSetMatrix(int rows, int columns, int size, const void* a, int lda, void* b, int ldb) {
    return cudaMemcpy2D(b, size_t(ldb) * size, a, size_t(lda) * size, size_t(rows) * size, columns, cudaMemcpyDefault)
               ? INVALID
               : DONE;
}
API cublasStatus_t cublasGetMatrix(int rows, int columns, int size, const void* a, int lda, void* b, int ldb) {
    return cublasSetMatrix(rows, columns, size, a, lda, b, ldb);
}
API cublasStatus_t cublasSetVector(int n, int size, const void* x, int incx, void* y, int incy) {
    if (incx == 1 && incy == 1) return cublasSetMatrix(n, 1, size, x, n, y, n);
    return cublasSetMatrix(1, n, size, x, incx, y, incy);
}
API cublasStatus_t cublasGetVector(int n, int size, const void* x, int incx, void* y, int incy) {
    return cublasSetVector(n, size, x, incx, y, incy);
}

// ---- Vectors

#define BLAS(T, S, I)                                                                                                   \
    API cublasStatus_t cublas##S##axpy(cublasHandle_t h, int n, const T* alpha, const T* x, int incx, T* y, int incy) { \
        count_library_call();                                                                                           \
        if (!readable_scalar(h, alpha) || !readable(h, n, x, incx) || !readable<T>(h, n, y, incy)) return INVALID;     \
        if (!writable(h, n, y, incy)) return INVALID;                                                                   \
        Vector<const T> from{x, n, incx};                                                                               \
        Vector<T> to{y, n, incy};                                                                                       \
        for (int i = 0; i < n; i++) to[i] += *alpha * from[i];                                                          \
        return DONE;                                                                                                    \
    }                                                                                                                   \
    API cublasStatus_t cublas##S##scal(cublasHandle_t h, int n, const T* alpha, T* x, int incx) {                       \
        count_library_call();                                                                                           \
        if (!readable_scalar(h, alpha) || !readable<T>(h, n, x, incx) || !writable(h, n, x, incx)) return INVALID;      \
        Vector<T> to{x, n, incx};                                                                                       \
        for (int i = 0; i < n; i++) to[i] *= *alpha;                                                                    \
        return DONE;                                                                                                    \
    }                                                                                                                   \
    API cublasStatus_t cublas##S##copy(cublasHandle_t h, int n, const T* x, int incx, T* y, int incy) {                 \
        count_library_call();                                                                                           \
        if (!readable(h, n, x, incx) || !writable(h, n, y, incy)) return INVALID;                                       \
        for (int i = 0; i < n; i++) Vector<T>{y, n, incy}[i] = Vector<const T>{x, n, incx}[i];                          \
        return DONE;                                                                                                    \
    }                                                                                                                   \
    API cublasStatus_t cublas##S##swap(cublasHandle_t h, int n, T* x, int incx, T* y, int incy) {                       \
        count_library_call();                                                                                           \
        if (!readable<T>(h, n, x, incx) || !readable<T>(h, n, y, incy)) return INVALID;                                 \
        if (!writable(h, n, x, incx) || !writable(h, n, y, incy)) return INVALID;                                       \
        for (int i = 0; i < n; i++) std::swap(Vector<T>{y, n, incy}[i], Vector<T>{x, n, incx}[i]);                      \
        return DONE;                                                                                                    \
    }                                                                                                                   \
    API cublasStatus_t cublas##S##dot(cublasHandle_t h, int n, const T* x, int incx, const T* y, int incy, T* out) {    \
        count_library_call();                                                                                           \
        if (!readable(h, n, x, incx) || !readable(h, n, y, incy)) return INVALID;                                       \
        double sum = 0;                                                                                                 \
        for (int i = 0; i < n; i++) sum += double(Vector<const T>{x, n, incx}[i]) * Vector<const T>{y, n, incy}[i];     \
        return store(h, out, T(sum));                                                                                   \
    }                                                                                                                   \
    API cublasStatus_t cublas##S##nrm2(cublasHandle_t h, int n, const T* x, int incx, T* out) {                         \
        count_library_call();                                                                                           \
        if (!readable(h, n, x, incx)) return INVALID;                                                                   \
        double sum = 0;                                                                                                 \
        for (int i = 0; i < n; i++) sum += std::pow(double(Vector<const T>{x, n, incx}[i]), 2);                         \
        return store(h, out, T(std::sqrt(sum)));                                                                        \
    }                                                                                                                   \
    API cublasStatus_t cublas##S##asum(cublasHandle_t h, int n, const T* x, int incx, T* out) {                         \
        count_library_call();                                                                                           \
        if (!readable(h, n, x, incx)) return INVALID;                                                                   \
        double sum = 0;                                                                                                 \
        for (int i = 0; i < n; i++) sum += std::fabs(double(Vector<const T>{x, n, incx}[i]));                           \
        return store(h, out, T(sum));                                                                                   \
    }                                                                                                                   \
    API cublasStatus_t cublasI##I##amax(cublasHandle_t h, int n, const T* x, int incx, int* out) {                      \
        return extreme(h, n, x, incx, out, true);                                                                       \
    }                                                                                                                   \
    API cublasStatus_t cublasI##I##amin(cublasHandle_t h, int n, const T* x, int incx, int* out) {                      \
        return extreme(h, n, x, incx, out, false);                                                                      \
    }                                                                                                                   \
    API cublasStatus_t cublas##S##gemv(cublasHandle_t h, cublasOperation_t op, int m, int n, const T* alpha,            \
                                       const T* a, int lda, const T* x, int incx, const T* beta, T* y, int incy) {     \
        return gemv(h, op, m, n, alpha, a, lda, x, incx, beta, y, incy);                                                \
    }                                                                                                                   \
    API cublasStatus_t cublas##S##ger(cublasHandle_t h, int m, int n, const T* alpha, const T* x, int incx, const T* y, \
                                      int incy, T* a, int lda) {                                                        \
        count_library_call();                                                                                           \
        size_t width = sizeof(T) * size_t(m), pitch = sizeof(T) * size_t(lda);                                          \
        if (!readable(h, m, x, incx) || !readable(h, n, y, incy) || !readable_scalar(h, alpha)) return INVALID;         \
        if (!access(a, width, pitch, n, false, h->stream) || !access(a, width, pitch, n, true, h->stream))              \
            return INVALID;                                                                                             \
        for (int j = 0; j < n; j++)                                                                                     \
            for (int i = 0; i < m; i++)                                                                                 \
                a[i + size_t(j) * lda] += *alpha * Vector<const T>{x, m, incx}[i] * Vector<const T>{y, n, incy}[j];     \
        return DONE;                                                                                                    \
    }
BLAS(float, S, s)
BLAS(double, D, d)

// ---- Products

#define GEMM(T, S)                                                                                                      \
    API cublasStatus_t cublas##S##gemm(cublasHandle_t h, cublasOperation_t opa, cublasOperation_t opb, int m, int n,    \
                                       int k, const T* alpha, const T* a, int lda, const T* b, int ldb, const T* beta, \
                                       T* c, int ldc) {                                                                 \
        return gemm(h, opa, opb, m, n, k, alpha, {a, TYPE<T>, lda}, {b, TYPE<T>, ldb}, beta, {c, TYPE<T>, ldc},         \
                    TYPE<T>);                                                                                           \
    }                                                                                                                   \
    API cublasStatus_t cublas##S##gemmStridedBatched(                                                                   \
        cublasHandle_t h, cublasOperation_t opa, cublasOperation_t opb, int m, int n, int k, const T* alpha, const T* a, \
        int lda, long long stridea, const T* b, int ldb, long long strideb, const T* beta, T* c, int ldc,              \
        long long stridec, int count) {                                                                                 \
        return gemm(h, opa, opb, m, n, k, alpha, {a, TYPE<T>, lda, stridea}, {b, TYPE<T>, ldb, strideb}, beta,          \
                    {c, TYPE<T>, ldc, stridec}, TYPE<T>, count);                                                        \
    }                                                                                                                   \
    API cublasStatus_t cublas##S##gemmBatched(cublasHandle_t h, cublasOperation_t opa, cublasOperation_t opb, int m,    \
                                              int n, int k, const T* alpha, const T* const a[], int lda,               \
                                              const T* const b[], int ldb, const T* beta, T* const c[], int ldc,       \
                                              int count) {                                                              \
        return gemm(h, opa, opb, m, n, k, alpha, {a, TYPE<T>, lda}, {b, TYPE<T>, ldb}, beta, {c, TYPE<T>, ldc},         \
                    TYPE<T>, count, true);                                                                              \
    }
GEMM(float, S)
GEMM(double, D)
GEMM(cuComplex, C)
GEMM(cuDoubleComplex, Z)
GEMM(__half, H)

API cublasStatus_t cublasGemmEx(cublasHandle_t h, cublasOperation_t opa, cublasOperation_t opb, int m, int n, int k,
                                const void* alpha, const void* a, cudaDataType typea, int lda, const void* b,
                                cudaDataType typeb, int ldb, const void* beta, void* c, cudaDataType typec, int ldc,
                                cublasComputeType_t compute, cublasGemmAlgo_t) {
    return gemm(h, opa, opb, m, n, k, alpha, {a, typea, lda}, {b, typeb, ldb}, beta, {c, typec, ldc},
                scale_of(compute, typec));
}
API cublasStatus_t cublasSgemmEx(cublasHandle_t h, cublasOperation_t opa, cublasOperation_t opb, int m, int n, int k,
                                 const float* alpha, const void* a, cudaDataType typea, int lda, const void* b,
                                 cudaDataType typeb, int ldb, const float* beta, void* c, cudaDataType typec, int ldc) {
    return gemm(h, opa, opb, m, n, k, alpha, {a, typea, lda}, {b, typeb, ldb}, beta, {c, typec, ldc}, CUDA_R_32F);
}
API cublasStatus_t cublasGemmStridedBatchedEx(cublasHandle_t h, cublasOperation_t opa, cublasOperation_t opb, int m,
                                              int n, int k, const void* alpha, const void* a, cudaDataType typea,
                                              int lda, long long stridea, const void* b, cudaDataType typeb, int ldb,
                                              long long strideb, const void* beta, void* c, cudaDataType typec,
                                              int ldc, long long stridec, int count, cublasComputeType_t compute,
                                              cublasGemmAlgo_t) {
    return gemm(h, opa, opb, m, n, k, alpha, {a, typea, lda, stridea}, {b, typeb, ldb, strideb}, beta,
                {c, typec, ldc, stridec}, scale_of(compute, typec), count);
}
API cublasStatus_t cublasGemmBatchedEx(cublasHandle_t h, cublasOperation_t opa, cublasOperation_t opb, int m, int n,
                                       int k, const void* alpha, const void* const a[], cudaDataType typea, int lda,
                                       const void* const b[], cudaDataType typeb, int ldb, const void* beta,
                                       void* const c[], cudaDataType typec, int ldc, int count,
                                       cublasComputeType_t compute, cublasGemmAlgo_t) {
    return gemm(h, opa, opb, m, n, k, alpha, {a, typea, lda}, {b, typeb, ldb}, beta, {c, typec, ldc},
                scale_of(compute, typec), count, true);
}
