// cuBLASLt, and the message for a product.
#include "product.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstring>

#include "graphs.h"

namespace gpuemu {

void scalar(const void* from, cudaDataType type, double* parts) {
    parts[0] = parts[1] = 0;
    switch (type) {
        case CUDA_R_64F: parts[0] = *static_cast<const double*>(from); break;
        case CUDA_C_64F: memcpy(parts, from, 16); break;
        case CUDA_R_16F: parts[0] = __half2float(*static_cast<const __half*>(from)); break;
        case CUDA_R_16BF: parts[0] = __bfloat162float(*static_cast<const __nv_bfloat16*>(from)); break;
        case CUDA_R_32I: parts[0] = *static_cast<const int*>(from); break;
        case CUDA_C_32F: parts[1] = static_cast<const float*>(from)[1]; [[fallthrough]];
        default: parts[0] = *static_cast<const float*>(from);
    }
}

bool access(const void* at, size_t width, size_t pitch, size_t rows, bool writes, cudaStream_t stream) {
    connect_once();
    if (!width || !rows || !on_device(at)) return width && rows ? false : true;
    const void *target = writes ? at : nullptr, *source = writes ? nullptr : at;
    return call(message::Copy{{target, pitch, source, pitch, width, rows, stream_number(stream), HostWait::NEVER,
                               CopyDirection::DEFAULT}})
               .error == 0;
}

cublasStatus_t multiply(const Product& p, cudaStream_t stream) {
    if (p.m < 0 || p.n < 0 || p.k < 0 || p.count < 0) return CUBLAS_STATUS_INVALID_VALUE;
    if (!p.m || !p.n || !p.count) return CUBLAS_STATUS_SUCCESS;
    connect_once();
    if (captured(stream, cudaGraphNodeTypeKernel, [p](cudaStream_t s) {
            return multiply(p, s) == CUBLAS_STATUS_SUCCESS ? cudaSuccess : cudaErrorInvalidValue;
        }))
        return CUBLAS_STATUS_SUCCESS;
    auto operand = [&](const Matrix& matrix) {
        auto type = uint64_t(matrix.at ? matrix.type : CUDA_R_32F);
        return message::MatrixOperand{type, matrix.ld, matrix.stride, p.tables, matrix.at};
    };
    auto answer = call(message::Multiply{
        {uint64_t(p.opa), uint64_t(p.opb), uint64_t(p.m), uint64_t(p.n), uint64_t(p.k), uint64_t(p.count),
         uint64_t(p.epilogue), stream_number(stream), p.alpha[0], p.alpha[1], p.beta[0], p.beta[1], operand(p.a),
         operand(p.b), operand(p.c), operand(p.d), operand(p.bias), operand(p.aux)}});
    if (!answer.supported) {
        unsupported("a product of these types, or with this epilogue,");
        return CUBLAS_STATUS_NOT_SUPPORTED;
    }
    return answer.valid ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}

namespace {

struct Description {
    cudaDataType scale;
    Product product{};
    bool on_device = false;
};
struct Layout {
    cudaDataType type;
    uint64_t rows, columns;
    int64_t ld, stride = 0;
    int32_t count = 1, order = 0;
};
Description* description(cublasLtMatmulDesc_t one) { return reinterpret_cast<Description*>(one); }
Layout* layout_of(cublasLtMatrixLayout_t one) { return reinterpret_cast<Layout*>(one); }
Matrix matrix(const void* at, cublasLtMatrixLayout_t layout) {
    const Layout& one = *layout_of(layout);
    return {at, one.type, one.ld, one.stride};
}
template <class T>
void take(T* target, const void* value, size_t size) {
    memcpy(target, value, size < sizeof(T) ? size : sizeof(T));
}

}  // namespace
}  // namespace gpuemu

using namespace gpuemu;

API cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
    *handle = reinterpret_cast<cublasLtHandle_t>(new char);
    return CUBLAS_STATUS_SUCCESS;
}
API cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
    delete reinterpret_cast<char*>(handle);
    return CUBLAS_STATUS_SUCCESS;
}
API cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* made, cublasComputeType_t, cudaDataType_t scale) {
    *made = reinterpret_cast<cublasLtMatmulDesc_t>(new Description{scale});
    return CUBLAS_STATUS_SUCCESS;
}
API cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t one) {
    delete description(one);
    return CUBLAS_STATUS_SUCCESS;
}
API cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t one, cublasLtMatmulDescAttributes_t attribute,
                                                  const void* value, size_t size) {
    Product& product = description(one)->product;
    int mode = 0;
    switch (attribute) {
        case CUBLASLT_MATMUL_DESC_TRANSA: take(&product.opa, value, size); break;
        case CUBLASLT_MATMUL_DESC_TRANSB: take(&product.opb, value, size); break;
        case CUBLASLT_MATMUL_DESC_EPILOGUE: take(&product.epilogue, value, size); break;
        case CUBLASLT_MATMUL_DESC_BIAS_POINTER: take(&product.bias.at, value, size); break;
        case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE: take(&product.bias.type, value, size); break;
        case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER: take(&product.aux.at, value, size); break;
        case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD: take(&product.aux.ld, value, size); break;
        case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE: take(&product.aux.stride, value, size); break;
        case CUBLASLT_MATMUL_DESC_SCALE_TYPE: take(&description(one)->scale, value, size); break;
        case CUBLASLT_MATMUL_DESC_COMPUTE_TYPE: break;
        case CUBLASLT_MATMUL_DESC_POINTER_MODE:
            take(&mode, value, size);
            description(one)->on_device = mode != 0;
            break;
        default: unsupported("this attribute of cublasLtMatmulDescSetAttribute"); return CUBLAS_STATUS_NOT_SUPPORTED;
    }
    return CUBLAS_STATUS_SUCCESS;
}
API cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* made, cudaDataType type, uint64_t rows,
                                              uint64_t columns, int64_t ld) {
    *made = reinterpret_cast<cublasLtMatrixLayout_t>(new Layout{type, rows, columns, ld});
    return CUBLAS_STATUS_SUCCESS;
}
API cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t one) {
    delete layout_of(one);
    return CUBLAS_STATUS_SUCCESS;
}
API cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t one,
                                                    cublasLtMatrixLayoutAttribute_t attribute, const void* value,
                                                    size_t size) {
    Layout& own = *layout_of(one);
    switch (attribute) {
        case CUBLASLT_MATRIX_LAYOUT_TYPE: take(&own.type, value, size); break;
        case CUBLASLT_MATRIX_LAYOUT_ROWS: take(&own.rows, value, size); break;
        case CUBLASLT_MATRIX_LAYOUT_COLS: take(&own.columns, value, size); break;
        case CUBLASLT_MATRIX_LAYOUT_LD: take(&own.ld, value, size); break;
        case CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT: take(&own.count, value, size); break;
        case CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET: take(&own.stride, value, size); break;
        default: take(&own.order, value, size);
    }
    return CUBLAS_STATUS_SUCCESS;
}
API cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* made) {
    *made = reinterpret_cast<cublasLtMatmulPreference_t>(new char);
    return CUBLAS_STATUS_SUCCESS;
}
API cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t one) {
    delete reinterpret_cast<char*>(one);
    return CUBLAS_STATUS_SUCCESS;
}
API cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t,
                                                        cublasLtMatmulPreferenceAttributes_t, const void*, size_t) {
    return CUBLAS_STATUS_SUCCESS;
}
API cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t,
                                                  cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                                  cublasLtMatrixLayout_t, cublasLtMatmulPreference_t, int wanted,
                                                  cublasLtMatmulHeuristicResult_t results[], int* found) {
    *found = wanted > 0 ? 1 : 0;
    if (*found) memset(results, 0, sizeof *results);
    return CUBLAS_STATUS_SUCCESS;
}
API cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t desc, const void* alpha, const void* a,
                                  cublasLtMatrixLayout_t layouta, const void* b, cublasLtMatrixLayout_t layoutb,
                                  const void* beta, const void* c, cublasLtMatrixLayout_t layoutc, void* d,
                                  cublasLtMatrixLayout_t layoutd, const cublasLtMatmulAlgo_t*, void*, size_t,
                                  cudaStream_t stream) {
    Description& own = *description(desc);
    for (cublasLtMatrixLayout_t one : {layouta, layoutb, layoutc, layoutd})
        if (layout_of(one)->order) {
            unsupported("cublasLtMatmul of matrices that are not in columns");
            return CUBLAS_STATUS_NOT_SUPPORTED;
        }
    Product product = own.product;
    const Layout &left = *layout_of(layouta), &result = *layout_of(layoutd);
    product.m = int64_t(result.rows);
    product.n = int64_t(result.columns);
    product.k = int64_t(product.opa == CUBLAS_OP_N ? left.columns : left.rows);
    product.count = result.count;
    product.a = matrix(a, layouta);
    product.b = matrix(b, layoutb);
    product.c = matrix(c, layoutc);
    product.d = matrix(d, layoutd);
    if (!product.bias.type) product.bias.type = result.type;
    product.aux.type = result.type;
    if (own.on_device && !(access(alpha, 4, 4, 1, false, stream) && access(beta, 4, 4, 1, false, stream)))
        return CUBLAS_STATUS_INVALID_VALUE;
    scalar(alpha, own.scale, product.alpha);
    scalar(beta, own.scale, product.beta);
    return multiply(product, stream);
}
