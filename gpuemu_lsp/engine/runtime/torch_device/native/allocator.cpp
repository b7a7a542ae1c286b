// Memory of the device, and pinned memory. The storage of each tensor is an allocation of its own, so that an access behind
// it is not one of another tensor's.
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/version.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <set>
#include <unordered_map>

#include "device.h"

namespace gpuemu_torch {
namespace {

struct Block {
    cudaStream_t stream;  // on which it was allocated, and is freed
    size_t bytes;
    std::set<cudaStream_t> users;  // that record_stream() has named
};

// All that is allocated, and the counters that torch.cuda.memory_stats() shows. Never destroyed: tensors are freed by
// destructors of static objects.
struct Blocks {
    std::mutex mutex;
    std::unordered_map<void*, Block> live;
    int64_t bytes = 0, peak_bytes = 0, allocated_bytes = 0, freed_bytes = 0;
    int64_t peak_count = 0, allocated = 0, failed = 0;
};

Blocks& blocks() {
    static Blocks& all = *new Blocks;
    return all;
}

std::string size_text(double bytes) {
    const char* units[] = {"bytes", "KiB", "MiB", "GiB"};
    int unit = 0;
    for (; bytes >= 1024 && unit < 3; unit++) bytes /= 1024;
    char text[32];
    snprintf(text, sizeof text, unit ? "%.2f %s" : "%.0f %s", bytes, units[unit]);
    return text;
}

[[noreturn]] void out_of_memory(size_t bytes) {
    (void)cudaGetLastError();
    size_t left = 0, total = 0;
    (void)cudaMemGetInfo(&left, &total);
    std::string message = "CUDA out of memory. Tried to allocate " + size_text(double(bytes)) +
                          ". GPU 0 has a total capacity of " + size_text(double(total)) + " of which " +
                          size_text(double(left)) + " is free.";
    throw c10::OutOfMemoryError({__func__, __FILE__, uint32_t(__LINE__)}, message);
}

void note(void* pointer, size_t bytes, cudaStream_t stream) {
    Blocks& all = blocks();
    if (!pointer) {
        all.failed++;
        out_of_memory(bytes);
    }
    std::lock_guard<std::mutex> guard(all.mutex);
    all.live[pointer] = {stream, bytes, {}};
    all.bytes += bytes;
    all.allocated_bytes += bytes;
    all.allocated++;
    all.peak_bytes = std::max(all.peak_bytes, all.bytes);
    all.peak_count = std::max(all.peak_count, int64_t(all.live.size()));
}

void* allocate_on(size_t bytes, cudaStream_t stream) {
    if (!bytes) return nullptr;
    void* pointer = nullptr;
    (void)cudaMalloc(&pointer, bytes);
    note(pointer, bytes, stream);
    return pointer;
}

// Free when all that is on the streams now has ended. Nothing but frees is on the stream that waits for them.
void free_after(void* pointer, const std::set<cudaStream_t>& streams) {
    static cudaStream_t frees = nullptr;
    static cudaEvent_t event = nullptr;
    if (!frees) {
        (void)cudaStreamCreateWithFlags(&frees, cudaStreamNonBlocking);
        (void)cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
    }
    for (cudaStream_t stream : streams) {
        (void)cudaEventRecord(event, stream);
        (void)cudaStreamWaitEvent(frees, event, 0);
    }
    (void)cudaFreeAsync(pointer, frees);
}

}  // namespace

void* allocate(size_t bytes) { return allocate_on(bytes, c10::cuda::getCurrentCUDAStream()); }

void adopt(void* pointer, size_t bytes) { note(pointer, bytes, c10::cuda::getCurrentCUDAStream()); }

void release(void* pointer) {
    if (!pointer || is_forked) return;
    Blocks& all = blocks();
    Block block;
    {
        std::lock_guard<std::mutex> guard(all.mutex);
        auto entry = all.live.find(pointer);
        if (entry == all.live.end()) return;
        block = std::move(entry->second);
        all.live.erase(entry);
        all.bytes -= block.bytes;
        all.freed_bytes += block.bytes;
    }
    // PyTorch's allocator uses a block again for the next allocation on its stream.
    if (block.users.empty()) return gpuemuFree(pointer, block.stream);
    block.users.insert(block.stream);
    free_after(pointer, block.users);
}

void record_stream(const void* pointer, cudaStream_t stream) {
    Blocks& all = blocks();
    std::lock_guard<std::mutex> guard(all.mutex);
    auto entry = all.live.find(const_cast<void*>(pointer));
    if (entry != all.live.end() && entry->second.stream != stream) entry->second.users.insert(stream);
}

}  // namespace gpuemu_torch

