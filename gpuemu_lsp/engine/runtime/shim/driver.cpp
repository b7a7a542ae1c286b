// CUDA's driver API, in terms of the runtime's: one device with one context. What is not here is a stub.
#include <cuda.h>
#include <dlfcn.h>

#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>

#include "graphs.h"
#include "modules.h"

using namespace gpuemu;

namespace {

int one_context;
CUcontext context() { return reinterpret_cast<CUcontext>(&one_context); }

// Errors of the runtime have the numbers of the driver's, but for this one.
CUresult driver(cudaError_t error) {
    return error == cudaErrorInvalidConfiguration ? CUDA_ERROR_INVALID_VALUE : static_cast<CUresult>(error);
}

void* pointer(CUdeviceptr address) { return reinterpret_cast<void*>(address); }
cudaStream_t stream_of(CUstream stream) { return reinterpret_cast<cudaStream_t>(stream); }
cudaEvent_t event_of(CUevent event) { return reinterpret_cast<cudaEvent_t>(event); }

CUresult load(CUmodule* module, const void* image) {
    uint64_t loaded;
    if (!module || !image) return CUDA_ERROR_INVALID_VALUE;
    if (!add_image(image, &loaded)) {
        unsupported("cuModuleLoadData with machine code (it needs PTX)");
        return CUDA_ERROR_NO_BINARY_FOR_GPU;
    }
    *module = reinterpret_cast<CUmodule>(loaded + FIRST_MODULE);
    return CUDA_SUCCESS;
}

// Attributes have the numbers and the layout of the runtime's.
cudaLaunchConfig_t runtime_config(const CUlaunchConfig& config) {
    cudaLaunchConfig_t same{};
    same.gridDim = dim3(config.gridDimX, config.gridDimY, config.gridDimZ);
    same.blockDim = dim3(config.blockDimX, config.blockDimY, config.blockDimZ);
    same.dynamicSmemBytes = config.sharedMemBytes;
    same.stream = stream_of(config.hStream);
    same.attrs = reinterpret_cast<cudaLaunchAttribute*>(config.attrs);
    same.numAttrs = config.numAttrs;
    return same;
}

CUresult fill_elements(CUdeviceptr to, unsigned value, size_t element, size_t count, CUstream stream) {
    if (!on_device(pointer(to)) || to % element) return CUDA_ERROR_INVALID_VALUE;
    cudaMemsetParams p{};
    p.dst = pointer(to);
    p.value = value;
    p.elementSize = unsigned(element);
    p.width = count;
    p.height = 1;
    return driver(fill(p)(stream_of(stream)));
}

}  // namespace

// ---- Device and context

