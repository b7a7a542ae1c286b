// Devices, streams, events, errors and kernels' attributes: one device, on which calls run in their order.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <mutex>
#include <set>

#include "graphs.h"
#include "modules.h"

using namespace gpuemu;

namespace {

// Properties of an A100 (compute capability 8.0). Programs that are compiled for a later architecture see that one.
constexpr int THREADS_PER_MULTIPROCESSOR = 2048, BLOCKS_PER_MULTIPROCESSOR = 32;

// Hopper, and the first Blackwell devices after it.
bool large() { return architecture() >= 90 && architecture() < 120; }
// Those that programs see, which may be fewer.
int stated_multiprocessors() {
    static const char* given = getenv("GPUEMU_MULTIPROCESSORS");
    return given ? atoi(given) : multiprocessors();
}
size_t shared_per_multiprocessor() { return size_t(large() ? 228 : 164) << 10; }

std::atomic<uint64_t> next_number{1};
std::mutex all_streams;
std::set<Handle*> streams;

double milliseconds() {
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1e3 + now.tv_nsec * 1e-6;
}

cudaError_t create_stream(cudaStream_t* stream, unsigned flags) {
    Handle* made = new Handle{next_number++};
    made->flags = flags;
    std::lock_guard<std::mutex> guard(all_streams);
    streams.insert(made);
    call(message::CreateStream{made->number, flags});
    *stream = reinterpret_cast<cudaStream_t>(made);
    return cudaSuccess;
}

// Whether the program was compiled with --default-stream per-thread.
std::atomic<bool> streams_of_threads{false};

// The default stream of this thread, which waits for the legacy one as any other stream does.
uint64_t stream_of_thread() {
    static thread_local uint64_t number = 0;
    if (!number) {
        number = next_number++;
        call(message::CreateStream{number, cudaStreamDefault});
    }
    return number;
}

cudaError_t one_device(int device) { return device ? result(cudaErrorInvalidDevice) : cudaSuccess; }

struct NamedError {
    int value;
    const char* name;
};
const NamedError ERROR_NAMES[] = {
#include "error_names.inc"
};

}  // namespace

namespace gpuemu {

int multiprocessors() { return large() ? 132 : 108; }

uint64_t new_number() { return next_number++; }

bool refused_in_capture() {
    std::lock_guard<std::mutex> guard(all_streams);
    bool any = false;
    for (Handle* stream : streams) any |= refused_in_capture(reinterpret_cast<cudaStream_t>(stream));
    return any;
}

void end_captures(Graph* graph) {
    std::lock_guard<std::mutex> guard(all_streams);
    for (Handle* stream : streams)
        if (stream->capture == graph) {
            stream->capture = nullptr;
            stream->last.clear();
        }
}

// 1 is the legacy default stream, 2 that of the thread, and 0 one of them.
uint64_t stream_number(cudaStream_t stream) {
    uint64_t value = reinterpret_cast<uint64_t>(stream);
    if (value > 2) return handle(stream)->number;
    return value == 2 || (!value && streams_of_threads) ? stream_of_thread() : 0;
}

}  // namespace gpuemu

// What the header that every source includes calls, if the source is compiled with --default-stream per-thread.
API int gpuemu_streams_of_threads() {
    streams_of_threads = true;
    return 0;
}

// ---- Synchronisation

API cudaError_t cudaDeviceSynchronize() {
    if (refused_in_capture()) return result(cudaErrorStreamCaptureUnsupported);
    return result(synchronize(WaitScope::DEVICE));
}
API cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
    if (refused_in_capture(stream)) return result(cudaErrorStreamCaptureUnsupported);
    return result(synchronize(WaitScope::STREAM, stream_number(stream)));
}
// Work that has not ended is not an error of the thread.
API cudaError_t cudaStreamQuery(cudaStream_t stream) {
    if (refused_in_capture(stream)) return result(cudaErrorStreamCaptureUnsupported);
    cudaError_t error = query(WaitScope::STREAM, stream_number(stream));
    return error == cudaErrorNotReady ? error : result(error);
}
API cudaError_t cudaEventSynchronize(cudaEvent_t event) {
    return result(synchronize(WaitScope::EVENT, handle(event)->number));
}
API cudaError_t cudaEventQuery(cudaEvent_t event) {
    cudaError_t error = query(WaitScope::EVENT, handle(event)->number);
    return error == cudaErrorNotReady ? error : result(error);
}
API cudaError_t cudaDeviceReset() {
    cudaError_t error = synchronize(WaitScope::DEVICE);
    end_watch();
    call(message::Reset{});
    unload_modules();
    return result(error);
}

