// nvcc: -arch=sm_90a
// Tiles of a matrix, loaded and stored by tensor maps: the driver's function is found as CUTLASS finds it.
#include <cuda.h>
#include <cuda_runtime.h>

#include <cstdio>
#include <vector>

constexpr int ROWS = 70, COLUMNS = 40, TILE = 32;  // the last tiles are partly outside: zeros are loaded for what is

#define CHECK(call) \
    if (cudaError_t error = (call)) return printf("%s: %s\n", #call, cudaGetErrorString(error)), 1

__device__ unsigned shared_address(const void* at) { return unsigned(__cvta_generic_to_shared(at)); }

__global__ void add_one(const __grid_constant__ CUtensorMap in, const __grid_constant__ CUtensorMap out) {
    __shared__ alignas(128) float tile[TILE][TILE];
    __shared__ unsigned long long full;
    int x = blockIdx.x * TILE, y = blockIdx.y * TILE;
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(&full)) : "memory");
        asm volatile("fence.proxy.async;" ::: "memory");
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(&full)),
                     "r"(int(sizeof tile))
                     : "memory");
        asm volatile(
            "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(
                shared_address(tile)),
            "l"(&in), "r"(x), "r"(y), "r"(shared_address(&full))
            : "memory");
    }
    __syncthreads();
    asm volatile(
        "{ .reg .pred p; again: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], 0; @!p bra again; }" ::"r"(
            shared_address(&full))
        : "memory");
    for (int i = threadIdx.x; i < TILE * TILE; i += blockDim.x) tile[i / TILE][i % TILE] += 1;
    asm volatile("fence.proxy.async;" ::: "memory");
    __syncthreads();
    if (threadIdx.x == 0) {
        asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];" ::"l"(&out), "r"(x),
                     "r"(y), "r"(shared_address(tile))
                     : "memory");
        asm volatile("cp.async.bulk.commit_group;" ::: "memory");
        asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
    }
}

int main() {
    cudaDeviceProp properties;
    CHECK(cudaGetDeviceProperties(&properties, 0));
    if (properties.major != 9) return printf("compute capability %d\n", properties.major), 1;
    void* entry = nullptr;
    cudaDriverEntryPointQueryResult found;
    CHECK(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &entry, 12000, cudaEnableDefault, &found));
    auto encode = reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(entry);
    std::vector<float> values(ROWS * COLUMNS);
    for (size_t i = 0; i < values.size(); i++) values[i] = float(i);
    float *x, *y;
    CHECK(cudaMalloc(&x, values.size() * sizeof(float)));
    CHECK(cudaMalloc(&y, values.size() * sizeof(float)));
    CHECK(cudaMemcpy(x, values.data(), values.size() * sizeof(float), cudaMemcpyHostToDevice));
    CUtensorMap maps[2];
    for (int i = 0; i < 2; i++) {
        cuuint64_t sizes[] = {COLUMNS, ROWS}, strides[] = {COLUMNS * sizeof(float)};
        cuuint32_t box[] = {TILE, TILE}, steps[] = {1, 1};
        CUresult status = encode(&maps[i], CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 2, i ? y : x, sizes, strides, box, steps,
                                 CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE,
                                 CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
        if (status) return printf("encode: %d\n", int(status)), 1;
    }
    add_one<<<dim3((COLUMNS + TILE - 1) / TILE, (ROWS + TILE - 1) / TILE), 128>>>(maps[0], maps[1]);
    CHECK(cudaGetLastError());
    std::vector<float> result(values.size());
    CHECK(cudaMemcpy(result.data(), y, values.size() * sizeof(float), cudaMemcpyDeviceToHost));
    bool right = true;
    for (size_t i = 0; i < values.size(); i++) right = right && result[i] == values[i] + 1;
    cudaFree(x);
    cudaFree(y);
    printf(right ? "PASS\n" : "FAIL\n");
    return !right;
}
