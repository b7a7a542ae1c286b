#pragma once

#include <cooperative_groups.h>
#include <hip/hip_runtime.h>

// Its size is that of the active part of a wavefront.
namespace cooperative_groups {
__device__ __forceinline__ coalesced_group gpuemu_coalesced_threads() {
    GPUEMU_WAVEFRONT("coalesced_threads");
    return coalesced_threads();
}
}  // namespace cooperative_groups
#define coalesced_threads gpuemu_coalesced_threads