// ---- Streams and events

API cudaError_t cudaStreamCreate(cudaStream_t* stream) { return create_stream(stream, cudaStreamDefault); }
API cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) { return create_stream(stream, flags); }
API cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int) {
    return create_stream(stream, flags);
}
API cudaError_t cudaStreamDestroy(cudaStream_t stream) {
    if (reinterpret_cast<uint64_t>(stream) <= 2) return result(cudaErrorInvalidResourceHandle);
    std::lock_guard<std::mutex> guard(all_streams);
    streams.erase(handle(stream));
    delete handle(stream);
    return cudaSuccess;
}
API cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
    if (wait_captured(stream, event)) return cudaSuccess;
    call(message::WaitForEvent{stream_number(stream), handle(event)->number});
    return cudaSuccess;
}
API cudaError_t cudaStreamGetFlags(cudaStream_t stream, unsigned* flags) {
    *flags = reinterpret_cast<uint64_t>(stream) <= 2 ? 0 : unsigned(handle(stream)->flags);
    return cudaSuccess;
}
API cudaError_t cudaStreamGetPriority(cudaStream_t, int* priority) {
    *priority = 0;
    return cudaSuccess;
}
API cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
    *least = *greatest = 0;
    return cudaSuccess;
}
// A host function runs when everything before it in its stream has ended: here, at once.
API cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
    Work later = [=](cudaStream_t s) { return cudaLaunchHostFunc(s, function, data); };
    if (captured(stream, cudaGraphNodeTypeHost, later)) return cudaSuccess;
    synchronize(WaitScope::STREAM, stream_number(stream));
    function(data);
    return cudaSuccess;
}
API cudaError_t cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t callback, void* data, unsigned) {
    cudaError_t error = synchronize(WaitScope::STREAM, stream_number(stream));
    callback(stream, error, data);
    return cudaSuccess;
}
API cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
    Handle* made = new Handle{next_number++};
    made->flags = flags;
    *event = reinterpret_cast<cudaEvent_t>(made);
    return cudaSuccess;
}
API cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, 0); }
API cudaError_t cudaEventDestroy(cudaEvent_t event) {
    if (!event) return result(cudaErrorInvalidResourceHandle);
    delete handle(event);
    return cudaSuccess;
}
API cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
    if (event_captured(stream, event)) return cudaSuccess;
    handle(event)->recorded = true;
    handle(event)->time = milliseconds();
    call(message::RecordEvent{handle(event)->number, stream_number(stream)});
    return cudaSuccess;
}
API cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned) {
    return cudaEventRecord(event, stream);
}
API cudaError_t cudaEventElapsedTime(float* time, cudaEvent_t start, cudaEvent_t end) {
    for (Handle* one : {handle(start), handle(end)})
        if (!one->recorded || one->flags & cudaEventDisableTiming) return result(cudaErrorInvalidResourceHandle);
    *time = float(handle(end)->time - handle(start)->time);
    return cudaSuccess;
}

// ---- Devices