namespace c10::cuda::CUDACachingAllocator {
namespace {

[[noreturn]] void no_shared_memory() {
    gpuemu_torch::not_emulated("sharing memory of the device with another process (torch.multiprocessing)");
}

// What getExpandableSegmentSizes() returns, in versions that have it.
template <typename Allocator, typename = void>
struct SegmentSizes {
    using type = int;
};
template <typename Allocator>
struct SegmentSizes<Allocator, std::void_t<decltype(&Allocator::getExpandableSegmentSizes)>> {
    using type = decltype(std::declval<Allocator&>().getExpandableSegmentSizes(0));
};

// Some are without `override`, and some there with the parameters of several versions of PyTorch: what is virtual differs.
struct DeviceMemory final : CUDAAllocator {
    DataPtr allocate(size_t bytes) override {
        void* data = gpuemu_torch::allocate(bytes);
        return {data, data, &gpuemu_torch::release, Device(DeviceType::CUDA, 0)};
    }
    DeleterFnPtr raw_deleter() const override { return &gpuemu_torch::release; }
    void copy_data(void* to, const void* from, std::size_t bytes) const override {
        C10_CUDA_CHECK(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, getCurrentCUDAStream()));
    }
    void* raw_alloc(size_t bytes) override { return gpuemu_torch::allocate(bytes); }
    void* raw_alloc_with_stream(size_t bytes, cudaStream_t stream) override {
        return gpuemu_torch::allocate_on(bytes, stream);
    }
    void raw_delete(void* pointer) override { gpuemu_torch::release(pointer); }
    void recordStream(const DataPtr& data, CUDAStream stream) override {
        gpuemu_torch::record_stream(data.get(), stream);
    }
    CachingDeviceAllocator::DeviceStats getDeviceStats(DeviceIndex) override { return {}; }
    void resetAccumulatedStats(DeviceIndex) override {}
    void resetPeakStats(DeviceIndex) override {}
    void init(int) override {}
    bool initialized() override { return true; }
    double getMemoryFraction(DeviceIndex) { return 1; }
    void setMemoryFraction(double, DeviceIndex) override {}
    SegmentSizes<CUDAAllocator>::type getExpandableSegmentSizes(DeviceIndex) { return {}; }
    void emptyCache() {}
    void emptyCache(MempoolId_t) {}
    void enable(bool) {}
    bool isEnabled() const { return true; }
    void cacheInfo(DeviceIndex, size_t* largest) override { *largest = 0; }
    void* getBaseAllocation(void* pointer, size_t*) override { return pointer; }
    SnapshotInfo snapshot() { return {}; }
    SnapshotInfo snapshot(MempoolId_t) { return {}; }
    SnapshotInfo snapshot(MempoolId_t, bool) { return {}; }
    void beginAllocateToPool(DeviceIndex, MempoolId_t, std::function<bool(cudaStream_t)>) override {}
    void endAllocateToPool(DeviceIndex, MempoolId_t) override {}
    void releasePool(DeviceIndex, MempoolId_t) override {}
    ShareableHandle shareIpcHandle(void*) override { no_shared_memory(); }
    std::shared_ptr<void> getIpcDevPtr(std::string) override { no_shared_memory(); }
    void recordHistory(bool, CreateContextFn, size_t, RecordContext) {}
    void recordHistory(bool, CreateContextFn, size_t, RecordContext, bool) {}
    void recordHistory(bool, CreateContextFn, size_t, RecordContext, bool, const std::vector<std::string>&) {}
    void attachOutOfMemoryObserver(OutOfMemoryObserver) override {}
#if TORCH_VERSION_MAJOR > 2 || TORCH_VERSION_MINOR >= 12
    void attachOomRejectionObserver(OomRejectionObserver) override {}
#endif
    void attachAllocatorTraceTracker(AllocatorTraceTracker) override {}
    void enablePeerAccess(DeviceIndex, DeviceIndex) override {}
    cudaError_t memcpyAsync(void* to, int, const void* from, int, size_t bytes, cudaStream_t stream, bool) override {
        return cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream);
    }
    std::shared_ptr<AllocatorState> getCheckpointState(DeviceIndex, MempoolId_t) override { return nullptr; }
    CheckpointDelta setCheckpointPoolState(DeviceIndex, std::shared_ptr<AllocatorState>) override { return {}; }
    std::string name() override { return "native"; }
};

DeviceMemory device_memory;

void release_pinned(void* pointer) { (void)cudaFreeHost(pointer); }

struct PinnedMemory final : c10::Allocator {
    DataPtr allocate(size_t bytes) override {
        void* data = nullptr;
        if (bytes) C10_CUDA_CHECK(cudaMallocHost(&data, bytes));
        return {data, data, &release_pinned, Device(DeviceType::CPU)};
    }
    DeleterFnPtr raw_deleter() const override { return &release_pinned; }
    void copy_data(void* to, const void* from, std::size_t bytes) const override { memcpy(to, from, bytes); }
};

PinnedMemory pinned_memory;

}  // namespace

std::atomic<CUDAAllocator*> allocator{&device_memory};

}  // namespace c10::cuda::CUDACachingAllocator

REGISTER_ALLOCATOR(c10::DeviceType::CUDA, &c10::cuda::CUDACachingAllocator::device_memory)

namespace gpuemu_torch {

c10::Allocator* device_allocator() { return &c10::cuda::CUDACachingAllocator::device_memory; }
c10::Allocator* pinned_allocator() { return &c10::cuda::CUDACachingAllocator::pinned_memory; }

}  // namespace gpuemu_torch

// ---- For the Python part

// The counters, in the order of `MEMORY_COUNTERS` of the Python part.
API void gpuemu_torch_memory_counters(int64_t* to) {
    auto& all = gpuemu_torch::blocks();
    std::lock_guard<std::mutex> guard(all.mutex);
    const int64_t count = int64_t(all.live.size());
    for (int64_t value : {all.bytes, all.peak_bytes, all.allocated_bytes, all.freed_bytes, count, all.peak_count,
                          all.allocated, all.allocated - count, all.failed})
        *to++ = value;
}
API void gpuemu_torch_reset_peaks() {
    auto& all = gpuemu_torch::blocks();
    std::lock_guard<std::mutex> guard(all.mutex);
    all.peak_bytes = all.bytes;
    all.peak_count = int64_t(all.live.size());
}
