// The part of cuBLAS that our runtime library has. Values and parameters are those of CUDA 13.
#pragma once

// Programs ask by these names whether the header is there.
#define CUBLAS_API_H_
#define CUBLAS_V2_H_

#include <cuComplex.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime_api.h>
#include <library_types.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define CUBLAS_VER_MAJOR 13
#define CUBLAS_VER_MINOR 0
#define CUBLAS_VER_PATCH 0
#define CUBLAS_VERSION 130000

typedef struct cublasContext* cublasHandle_t;

typedef enum {
    CUBLAS_STATUS_SUCCESS = 0,
    CUBLAS_STATUS_NOT_INITIALIZED = 1,
    CUBLAS_STATUS_ALLOC_FAILED = 3,
    CUBLAS_STATUS_INVALID_VALUE = 7,
    CUBLAS_STATUS_ARCH_MISMATCH = 8,
    CUBLAS_STATUS_MAPPING_ERROR = 11,
    CUBLAS_STATUS_EXECUTION_FAILED = 13,
    CUBLAS_STATUS_INTERNAL_ERROR = 14,
    CUBLAS_STATUS_NOT_SUPPORTED = 15,
    CUBLAS_STATUS_LICENSE_ERROR = 16
} cublasStatus_t;

typedef enum { CUBLAS_FILL_MODE_LOWER = 0, CUBLAS_FILL_MODE_UPPER = 1, CUBLAS_FILL_MODE_FULL = 2 } cublasFillMode_t;
typedef enum { CUBLAS_DIAG_NON_UNIT = 0, CUBLAS_DIAG_UNIT = 1 } cublasDiagType_t;
typedef enum { CUBLAS_SIDE_LEFT = 0, CUBLAS_SIDE_RIGHT = 1 } cublasSideMode_t;
typedef enum { CUBLAS_OP_N = 0, CUBLAS_OP_T = 1, CUBLAS_OP_C = 2 } cublasOperation_t;
typedef enum { CUBLAS_POINTER_MODE_HOST = 0, CUBLAS_POINTER_MODE_DEVICE = 1 } cublasPointerMode_t;
typedef enum { CUBLAS_ATOMICS_NOT_ALLOWED = 0, CUBLAS_ATOMICS_ALLOWED = 1 } cublasAtomicsMode_t;
typedef enum {
    CUBLAS_DEFAULT_MATH = 0,
    CUBLAS_TENSOR_OP_MATH = 1,
    CUBLAS_PEDANTIC_MATH = 2,
    CUBLAS_TF32_TENSOR_OP_MATH = 3,
    CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION = 16
} cublasMath_t;
typedef enum { CUBLAS_GEMM_DEFAULT = -1, CUBLAS_GEMM_DFALT = -1, CUBLAS_GEMM_ALGO0 = 0, CUBLAS_GEMM_DEFAULT_TENSOR_OP = 99 } cublasGemmAlgo_t;
typedef enum {
    CUBLAS_COMPUTE_16F = 64,
    CUBLAS_COMPUTE_16F_PEDANTIC = 65,
    CUBLAS_COMPUTE_32F = 68,
    CUBLAS_COMPUTE_32F_PEDANTIC = 69,
    CUBLAS_COMPUTE_32F_FAST_16F = 74,
    CUBLAS_COMPUTE_32F_FAST_16BF = 75,
    CUBLAS_COMPUTE_32F_FAST_TF32 = 77,
    CUBLAS_COMPUTE_64F = 70,
    CUBLAS_COMPUTE_64F_PEDANTIC = 71,
    CUBLAS_COMPUTE_32I = 72,
    CUBLAS_COMPUTE_32I_PEDANTIC = 73
} cublasComputeType_t;
typedef cudaDataType cublasDataType_t;