API cudaError_t cudaSetDevice(int device) { return one_device(device); }
API cudaError_t cudaInitDevice(int device, unsigned, unsigned) { return one_device(device); }
API cudaError_t cudaGetDevice(int* device) {
    *device = 0;
    return cudaSuccess;
}
API cudaError_t cudaGetDeviceCount(int* count) {
    *count = 1;
    return cudaSuccess;
}
API cudaError_t cudaChooseDevice(int* device, const cudaDeviceProp*) { return cudaGetDevice(device); }
API cudaError_t cudaSetValidDevices(int*, int) { return cudaSuccess; }
API cudaError_t cudaSetDeviceFlags(unsigned) { return cudaSuccess; }
API cudaError_t cudaGetDeviceFlags(unsigned* flags) {
    *flags = cudaDeviceScheduleAuto;
    return cudaSuccess;
}
API cudaError_t cudaDeviceCanAccessPeer(int* possible, int, int) {
    *possible = 0;
    return cudaSuccess;
}
API cudaError_t cudaDeviceEnablePeerAccess(int, unsigned) { return result(cudaErrorInvalidDevice); }
API cudaError_t cudaDeviceDisablePeerAccess(int) { return result(cudaErrorInvalidDevice); }
API cudaError_t cudaDeviceGetByPCIBusId(int* device, const char*) { return cudaGetDevice(device); }
API cudaError_t cudaDeviceGetPCIBusId(char* text, int size, int device) {
    snprintf(text, size, "0000:00:00.0");
    return one_device(device);
}
API cudaError_t cudaDeviceGetLimit(size_t* value, cudaLimit limit) {
    *value = limit == cudaLimitStackSize ? 1024 : limit == cudaLimitPrintfFifoSize ? 1 << 20 : 8 << 20;
    return cudaSuccess;
}
API cudaError_t cudaDeviceSetLimit(cudaLimit, size_t) { return cudaSuccess; }
API cudaError_t cudaDeviceSetCacheConfig(cudaFuncCache) { return cudaSuccess; }
API cudaError_t cudaDeviceGetCacheConfig(cudaFuncCache* config) {
    *config = cudaFuncCachePreferNone;
    return cudaSuccess;
}
API cudaError_t cudaFuncSetCacheConfig(const void*, cudaFuncCache) { return cudaSuccess; }
API cudaError_t cudaDriverGetVersion(int* version) {
    *version = CUDART_VERSION;
    return cudaSuccess;
}
API cudaError_t cudaRuntimeGetVersion(int* version) { return cudaDriverGetVersion(version); }
API cudaError_t cudaProfilerStart() { return cudaSuccess; }
API cudaError_t cudaProfilerStop() { return cudaSuccess; }
API cudaChannelFormatDesc cudaCreateChannelDesc(int x, int y, int z, int w, cudaChannelFormatKind kind) {
    return {x, y, z, w, kind};
}