API CUresult cuInit(unsigned) { return CUDA_SUCCESS; }
API CUresult cuDriverGetVersion(int* version) { return driver(cudaDriverGetVersion(version)); }
API CUresult cuDeviceGetCount(int* count) { return driver(cudaGetDeviceCount(count)); }
API CUresult cuDeviceGet(CUdevice* device, int ordinal) {
    *device = 0;
    return ordinal ? CUDA_ERROR_INVALID_DEVICE : CUDA_SUCCESS;
}
API CUresult cuDeviceGetName(char* name, int size, CUdevice device) {
    cudaDeviceProp p;
    cudaError_t error = cudaGetDeviceProperties(&p, device);
    if (error == cudaSuccess) snprintf(name, size_t(size), "%s", p.name);
    return driver(error);
}
API CUresult cuDeviceGetUuid(CUuuid* uuid, CUdevice device) {
    cudaDeviceProp p;
    cudaError_t error = cudaGetDeviceProperties(&p, device);
    if (error == cudaSuccess) *uuid = p.uuid;
    return driver(error);
}
API CUresult cuDeviceTotalMem(size_t* bytes, CUdevice) {
    *bytes = total_memory();
    return CUDA_SUCCESS;
}
// Attributes have the numbers of the runtime's.
API CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice device) {
    return driver(cudaDeviceGetAttribute(value, static_cast<cudaDeviceAttr>(attribute), device));
}
API CUresult cuDeviceCanAccessPeer(int* possible, CUdevice one, CUdevice other) {
    return driver(cudaDeviceCanAccessPeer(possible, one, other));
}
API CUresult cuCtxCreate(CUcontext* made, CUctxCreateParams*, unsigned, CUdevice) {
    *made = context();
    return CUDA_SUCCESS;
}
API CUresult cuCtxCreate_v2(CUcontext* made, unsigned, CUdevice device) {
    return cuCtxCreate(made, nullptr, 0, device);
}
API CUresult cuCtxDestroy(CUcontext) { return CUDA_SUCCESS; }
API CUresult cuCtxGetCurrent(CUcontext* current) {
    *current = context();
    return CUDA_SUCCESS;
}
API CUresult cuCtxSetCurrent(CUcontext) { return CUDA_SUCCESS; }
API CUresult cuCtxPushCurrent(CUcontext) { return CUDA_SUCCESS; }
API CUresult cuCtxPopCurrent(CUcontext* current) { return current ? cuCtxGetCurrent(current) : CUDA_SUCCESS; }
API CUresult cuCtxGetDevice(CUdevice* device) { return cuDeviceGet(device, 0); }
API CUresult cuCtxGetDevice_v2(CUdevice* device, CUcontext) { return cuDeviceGet(device, 0); }
API CUresult cuCtxSynchronize() { return driver(cudaDeviceSynchronize()); }
API CUresult cuCtxSynchronize_v2(CUcontext) { return driver(cudaDeviceSynchronize()); }
API CUresult cuDevicePrimaryCtxRetain(CUcontext* primary, CUdevice) { return cuCtxGetCurrent(primary); }
API CUresult cuDevicePrimaryCtxRelease(CUdevice) { return CUDA_SUCCESS; }
API CUresult cuDevicePrimaryCtxReset(CUdevice) { return CUDA_SUCCESS; }
API CUresult cuDevicePrimaryCtxSetFlags(CUdevice, unsigned) { return CUDA_SUCCESS; }
API CUresult cuDevicePrimaryCtxGetState(CUdevice, unsigned* flags, int* active) {
    *flags = 0;
    *active = 1;
    return CUDA_SUCCESS;
}
API CUresult cuGetErrorName(CUresult error, const char** text) {
    *text = cudaGetErrorName(static_cast<cudaError_t>(error));
    return CUDA_SUCCESS;
}
API CUresult cuGetErrorString(CUresult error, const char** text) {
    *text = cudaGetErrorString(static_cast<cudaError_t>(error));
    return CUDA_SUCCESS;
}
API CUresult cuGetProcAddress(const char* symbol, void** function, int, cuuint64_t,
                              CUdriverProcAddressQueryResult* status) {
    Dl_info own{};
    dladdr(reinterpret_cast<void*>(context), &own);
    void* library = dlopen(own.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
    *function = nullptr;
    for (const char* version : {"_v4", "_v3", "_v2", ""})
        if (!*function && library) *function = dlsym(library, (std::string(symbol) + version).c_str());
    if (library) dlclose(library);
    if (status) *status = *function ? CU_GET_PROC_ADDRESS_SUCCESS : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    return *function ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

// Programs look the older version up by its name, which CUDA's header makes the newer one's.
#undef cuGetProcAddress
API CUresult cuGetProcAddress(const char* symbol, void** function, int version, cuuint64_t flags) {
    return cuGetProcAddress_v2(symbol, function, version, flags, nullptr);
}

// NVIDIA's runtime asks for it where it is linked into a library. Without it each call of that runtime fails.
API CUresult cuGetExportTable(const void** table, const CUuuid*) {
    *table = nullptr;
    return CUDA_ERROR_NOT_SUPPORTED;
}

// Of other headers than cuda.h: programs look them up.
API CUresult cuProfilerStart() { return CUDA_SUCCESS; }
API CUresult cuProfilerStop() { return CUDA_SUCCESS; }
API CUresult cuGraphicsGLRegisterBuffer() { return CUDA_ERROR_NOT_SUPPORTED; }
API CUresult cuGraphicsGLRegisterImage() { return CUDA_ERROR_NOT_SUPPORTED; }

// ---- Modules and launches

API CUresult cuModuleLoadData(CUmodule* module, const void* image) { return load(module, image); }
API CUresult cuModuleLoadDataEx(CUmodule* module, const void* image, unsigned, CUjit_option*, void**) {
    return load(module, image);
}
API CUresult cuModuleLoadFatBinary(CUmodule* module, const void* image) { return load(module, image); }
API CUresult cuModuleLoad(CUmodule* module, const char* path) {
    std::ifstream file(path, std::ios::binary);
    if (!file) return CUDA_ERROR_FILE_NOT_FOUND;
    return load(module, std::string(std::istreambuf_iterator<char>(file), {}).c_str());
}
API CUresult cuModuleUnload(CUmodule) { return CUDA_SUCCESS; }
API CUresult cuModuleGetFunction(CUfunction* function, CUmodule module, const char* name) {
    const void* host = kernel_in(number(module), name);
    *function = reinterpret_cast<CUfunction>(const_cast<void*>(host));
    return host ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}
API CUresult cuModuleGetGlobal(CUdeviceptr* address, size_t* bytes, CUmodule module, const char* name) {
    char* found;
    size_t size;
    if (!variable_in(number(module), name, &found, &size)) return CUDA_ERROR_NOT_FOUND;
    if (address) *address = reinterpret_cast<CUdeviceptr>(found);
    if (bytes) *bytes = size;
    return CUDA_SUCCESS;
}
API CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                            unsigned block_y, unsigned block_z, unsigned shared, CUstream stream, void** arguments,
                            void** extra) {
    std::vector<void*> addresses;
    Function* kernel = function_of(function);
    if (!kernel) return CUDA_ERROR_INVALID_HANDLE;
    if (!arguments && extra) {
        char* block = nullptr;
        for (size_t i = 0; extra[i] != CU_LAUNCH_PARAM_END; i += 2)
            if (extra[i] == CU_LAUNCH_PARAM_BUFFER_POINTER) block = static_cast<char*>(extra[i + 1]);
        if (!block) return CUDA_ERROR_INVALID_VALUE;
        for (const Parameter& one : kernel->parameters) addresses.push_back(block + one.offset);
        arguments = addresses.data();
    }
    return driver(cudaLaunchKernel(function, dim3(grid_x, grid_y, grid_z), dim3(block_x, block_y, block_z), arguments,
                                   shared, stream_of(stream)));
}
API CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction function, void** arguments, void** extra) {
    if (extra) return CUDA_ERROR_NOT_SUPPORTED;
    cudaLaunchConfig_t same = runtime_config(*config);
    return driver(cudaLaunchKernelExC(&same, function, arguments));
}
API CUresult cuLaunchCooperativeKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                                       unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared,
                                       CUstream stream, void** arguments) {
    return driver(cudaLaunchCooperativeKernel(function, dim3(grid_x, grid_y, grid_z), dim3(block_x, block_y, block_z),
                                              arguments, shared, stream_of(stream)));
}
API CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value) {
    return driver(cudaFuncSetAttribute(function, static_cast<cudaFuncAttribute>(attribute), value));
}
API CUresult cuFuncGetAttribute(int* value, CUfunction_attribute attribute, CUfunction function) {
    cudaFuncAttributes all;
    cudaError_t error = cudaFuncGetAttributes(&all, function);
    if (error != cudaSuccess) return driver(error);
    switch (attribute) {
        case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK: *value = all.maxThreadsPerBlock; break;
        case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES: *value = int(all.sharedSizeBytes); break;
        case CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES: *value = int(all.constSizeBytes); break;
        case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES: *value = int(all.localSizeBytes); break;
        case CU_FUNC_ATTRIBUTE_NUM_REGS: *value = all.numRegs; break;
        case CU_FUNC_ATTRIBUTE_PTX_VERSION: *value = all.ptxVersion; break;
        case CU_FUNC_ATTRIBUTE_BINARY_VERSION: *value = all.binaryVersion; break;
        case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES: *value = all.maxDynamicSharedSizeBytes; break;
        default: *value = 0;
    }
    return CUDA_SUCCESS;
}
API CUresult cuFuncSetCacheConfig(CUfunction, CUfunc_cache) { return CUDA_SUCCESS; }
API CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, CUfunction function, int threads, size_t shared) {
    return driver(cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks, function, threads, shared));
}
API CUresult cuOccupancyAvailableDynamicSMemPerBlock(size_t* bytes, CUfunction function, int blocks, int threads) {
    return driver(cudaOccupancyAvailableDynamicSMemPerBlock(bytes, function, blocks, threads));
}
API CUresult cuOccupancyMaxActiveClusters(int* clusters, CUfunction function, const CUlaunchConfig* config) {
    cudaLaunchConfig_t same = runtime_config(*config);
    return driver(cudaOccupancyMaxActiveClusters(clusters, function, &same));
}
API CUresult cuOccupancyMaxPotentialBlockSize(int* grid, int* block, CUfunction function, CUoccupancyB2DSize shared_of,
                                              size_t shared, int limit) {
    Function* kernel = function_of(function);
    if (!kernel) return CUDA_ERROR_INVALID_HANDLE;
    int multiprocessors, best = 0;
    cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, 0);
    int most = limit > 0 && limit < int(kernel->most_threads) ? limit : int(kernel->most_threads);
    for (int threads = most, blocks; threads > 0; threads = (threads - 1) / 32 * 32) {
        cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, function, threads,
                                                      shared_of ? shared_of(threads) : shared);
        if (blocks * threads <= best) continue;
        best = blocks * threads;
        *block = threads;
        *grid = blocks * multiprocessors;
    }
    return best ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

