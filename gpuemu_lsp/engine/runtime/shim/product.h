// Products of matrices: gpuemu computes them.
#pragma once

#include <cublasLt.h>

#include "core.h"

namespace gpuemu {

// A matrix in columns, as cuBLAS has them: `stride` elements from one of a batch to the next.
struct Matrix {
    const void* at;
    cudaDataType type;
    int64_t ld;
    int64_t stride = 0;
};

// D = activation(alpha op(A) op(B) + beta C + bias), for `count` of each. With `tables`, `at` has their addresses.
struct Product {
    cublasOperation_t opa, opb;
    int64_t m, n, k, count = 1;
    bool tables = false;
    double alpha[2] = {1, 0}, beta[2] = {0, 0};
    Matrix a, b, c, d;
    cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
    Matrix bias{}, aux{};
};

cublasStatus_t multiply(const Product& product, cudaStream_t stream);
// The two parts of a scalar of a type, in host or device memory.
void scalar(const void* from, cudaDataType type, double* parts);

// Tell gpuemu of bytes that a library's function reads or writes; false if they are not all there.
bool access(const void* at, size_t width, size_t pitch, size_t rows, bool writes, cudaStream_t stream);

}  // namespace gpuemu
