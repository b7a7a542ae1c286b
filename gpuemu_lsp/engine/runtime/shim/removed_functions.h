// What nvcc includes before every source. What CUDA 13 has removed or changed, so that older programs compile: functions,
// by those that replaced them, and members of cudaDeviceProp.
#pragma once

#if defined(__CUDACC__)
inline cudaError_t cudaThreadSynchronize() { return cudaDeviceSynchronize(); }
inline cudaError_t cudaThreadExit() { return cudaDeviceReset(); }
inline cudaError_t cudaThreadSetLimit(cudaLimit limit, size_t value) { return cudaDeviceSetLimit(limit, value); }
inline cudaError_t cudaThreadGetLimit(size_t* value, cudaLimit limit) { return cudaDeviceGetLimit(value, limit); }
inline cudaError_t cudaThreadSetCacheConfig(cudaFuncCache config) { return cudaDeviceSetCacheConfig(config); }

inline cudaError_t cudaMemPrefetchAsync(const void* at, size_t size, int device, cudaStream_t stream = nullptr) {
    cudaMemLocation location{};
    location.type = device < 0 ? cudaMemLocationTypeHost : cudaMemLocationTypeDevice;
    location.id = device < 0 ? 0 : device;
    return cudaMemPrefetchAsync(at, size, location, 0, stream);
}
inline cudaError_t cudaMemAdvise(const void* at, size_t size, cudaMemoryAdvise advice, int device) {
    cudaMemLocation location{};
    location.type = device < 0 ? cudaMemLocationTypeHost : cudaMemLocationTypeDevice;
    location.id = device < 0 ? 0 : device;
    return cudaMemAdvise(at, size, advice, location);
}
struct gpuemuDeviceProp : cudaDeviceProp {
    int clockRate, deviceOverlap, kernelExecTimeoutEnabled, computeMode, memoryClockRate;
    int maxTexture1DLinear, singleToDoublePrecisionPerfRatio, cooperativeMultiDeviceLaunch;
};
inline cudaError_t cudaGetDeviceProperties(gpuemuDeviceProp* p, int device) {
    cudaError_t error = cudaGetDeviceProperties(static_cast<cudaDeviceProp*>(p), device);
    cudaDeviceGetAttribute(&p->clockRate, cudaDevAttrClockRate, device);
    cudaDeviceGetAttribute(&p->memoryClockRate, cudaDevAttrMemoryClockRate, device);
    p->deviceOverlap = 1;
    p->kernelExecTimeoutEnabled = p->computeMode = p->cooperativeMultiDeviceLaunch = 0;
    p->maxTexture1DLinear = 1 << 28;
    p->singleToDoublePrecisionPerfRatio = 2;
    return error;
}
#define cudaDeviceProp gpuemuDeviceProp
#endif

#if defined(CUDA_API_PER_THREAD_DEFAULT_STREAM) && defined(__cplusplus)
// The source is compiled with --default-stream per-thread, which holds for the whole program.
extern "C" int gpuemu_streams_of_threads();
[[maybe_unused]] static const int gpuemu_default_stream = gpuemu_streams_of_threads();
#endif