cublasStatus_t cublasCreate(cublasHandle_t* handle);
cublasStatus_t cublasDestroy(cublasHandle_t handle);
cublasStatus_t cublasGetVersion(cublasHandle_t handle, int* version);
cublasStatus_t cublasSetStream(cublasHandle_t handle, cudaStream_t stream);
cublasStatus_t cublasGetStream(cublasHandle_t handle, cudaStream_t* stream);
cublasStatus_t cublasSetWorkspace(cublasHandle_t handle, void* workspace, size_t size);
cublasStatus_t cublasSetPointerMode(cublasHandle_t handle, cublasPointerMode_t mode);
cublasStatus_t cublasGetPointerMode(cublasHandle_t handle, cublasPointerMode_t* mode);
cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t mode);
cublasStatus_t cublasGetMathMode(cublasHandle_t handle, cublasMath_t* mode);
cublasStatus_t cublasSetAtomicsMode(cublasHandle_t handle, cublasAtomicsMode_t mode);
const char* cublasGetStatusName(cublasStatus_t status);
const char* cublasGetStatusString(cublasStatus_t status);

cublasStatus_t cublasSetVector(int n, int size, const void* x, int incx, void* y, int incy);
cublasStatus_t cublasGetVector(int n, int size, const void* x, int incx, void* y, int incy);
cublasStatus_t cublasSetMatrix(int rows, int columns, int size, const void* a, int lda, void* b, int ldb);
cublasStatus_t cublasGetMatrix(int rows, int columns, int size, const void* a, int lda, void* b, int ldb);

#define GPUEMU_BLAS(T, S, I)                                                                                      \
    cublasStatus_t cublas##S##axpy(cublasHandle_t, int n, const T* alpha, const T* x, int incx, T* y, int incy);        \
    cublasStatus_t cublas##S##scal(cublasHandle_t, int n, const T* alpha, T* x, int incx);                              \
    cublasStatus_t cublas##S##copy(cublasHandle_t, int n, const T* x, int incx, T* y, int incy);                        \
    cublasStatus_t cublas##S##swap(cublasHandle_t, int n, T* x, int incx, T* y, int incy);                              \
    cublasStatus_t cublas##S##dot(cublasHandle_t, int n, const T* x, int incx, const T* y, int incy, T* result);        \
    cublasStatus_t cublas##S##nrm2(cublasHandle_t, int n, const T* x, int incx, T* result);                             \
    cublasStatus_t cublas##S##asum(cublasHandle_t, int n, const T* x, int incx, T* result);                             \
    cublasStatus_t cublasI##I##amax(cublasHandle_t, int n, const T* x, int incx, int* result);                          \
    cublasStatus_t cublasI##I##amin(cublasHandle_t, int n, const T* x, int incx, int* result);                          \
    cublasStatus_t cublas##S##gemv(cublasHandle_t, cublasOperation_t, int m, int n, const T* alpha, const T* a,         \
                                   int lda, const T* x, int incx, const T* beta, T* y, int incy);                      \
    cublasStatus_t cublas##S##ger(cublasHandle_t, int m, int n, const T* alpha, const T* x, int incx, const T* y,       \
                                  int incy, T* a, int lda);
GPUEMU_BLAS(float, S, s)
GPUEMU_BLAS(double, D, d)
#undef GPUEMU_BLAS

#define GPUEMU_GEMM(T, S)                                                                                               \
    cublasStatus_t cublas##S##gemm(cublasHandle_t, cublasOperation_t, cublasOperation_t, int m, int n, int k,           \
                                   const T* alpha, const T* a, int lda, const T* b, int ldb, const T* beta, T* c,      \
                                   int ldc);                                                                            \
    cublasStatus_t cublas##S##gemmStridedBatched(cublasHandle_t, cublasOperation_t, cublasOperation_t, int m, int n,    \
                                                 int k, const T* alpha, const T* a, int lda, long long stridea,        \
                                                 const T* b, int ldb, long long strideb, const T* beta, T* c, int ldc, \
                                                 long long stridec, int count);                                        \
    cublasStatus_t cublas##S##gemmBatched(cublasHandle_t, cublasOperation_t, cublasOperation_t, int m, int n, int k,    \
                                          const T* alpha, const T* const a[], int lda, const T* const b[], int ldb,    \
                                          const T* beta, T* const c[], int ldc, int count);