API cudaError_t cudaGetDeviceProperties(cudaDeviceProp* p, int device) {
    if (device) return result(cudaErrorInvalidDevice);
    memset(p, 0, sizeof *p);
    snprintf(p->name, sizeof p->name, "gpuemu (emulated sm_%d)", architecture());
    p->totalGlobalMem = total_memory();
    p->sharedMemPerBlock = 48 << 10;
    p->sharedMemPerMultiprocessor = shared_per_multiprocessor();
    p->sharedMemPerBlockOptin = p->sharedMemPerMultiprocessor - (1 << 10);
    p->reservedSharedMemPerBlock = 1 << 10;
    p->regsPerBlock = p->regsPerMultiprocessor = 64 << 10;
    p->warpSize = 32;
    p->maxThreadsPerBlock = 1024;
    p->maxThreadsDim[0] = p->maxThreadsDim[1] = 1024;
    p->maxThreadsDim[2] = 64;
    p->maxGridSize[0] = 0x7fffffff;
    p->maxGridSize[1] = p->maxGridSize[2] = 65535;
    p->totalConstMem = 64 << 10;
    p->major = architecture() / 10;
    p->minor = architecture() % 10;
    p->multiProcessorCount = stated_multiprocessors();
    p->maxThreadsPerMultiProcessor = THREADS_PER_MULTIPROCESSOR;
    p->maxBlocksPerMultiProcessor = BLOCKS_PER_MULTIPROCESSOR;
    p->l2CacheSize = 40 << 20;
    p->memoryBusWidth = 5120;
    p->memPitch = 0x7fffffff;
    p->textureAlignment = 512;
    p->concurrentKernels = p->asyncEngineCount = 1;
    p->canMapHostMemory = p->unifiedAddressing = p->managedMemory = p->concurrentManagedAccess = 1;
    p->clusterLaunch = architecture() >= 90;
    p->cooperativeLaunch = p->streamPrioritiesSupported = p->memoryPoolsSupported = 1;
    return cudaSuccess;
}
API cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
    cudaDeviceProp p;
    if (cudaGetDeviceProperties(&p, device)) return cudaErrorInvalidDevice;
    if (!value || attribute < cudaDevAttrMaxThreadsPerBlock || attribute >= cudaDevAttrMax)
        return result(cudaErrorInvalidValue);
    switch (attribute) {
        case cudaDevAttrMaxThreadsPerBlock: *value = p.maxThreadsPerBlock; break;
        case cudaDevAttrMaxBlockDimX: *value = p.maxThreadsDim[0]; break;
        case cudaDevAttrMaxBlockDimY: *value = p.maxThreadsDim[1]; break;
        case cudaDevAttrMaxBlockDimZ: *value = p.maxThreadsDim[2]; break;
        case cudaDevAttrMaxGridDimX: *value = p.maxGridSize[0]; break;
        case cudaDevAttrMaxGridDimY: *value = p.maxGridSize[1]; break;
        case cudaDevAttrMaxGridDimZ: *value = p.maxGridSize[2]; break;
        case cudaDevAttrMaxSharedMemoryPerBlock: *value = int(p.sharedMemPerBlock); break;
        case cudaDevAttrMaxSharedMemoryPerBlockOptin: *value = int(p.sharedMemPerBlockOptin); break;
        case cudaDevAttrMaxSharedMemoryPerMultiprocessor: *value = int(p.sharedMemPerMultiprocessor); break;
        case cudaDevAttrReservedSharedMemoryPerBlock: *value = int(p.reservedSharedMemPerBlock); break;
        case cudaDevAttrTotalConstantMemory: *value = int(p.totalConstMem); break;
        case cudaDevAttrWarpSize: *value = p.warpSize; break;
        case cudaDevAttrMaxRegistersPerBlock: *value = p.regsPerBlock; break;
        case cudaDevAttrMaxRegistersPerMultiprocessor: *value = p.regsPerMultiprocessor; break;
        case cudaDevAttrClockRate: *value = 1410000; break;
        case cudaDevAttrMemoryClockRate: *value = 1215000; break;
        case cudaDevAttrGlobalMemoryBusWidth: *value = p.memoryBusWidth; break;
        case cudaDevAttrL2CacheSize: *value = p.l2CacheSize; break;
        case cudaDevAttrMultiProcessorCount: *value = p.multiProcessorCount; break;
        case cudaDevAttrMaxThreadsPerMultiProcessor: *value = p.maxThreadsPerMultiProcessor; break;
        case cudaDevAttrMaxBlocksPerMultiprocessor: *value = p.maxBlocksPerMultiProcessor; break;
        case cudaDevAttrComputeCapabilityMajor: *value = p.major; break;
        case cudaDevAttrComputeCapabilityMinor: *value = p.minor; break;
        case cudaDevAttrClusterLaunch: *value = p.clusterLaunch; break;
        case cudaDevAttrTextureAlignment: *value = int(p.textureAlignment); break;
        case cudaDevAttrConcurrentKernels:
        case cudaDevAttrAsyncEngineCount:
        case cudaDevAttrCanMapHostMemory:
        case cudaDevAttrUnifiedAddressing:
        case cudaDevAttrManagedMemory:
        case cudaDevAttrConcurrentManagedAccess:
        case cudaDevAttrCooperativeLaunch:
        case cudaDevAttrStreamPrioritiesSupported:
        case cudaDevAttrMemoryPoolsSupported: *value = 1; break;
        default: *value = 0;
    }
    return cudaSuccess;
}

