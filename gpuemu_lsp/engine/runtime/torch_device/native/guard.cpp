// libc10_cuda: errors, the one device, streams, and PyTorch's own device guard on them.
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>
#include <c10/cuda/impl/CUDAGuardImpl.h>
#include <torch/version.h>

#include "device.h"

namespace gpuemu_torch {

bool is_forked = false;

}

namespace c10::cuda {

// ---- Errors

void c10_cuda_check_implementation(const int32_t error, const char* file, const char* function, const uint32_t line,
                                   const bool) {
    if (C10_LIKELY(error == cudaSuccess)) return;
    (void)cudaGetLastError();
    std::string message = std::string("CUDA error: ") + cudaGetErrorString(cudaError_t(error));
#if TORCH_VERSION_MAJOR > 2 || TORCH_VERSION_MINOR >= 8
    throw AcceleratorError({function, file, line}, error, message);
#else
    throw CUDAError({function, file, line}, message);
#endif
}
std::string get_cuda_error_help(cudaError_t) noexcept { return ""; }
const char* get_cuda_check_suffix() noexcept { return ""; }
const char* get_cuda_async_error_suffix(cudaError_t) noexcept { return ""; }
std::mutex* getFreeMutex() {
    static std::mutex mutex;
    return &mutex;
}

// ---- Devices

DeviceIndex device_count() noexcept { return 1; }
DeviceIndex device_count_ensure_non_zero() { return 1; }
DeviceIndex current_device() { return 0; }
namespace {
cudaError_t choose(DeviceIndex device) { return device > 0 ? cudaErrorInvalidDevice : cudaSuccess; }
}  // namespace
// One of the two is PyTorch's, by its version.
cudaError_t SetDevice(DeviceIndex device) { return choose(device); }
cudaError_t SetDevice(DeviceIndex device, const bool) { return choose(device); }
void set_device(DeviceIndex device) { C10_CUDA_CHECK(choose(device)); }
void set_device(DeviceIndex device, const bool) { C10_CUDA_CHECK(choose(device)); }
void device_synchronize() { C10_CUDA_CHECK(cudaDeviceSynchronize()); }
void warn_or_error_on_sync() {}
cudaError_t GetDeviceCount(int* count) {
    *count = 1;
    return cudaSuccess;
}
cudaError_t GetDevice(DeviceIndex* device) {
    *device = 0;
    return cudaSuccess;
}
cudaError_t MaybeSetDevice(DeviceIndex device) { return choose(device); }
DeviceIndex ExchangeDevice(DeviceIndex device) {
    C10_CUDA_CHECK(choose(device));
    return 0;
}
DeviceIndex MaybeExchangeDevice(DeviceIndex device) { return ExchangeDevice(device); }
void SetTargetDevice() {}
bool hasPrimaryContext(DeviceIndex) { return true; }
std::optional<DeviceIndex> getDeviceIndexWithPrimaryContext() { return DeviceIndex(0); }
bool get_p2p_access(DeviceIndex, DeviceIndex) { return false; }

// ---- Streams: the id of a stream is its handle

namespace {

thread_local StreamId current = 0;

CUDAStream with_id(StreamId id) {
    return CUDAStream(CUDAStream::UNCHECKED, Stream(Stream::UNSAFE, Device(DeviceType::CUDA, 0), id));
}

}  // namespace

cudaStream_t CUDAStream::stream() const { return reinterpret_cast<cudaStream_t>(stream_.id()); }
#if TORCH_VERSION_MAJOR > 2 || TORCH_VERSION_MINOR >= 11
bool CUDAStream::query() const {
    cudaError_t error = cudaStreamQuery(stream());
    if (error != cudaErrorNotReady) {
        C10_CUDA_CHECK(error);
        return true;
    }
    (void)cudaGetLastError();
    return false;
}
void CUDAStream::synchronize() const { C10_CUDA_CHECK(cudaStreamSynchronize(stream())); }
#endif

// PyTorch hands out the 32 streams of a pool in turn. Here each is a new one, so that two of a program never are the same.
CUDAStream getStreamFromPool(const int, DeviceIndex) {
    cudaStream_t created;
    C10_CUDA_CHECK(cudaStreamCreateWithFlags(&created, cudaStreamNonBlocking));
    return with_id(reinterpret_cast<StreamId>(created));
}
CUDAStream getStreamFromPool(const bool, DeviceIndex device) { return getStreamFromPool(0, device); }
CUDAStream getStreamFromExternal(cudaStream_t stream, DeviceIndex) {
    return with_id(reinterpret_cast<StreamId>(stream));
}
CUDAStream getDefaultCUDAStream(DeviceIndex) { return with_id(0); }
CUDAStream getCurrentCUDAStream(DeviceIndex) {
    // All that is done on the device is done on a stream.
    if (gpuemu_torch::is_forked) C10_CUDA_CHECK(cudaErrorInitializationError);
    return with_id(current);
}
void setCurrentCUDAStream(CUDAStream stream) { current = stream.id(); }
std::ostream& operator<<(std::ostream& out, const CUDAStream& stream) { return out << stream.unwrap(); }

}  // namespace c10::cuda

C10_REGISTER_GUARD_IMPL(CUDA, c10::cuda::impl::CUDAGuardImpl)

// ---- For the Python part

API int64_t gpuemu_torch_current_stream() { return c10::cuda::getCurrentCUDAStream().id(); }
API void gpuemu_torch_set_stream(int64_t id) {
    c10::cuda::setCurrentCUDAStream(c10::cuda::getStreamFromExternal(reinterpret_cast<cudaStream_t>(id), 0));
}
API int gpuemu_torch_synchronize() { return int(cudaDeviceSynchronize()); }