GPUEMU_GEMM(float, S)
GPUEMU_GEMM(double, D)
GPUEMU_GEMM(cuComplex, C)
GPUEMU_GEMM(cuDoubleComplex, Z)
#ifdef __cplusplus
GPUEMU_GEMM(__half, H)
#endif
#undef GPUEMU_GEMM

#ifdef __cplusplus
}
// In C++ a cudaDataType is accepted where the compute type is meant, as older programs have it.
extern "C" {
#endif
cublasStatus_t cublasSgemmEx(cublasHandle_t, cublasOperation_t, cublasOperation_t, int m, int n, int k,
                             const float* alpha, const void* a, cudaDataType typea, int lda, const void* b,
                             cudaDataType typeb, int ldb, const float* beta, void* c, cudaDataType typec, int ldc);
cublasStatus_t cublasGemmEx(cublasHandle_t, cublasOperation_t, cublasOperation_t, int m, int n, int k,
                            const void* alpha, const void* a, cudaDataType typea, int lda, const void* b,
                            cudaDataType typeb, int ldb, const void* beta, void* c, cudaDataType typec, int ldc,
                            cublasComputeType_t compute, cublasGemmAlgo_t algorithm);
cublasStatus_t cublasGemmStridedBatchedEx(cublasHandle_t, cublasOperation_t, cublasOperation_t, int m, int n, int k,
                                          const void* alpha, const void* a, cudaDataType typea, int lda,
                                          long long stridea, const void* b, cudaDataType typeb, int ldb,
                                          long long strideb, const void* beta, void* c, cudaDataType typec, int ldc,
                                          long long stridec, int count, cublasComputeType_t compute,
                                          cublasGemmAlgo_t algorithm);
cublasStatus_t cublasGemmBatchedEx(cublasHandle_t, cublasOperation_t, cublasOperation_t, int m, int n, int k,
                                   const void* alpha, const void* const a[], cudaDataType typea, int lda,
                                   const void* const b[], cudaDataType typeb, int ldb, const void* beta,
                                   void* const c[], cudaDataType typec, int ldc, int count,
                                   cublasComputeType_t compute, cublasGemmAlgo_t algorithm);
#ifdef __cplusplus
}

static inline cublasComputeType_t gpuemu_compute_type(cudaDataType type) {
    return type == CUDA_R_16F   ? CUBLAS_COMPUTE_16F
           : type == CUDA_R_64F ? CUBLAS_COMPUTE_64F
           : type == CUDA_R_32I ? CUBLAS_COMPUTE_32I
                                : CUBLAS_COMPUTE_32F;
}
static inline cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t opa, cublasOperation_t opb, int m,
                                          int n, int k, const void* alpha, const void* a, cudaDataType typea, int lda,
                                          const void* b, cudaDataType typeb, int ldb, const void* beta, void* c,
                                          cudaDataType typec, int ldc, cudaDataType compute,
                                          cublasGemmAlgo_t algorithm) {
    return cublasGemmEx(handle, opa, opb, m, n, k, alpha, a, typea, lda, b, typeb, ldb, beta, c, typec, ldc,
                        gpuemu_compute_type(compute), algorithm);
}
static inline cublasStatus_t cublasGemmStridedBatchedEx(cublasHandle_t handle, cublasOperation_t opa,
                                                        cublasOperation_t opb, int m, int n, int k, const void* alpha,
                                                        const void* a, cudaDataType typea, int lda, long long stridea,
                                                        const void* b, cudaDataType typeb, int ldb, long long strideb,
                                                        const void* beta, void* c, cudaDataType typec, int ldc,
                                                        long long stridec, int count, cudaDataType compute,
                                                        cublasGemmAlgo_t algorithm) {
    return cublasGemmStridedBatchedEx(handle, opa, opb, m, n, k, alpha, a, typea, lda, stridea, b, typeb, ldb, strideb,
                                      beta, c, typec, ldc, stridec, count, gpuemu_compute_type(compute), algorithm);
}
#endif
