// Tensor maps, and the function of the runtime by which programs find the driver's functions that make them.
#include <cuda.h>

#include <cstring>
#include <string>

#include "core.h"

using namespace gpuemu;

#undef cudaGetDriverEntryPoint
#undef cudaGetDriverEntryPointByVersion

namespace {

constexpr cuuint32_t MOST_DIMENSIONS = 5;

template <typename T>
std::vector<uint64_t> words(const T* values, size_t count) {
    return std::vector<uint64_t>(values, values + count);
}

}  // namespace

API CUresult cuTensorMapEncodeTiled(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank, void* address,
                                    const cuuint64_t* sizes, const cuuint64_t* strides, const cuuint32_t* box,
                                    const cuuint32_t* steps, CUtensorMapInterleave interleave,
                                    CUtensorMapSwizzle swizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill fill) {
    if (!map || !sizes || !box || !steps || (rank > 1 && !strides)) return CUDA_ERROR_INVALID_VALUE;
    cuuint32_t known = rank > MOST_DIMENSIONS ? 0 : rank;
    auto answer = call(message::EncodeTensorMap{
        {uint64_t(type), rank, address, uint64_t(interleave), uint64_t(swizzle), uint64_t(fill),
         reinterpret_cast<uint64_t>(map) % 64 == 0, words(sizes, known), words(strides, known ? known - 1 : 0),
         words(box, known), words(steps, known)}});
    if (!answer.error) memcpy(map, answer.record.data(), sizeof *map);
    return static_cast<CUresult>(answer.error);
}

API cudaError_t cudaGetDriverEntryPoint(const char* symbol, void** function, unsigned long long,
                                        cudaDriverEntryPointQueryResult* status) {
    bool known = !strcmp(symbol, "cuTensorMapEncodeTiled");
    *function = known ? reinterpret_cast<void*>(&cuTensorMapEncodeTiled) : nullptr;
    if (status) *status = known ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
    if (!known) unsupported(symbol);
    return known ? cudaSuccess : cudaErrorSymbolNotFound;
}
API cudaError_t cudaGetDriverEntryPointByVersion(const char* symbol, void** function, unsigned, unsigned long long flags,
                                                 cudaDriverEntryPointQueryResult* status) {
    return cudaGetDriverEntryPoint(symbol, function, flags, status);
}
