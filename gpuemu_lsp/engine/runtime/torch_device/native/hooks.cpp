// libtorch_cuda: what ATen asks of a build for CUDA, and the context that extensions ask for.
#include <ATen/cuda/CUDAContextLight.h>
#include <ATen/cuda/CUDAGeneratorImpl.h>
#include <ATen/cuda/detail/IndexUtils.cuh>
#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>

#include "device.h"

namespace at::cuda {

cudaDeviceProp* getDeviceProperties(DeviceIndex) {
    static cudaDeviceProp* properties = [] {
        auto* queried = new cudaDeviceProp;
        C10_CUDA_CHECK(cudaGetDeviceProperties(queried, 0));
        return queried;
    }();
    return properties;
}
cudaDeviceProp* getCurrentDeviceProperties() { return getDeviceProperties(0); }
int warp_size() { return getCurrentDeviceProperties()->warpSize; }
bool canDeviceAccessPeer(DeviceIndex, DeviceIndex) { return false; }
Allocator* getCUDADeviceAllocator() { return gpuemu_torch::device_allocator(); }

cublasHandle_t getCurrentCUDABlasHandle(bool) {
    static thread_local cublasHandle_t handle = [] {
        cublasHandle_t created;
        cublasCreate(&created);
        return created;
    }();
    cublasSetStream(handle, c10::cuda::getCurrentCUDAStream());
    return handle;
}

namespace detail {

bool maybeOverlappingIndices(const TensorBase& tensor) { return !tensor.is_non_overlapping_and_dense(); }

}  // namespace detail
}  // namespace at::cuda

namespace at {
namespace {

struct EmulatedHooks final : CUDAHooksInterface {
    explicit EmulatedHooks(CUDAHooksArgs) {}
    void init() const override {}
    bool hasCUDA() const override { return true; }
    bool hasCUDART() const override { return true; }
    bool isBuilt() const { return true; }
    bool isAvailable() const { return true; }
    bool hasPrimaryContext(DeviceIndex) const override { return true; }
    std::string showConfig() const override { return "emulated by gpuemu"; }

    int getNumGPUs() const override { return 1; }
    DeviceIndex deviceCount() const override { return 1; }
    DeviceIndex current_device() const override { return 0; }
    DeviceIndex getCurrentDevice() const override { return 0; }
    void setCurrentDevice(DeviceIndex index) const { c10::cuda::set_device(index); }
    DeviceIndex exchangeDevice(DeviceIndex index) const override { return c10::cuda::ExchangeDevice(index); }
    DeviceIndex maybeExchangeDevice(DeviceIndex index) const override { return c10::cuda::ExchangeDevice(index); }
    void deviceSynchronize(DeviceIndex) const override { c10::cuda::device_synchronize(); }

    Allocator* getPinnedMemoryAllocator() const override { return gpuemu_torch::pinned_allocator(); }
    Allocator* getCUDADeviceAllocator() const override { return gpuemu_torch::device_allocator(); }
    Device getDeviceFromPtr(void*) const override { return Device(DeviceType::CUDA, 0); }
    bool isPinnedPtr(const void* data) const override {
        cudaPointerAttributes attributes;
        return cudaPointerGetAttributes(&attributes, data) == cudaSuccess && attributes.type == cudaMemoryTypeHost;
    }

    const Generator& getDefaultGenerator(DeviceIndex index) const override {
        return cuda::detail::getDefaultCUDAGenerator(index);
    }
    Generator getNewGenerator(DeviceIndex index) const override { return cuda::detail::createCUDAGenerator(index); }
};

C10_REGISTER_TYPED_CLASS(CUDAHooksRegistry, "CUDAHooks", EmulatedHooks)

}  // namespace
}  // namespace at