// ---- Memory

API CUresult cuPointerGetAttribute(void* value, CUpointer_attribute attribute, CUdeviceptr address) {
    // Triton asks for each pointer of a launch, which is checked when it is used: no message is needed.
    if (attribute == CU_POINTER_ATTRIBUTE_DEVICE_POINTER) {
        *static_cast<CUdeviceptr*>(value) = address;
        return on_device(pointer(address)) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    }
    cudaPointerAttributes all;
    cudaError_t error = cudaPointerGetAttributes(&all, pointer(address));
    if (error != cudaSuccess) return driver(error);
    if (all.type == cudaMemoryTypeUnregistered) return CUDA_ERROR_INVALID_VALUE;
    switch (attribute) {
        case CU_POINTER_ATTRIBUTE_HOST_POINTER: *static_cast<void**>(value) = all.hostPointer; break;
        case CU_POINTER_ATTRIBUTE_CONTEXT: *static_cast<CUcontext*>(value) = context(); break;
        case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL: *static_cast<int*>(value) = 0; break;
        case CU_POINTER_ATTRIBUTE_IS_MANAGED:
            *static_cast<unsigned*>(value) = all.type == cudaMemoryTypeManaged;
            break;
        case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
            *static_cast<unsigned*>(value) = all.type == cudaMemoryTypeHost ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
            break;
        default: return CUDA_ERROR_NOT_SUPPORTED;
    }
    return CUDA_SUCCESS;
}
API CUresult cuMemGetInfo(size_t* free, size_t* total) { return driver(cudaMemGetInfo(free, total)); }
API CUresult cuMemAlloc(CUdeviceptr* address, size_t size) {
    if (!size) return CUDA_ERROR_INVALID_VALUE;
    return driver(cudaMalloc(reinterpret_cast<void**>(address), size));
}
API CUresult cuMemAllocManaged(CUdeviceptr* address, size_t size, unsigned flags) {
    return driver(cudaMallocManaged(reinterpret_cast<void**>(address), size, flags));
}
API CUresult cuMemAllocPitch(CUdeviceptr* address, size_t* pitch, size_t width, size_t height, unsigned) {
    return driver(cudaMallocPitch(reinterpret_cast<void**>(address), pitch, width, height));
}
API CUresult cuMemAllocAsync(CUdeviceptr* address, size_t size, CUstream stream) {
    return driver(cudaMallocAsync(reinterpret_cast<void**>(address), size, stream_of(stream)));
}
API CUresult cuMemFree(CUdeviceptr address) { return driver(cudaFree(pointer(address))); }
API CUresult cuMemFreeAsync(CUdeviceptr address, CUstream stream) {
    return driver(cudaFreeAsync(pointer(address), stream_of(stream)));
}
API CUresult cuMemAllocHost(void** address, size_t size) { return driver(cudaMallocHost(address, size)); }
API CUresult cuMemHostAlloc(void** address, size_t size, unsigned flags) {
    return driver(cudaHostAlloc(address, size, flags));
}
API CUresult cuMemFreeHost(void* address) { return driver(cudaFreeHost(address)); }
API CUresult cuMemHostGetDevicePointer(CUdeviceptr* address, void* host, unsigned flags) {
    return driver(cudaHostGetDevicePointer(reinterpret_cast<void**>(address), host, flags));
}
API CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t size) {
    return driver(cudaMemcpy(pointer(to), pointer(from), size, cudaMemcpyDefault));
}
API CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream) {
    return driver(cudaMemcpyAsync(pointer(to), pointer(from), size, cudaMemcpyDefault, stream_of(stream)));
}
API CUresult cuMemcpyHtoD(CUdeviceptr to, const void* from, size_t size) {
    return driver(cudaMemcpy(pointer(to), from, size, cudaMemcpyHostToDevice));
}
API CUresult cuMemcpyDtoH(void* to, CUdeviceptr from, size_t size) {
    return driver(cudaMemcpy(to, pointer(from), size, cudaMemcpyDeviceToHost));
}
API CUresult cuMemcpyDtoD(CUdeviceptr to, CUdeviceptr from, size_t size) {
    return driver(cudaMemcpy(pointer(to), pointer(from), size, cudaMemcpyDeviceToDevice));
}
API CUresult cuMemcpyHtoDAsync(CUdeviceptr to, const void* from, size_t size, CUstream stream) {
    return driver(cudaMemcpyAsync(pointer(to), from, size, cudaMemcpyHostToDevice, stream_of(stream)));
}
API CUresult cuMemcpyDtoHAsync(void* to, CUdeviceptr from, size_t size, CUstream stream) {
    return driver(cudaMemcpyAsync(to, pointer(from), size, cudaMemcpyDeviceToHost, stream_of(stream)));
}
API CUresult cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream) {
    return driver(cudaMemcpyAsync(pointer(to), pointer(from), size, cudaMemcpyDeviceToDevice, stream_of(stream)));
}
API CUresult cuMemsetD8(CUdeviceptr to, unsigned char value, size_t count) {
    return driver(cudaMemset(pointer(to), value, count));
}
API CUresult cuMemsetD16(CUdeviceptr to, unsigned short value, size_t count) {
    return fill_elements(to, value, 2, count, nullptr);
}
API CUresult cuMemsetD32(CUdeviceptr to, unsigned value, size_t count) {
    return fill_elements(to, value, 4, count, nullptr);
}
API CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t count, CUstream stream) {
    return driver(cudaMemsetAsync(pointer(to), value, count, stream_of(stream)));
}
API CUresult cuMemsetD16Async(CUdeviceptr to, unsigned short value, size_t count, CUstream stream) {
    return fill_elements(to, value, 2, count, stream);
}
API CUresult cuMemsetD32Async(CUdeviceptr to, unsigned value, size_t count, CUstream stream) {
    return fill_elements(to, value, 4, count, stream);
}