// ---- Attributes of kernels. Registers are not allocated: occupancy is that of threads, blocks and shared memory.

API cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* host) {
    const Function* function = function_of(host);
    if (!function) return result(cudaErrorInvalidDeviceFunction);
    memset(attributes, 0, sizeof *attributes);
    attributes->sharedSizeBytes = function->shared;
    attributes->localSizeBytes = function->local;
    attributes->maxThreadsPerBlock = int(function->most_threads);
    attributes->numRegs = 32;
    attributes->ptxVersion = attributes->binaryVersion = architecture();
    attributes->maxDynamicSharedSizeBytes = function->most_shared - int(function->shared);
    return cudaSuccess;
}
API cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void* host, int threads,
                                                                       size_t dynamic, unsigned) {
    size_t shared, local, most;
    if (!known_kernel(host, &shared, &local, &most)) return result(cudaErrorInvalidDeviceFunction);
    if (threads <= 0) return result(cudaErrorInvalidValue);
    int fit = size_t(threads) > most ? 0 : THREADS_PER_MULTIPROCESSOR / ((threads + 31) / 32 * 32);
    size_t used = shared + dynamic + (1 << 10);
    size_t shared_fit = shared_per_multiprocessor() / used;
    if (size_t(fit) > shared_fit) fit = int(shared_fit);
    *blocks = fit > BLOCKS_PER_MULTIPROCESSOR ? BLOCKS_PER_MULTIPROCESSOR : fit;
    return cudaSuccess;
}
API cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* host, int threads,
                                                              size_t dynamic) {
    return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, host, threads, dynamic, 0);
}
API cudaError_t cudaOccupancyAvailableDynamicSMemPerBlock(size_t* bytes, const void*, int blocks, int) {
    *bytes = blocks > 0 ? shared_per_multiprocessor() / blocks - (1 << 10) : 0;
    return cudaSuccess;
}

// ---- Texts of errors

API const char* cudaGetErrorName(cudaError_t error) {
    for (const NamedError& one : ERROR_NAMES)
        if (one.value == int(error)) return one.name;
    return "unrecognized error code";
}
API const char* cudaGetErrorString(cudaError_t error) {
    switch (error) {
        case cudaSuccess: return "no error";
        case cudaErrorInvalidValue: return "invalid argument";
        case cudaErrorMemoryAllocation: return "out of memory";
        case cudaErrorInitializationError: return "initialization error";
        case cudaErrorInvalidConfiguration: return "invalid configuration argument";
        case cudaErrorInvalidSymbol: return "invalid device symbol";
        case cudaErrorInvalidDevicePointer: return "invalid device pointer";
        case cudaErrorInvalidMemcpyDirection: return "invalid copy direction for memcpy";
        case cudaErrorInvalidDeviceFunction: return "invalid device function";
        case cudaErrorInvalidDevice: return "invalid device ordinal";
        case cudaErrorInvalidResourceHandle: return "invalid resource handle";
        case cudaErrorNotReady: return "device not ready";
        case cudaErrorIllegalAddress: return "an illegal memory access was encountered";
        case cudaErrorLaunchFailure: return "unspecified launch failure";
        case cudaErrorLaunchOutOfResources: return "too many resources requested for launch";
        case cudaErrorNotSupported: return "operation not supported";
        case cudaErrorNoDevice: return "no CUDA-capable device is detected";
        case cudaErrorAssert: return "device-side assert triggered";
        case cudaErrorMisalignedAddress: return "misaligned address";
        case cudaErrorLaunchTimeout: return "the launch timed out and was terminated";
        case cudaErrorHostMemoryAlreadyRegistered: return "part or all of the requested memory range is already mapped";
        case cudaErrorHostMemoryNotRegistered: return "pointer does not correspond to a registered memory region";
        default: return cudaGetErrorName(error);
    }
}
