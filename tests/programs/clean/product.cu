// Products of matrices with cuBLAS: plain, strided, batched, in half precision, and with cuBLASLt's bias.
#include <cublasLt.h>
#include <cublas_v2.h>
#include <cuda_fp16.h>

#include <cmath>
#include <cstdio>
#include <vector>

#define PASS(condition) puts((condition) ? "PASS" : "FAIL")

constexpr int M = 5, N = 4, K = 3, COUNT = 2;

__global__ void narrow(const float* from, __half* to, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) to[i] = __float2half(from[i]);
}

int main() {
    std::vector<float> a(M * K * COUNT), b(K * N * COUNT), c(M * N * COUNT, 1.0f), bias(M);
    for (size_t i = 0; i < a.size(); i++) a[i] = float(int(i * 7 % 11) - 5);
    for (size_t i = 0; i < b.size(); i++) b[i] = float(int(i * 5 % 13) - 6);
    for (int i = 0; i < M; i++) bias[i] = float(i);
    auto expected = [&](int batch, int i, int j) {
        float sum = 0;
        for (int l = 0; l < K; l++) sum += a[batch * M * K + l * M + i] * b[batch * K * N + j * K + l];
        return sum;
    };
    float *da, *db, *dc, *dbias;
    cudaMalloc(&da, a.size() * 4);
    cudaMalloc(&db, b.size() * 4);
    cudaMalloc(&dc, c.size() * 4);
    cudaMalloc(&dbias, M * 4);
    cudaMemcpy(da, a.data(), a.size() * 4, cudaMemcpyHostToDevice);
    cudaMemcpy(db, b.data(), b.size() * 4, cudaMemcpyHostToDevice);
    cudaMemcpy(dc, c.data(), c.size() * 4, cudaMemcpyHostToDevice);
    cudaMemcpy(dbias, bias.data(), M * 4, cudaMemcpyHostToDevice);
    cublasHandle_t handle;
    cublasCreate(&handle);
    float alpha = 2, beta = 3, one = 1, zero = 0;
    bool right = true;
    auto compare = [&](auto value) {
        cudaMemcpy(c.data(), dc, c.size() * 4, cudaMemcpyDeviceToHost);
        for (int batch = 0; batch < COUNT; batch++)
            for (int j = 0; j < N; j++)
                for (int i = 0; i < M; i++) right = right && c[batch * M * N + j * M + i] == value(batch, i, j);
    };
    cublasSgemmStridedBatched(handle, CUBLAS_OP_N, CUBLAS_OP_N, M, N, K, &alpha, da, M, M * K, db, K, K * N, &beta, dc,
                              M, M * N, COUNT);
    compare([&](int batch, int i, int j) { return 2 * expected(batch, i, j) + 3; });

    float *tables[6] = {da, da + M * K, db, db + K * N, dc, dc + M * N}, **table;
    cudaMalloc(&table, sizeof tables);
    cudaMemcpy(table, tables, sizeof tables, cudaMemcpyHostToDevice);
    cublasSgemmBatched(handle, CUBLAS_OP_N, CUBLAS_OP_N, M, N, K, &one, table, M, table + 2, K, &zero, table + 4, M,
                       COUNT);
    compare(expected);

    // The product of the transposed matrices, transposed, in half precision.
    __half *ha, *hb;
    cudaMalloc(&ha, a.size() * 2);
    cudaMalloc(&hb, b.size() * 2);
    narrow<<<1, 32>>>(da, ha, int(a.size()));
    narrow<<<1, 32>>>(db, hb, int(b.size()));
    for (int batch = 0; batch < COUNT; batch++)
        cublasGemmEx(handle, CUBLAS_OP_T, CUBLAS_OP_T, N, M, K, &one, hb + batch * K * N, CUDA_R_16F, K,
                     ha + batch * M * K, CUDA_R_16F, M, &zero, dc + batch * M * N, CUDA_R_32F, N, CUBLAS_COMPUTE_32F,
                     CUBLAS_GEMM_DEFAULT);
    cudaMemcpy(c.data(), dc, c.size() * 4, cudaMemcpyDeviceToHost);
    for (int batch = 0; batch < COUNT; batch++)
        for (int j = 0; j < N; j++)
            for (int i = 0; i < M; i++) right = right && c[batch * M * N + i * N + j] == expected(batch, i, j);

    cublasLtHandle_t lt;
    cublasLtCreate(&lt);
    cublasLtMatmulDesc_t desc;
    cublasLtMatmulDescCreate(&desc, CUBLAS_COMPUTE_32F, CUDA_R_32F);
    cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_RELU_BIAS;
    cublasLtMatmulDescSetAttribute(desc, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue);
    cublasLtMatmulDescSetAttribute(desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &dbias, sizeof dbias);
    cublasLtMatrixLayout_t la, lb, lc;
    cublasLtMatrixLayoutCreate(&la, CUDA_R_32F, M, K, M);
    cublasLtMatrixLayoutCreate(&lb, CUDA_R_32F, K, N, K);
    cublasLtMatrixLayoutCreate(&lc, CUDA_R_32F, M, N, M);
    cublasLtMatmul(lt, desc, &one, da, la, db, lb, &zero, dc, lc, dc, lc, nullptr, nullptr, 0, nullptr);
    cudaMemcpy(c.data(), dc, c.size() * 4, cudaMemcpyDeviceToHost);
    for (int j = 0; j < N; j++)
        for (int i = 0; i < M; i++) right = right && c[j * M + i] == std::fmax(expected(0, i, j) + bias[i], 0.0f);
    float dot = 0;
    cublasSdot(handle, K, da, 1, db, 1, &dot);
    right = right && dot == a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
    cublasDestroy(handle);
    PASS(right);
}