// ---- Streams and events

API CUresult cuStreamCreate(CUstream* stream, unsigned flags) {
    return driver(cudaStreamCreateWithFlags(reinterpret_cast<cudaStream_t*>(stream), flags));
}
API CUresult cuStreamCreateWithPriority(CUstream* stream, unsigned flags, int) { return cuStreamCreate(stream, flags); }
API CUresult cuStreamDestroy(CUstream stream) { return driver(cudaStreamDestroy(stream_of(stream))); }
API CUresult cuStreamSynchronize(CUstream stream) { return driver(cudaStreamSynchronize(stream_of(stream))); }
API CUresult cuStreamQuery(CUstream stream) { return driver(cudaStreamQuery(stream_of(stream))); }
API CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus* status) {
    return driver(cudaStreamIsCapturing(stream_of(stream), reinterpret_cast<cudaStreamCaptureStatus*>(status)));
}
API CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags) {
    return driver(cudaStreamWaitEvent(stream_of(stream), event_of(event), flags));
}
API CUresult cuEventCreate(CUevent* event, unsigned flags) {
    return driver(cudaEventCreateWithFlags(reinterpret_cast<cudaEvent_t*>(event), flags));
}
API CUresult cuEventDestroy(CUevent event) { return driver(cudaEventDestroy(event_of(event))); }
API CUresult cuEventRecord(CUevent event, CUstream stream) {
    return driver(cudaEventRecord(event_of(event), stream_of(stream)));
}
API CUresult cuEventSynchronize(CUevent event) { return driver(cudaEventSynchronize(event_of(event))); }
API CUresult cuEventQuery(CUevent event) { return driver(cudaEventQuery(event_of(event))); }
API CUresult cuEventElapsedTime(float* time, CUevent start, CUevent end) {
    return driver(cudaEventElapsedTime(time, event_of(start), event_of(end)));
}
