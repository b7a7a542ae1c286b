// Memory of every kind, copies, fills and symbols.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>

#include "graphs.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

using namespace gpuemu;

namespace {

constexpr size_t PITCH = 512;
constexpr size_t LARGE = 1 << 20;
constexpr size_t VARIABLE_GAP = 4096;

thread_local std::vector<message::WatchedPages> pending;  // what is watched after a copy

cudaError_t allocate(void** pointer, size_t size, MemoryKind kind) {
    if (!pointer) return result(cudaErrorInvalidValue);
    *pointer = nullptr;
    if (!size) return cudaSuccess;
    *pointer = call(message::Allocate{size, kind}).address;
    return *pointer ? cudaSuccess : result(cudaErrorMemoryAllocation);
}

cudaError_t release(void* pointer, FreeCall kind, cudaStream_t stream = nullptr) {
    if (!pointer) return cudaSuccess;
    end_watch();
    return result(call(message::Free{pointer, kind, stream_number(stream)}).error);
}

// Ranges of host memory that the program has registered. It is never deleted: destructors may unregister.
class RegisteredMemory {
public:
    // Add a range, if it has no byte of another one.
    bool add(const void* host, size_t size) {
        std::lock_guard<std::mutex> guard(mutex);
        uintptr_t begin = uintptr_t(host), end = begin + size;
        auto next = ends.lower_bound(begin);
        if (next != ends.end() && next->first < end) return false;
        if (next != ends.begin() && std::prev(next)->second > begin) return false;
        ends[begin] = end;
        return true;
    }

    bool remove(const void* host) {
        std::lock_guard<std::mutex> guard(mutex);
        return ends.erase(uintptr_t(host));
    }

private:
    std::mutex mutex;
    std::map<uintptr_t, uintptr_t> ends;
};

RegisteredMemory& registered_memory() {
    static RegisteredMemory* all = new RegisteredMemory;
    return *all;
}

// Maps the pages of a large range of device memory at once: a fault for each costs more than writing it. A system that
// does not know the advice refuses it.
void prepare_writes(void* to, size_t size) {
    uintptr_t page = size_t(sysconf(_SC_PAGESIZE)), first = reinterpret_cast<uintptr_t>(to) & ~(page - 1);
    uintptr_t end = (reinterpret_cast<uintptr_t>(to) + size + page - 1) & ~(page - 1);
    if (size >= LARGE && on_device(to)) madvise(reinterpret_cast<void*>(first), end - first, MADV_POPULATE_WRITE);
}

// One message for rows of bytes, which gpuemu tests and marks. `value` has the `element` bytes of a fill, and `done` says
// that memory holds them already.
cudaError_t transfer(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width, size_t rows,
                     cudaStream_t stream, bool asynchronous, const void* value, size_t element, bool* done,
                     cudaMemcpyKind kind = cudaMemcpyDefault) {
    connect_once();
    end_watch();  // the copy itself is not an access of the host
    pending.clear();
    bool copies = !value;
    if (!to || (copies && !from)) {
        std::string what = std::string("the ") + (to ? "source" : "target") + " of the " + (copies ? "copy" : "fill");
        call(message::RejectedCall{RejectedCallKind::COPY, what + " is a null pointer"});
        return result(cudaErrorInvalidValue);
    }
    bool target = to && on_device(to), source = from && on_device(from);
    if (!target && !source && asynchronous) return cudaSuccess;
    bool within = target && (source || !from);
    HostWait wait = asynchronous ? HostWait::NEVER : within ? HostWait::FOR_HOST_MEMORY : HostWait::ALWAYS;
    auto answer = call(message::Copy{{target ? to : nullptr, to_pitch, source ? from : nullptr, from_pitch, width, rows,
                                      stream_number(stream), wait, CopyDirection(kind), Bytes(value, element)}});
    if (answer.error) return result(answer.error);
    *done = answer.holds;
    pending = answer.watched;
    return cudaSuccess;
}

cudaError_t fill_rows(void* to, size_t pitch, int value, size_t width, size_t rows, cudaStream_t stream,
                      bool asynchronous, size_t element = 1) {
    if (!width || !rows) return cudaSuccess;
    connect_once();
    if (asynchronous && captured(stream, cudaGraphNodeTypeMemset, [=](cudaStream_t s) {
            return fill_rows(to, pitch, value, width, rows, s, true, element);
        }))
        return cudaSuccess;
    if (to && !on_device(to)) return result(cudaErrorInvalidValue);
    bool done = false;
    cudaError_t error =
        transfer(to, pitch, nullptr, 0, width, rows, stream, asynchronous, &value, element, &done);
    if (error != cudaSuccess) return error;
    if (!done) prepare_writes(to, (rows - 1) * pitch + width);
    for (size_t row = 0; row < rows && !done; row++) {
        char* at = static_cast<char*>(to) + row * pitch;
        if (element == 1) memset(at, value, width);
        else for (size_t i = 0; i + element <= width; i += element) memcpy(at + i, &value, element);
    }
    watch(pending);
    return cudaSuccess;
}

// A part of a module variable, null if there is no such variable. A copy of a part that it does not have is refused like
// any other: within VARIABLE_GAP of its end is no other memory.
char* part_of(const void* symbol, size_t offset) {
    char* address;
    size_t whole;
    if (!variable_of(symbol, &address, &whole)) return nullptr;
    return address + (offset < whole + VARIABLE_GAP ? offset : whole);
}

}  // namespace

namespace gpuemu {

cudaError_t copy_rows(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width, size_t rows,
                      cudaStream_t stream, bool asynchronous, cudaMemcpyKind kind) {
    if (!width || !rows) return cudaSuccess;
    if (width > to_pitch || width > from_pitch) return result(cudaErrorInvalidPitchValue);
    if (asynchronous && captured(stream, cudaGraphNodeTypeMemcpy, [=](cudaStream_t s) {
            return copy_rows(to, to_pitch, from, from_pitch, width, rows, s, true, kind);
        }))
        return cudaSuccess;
    bool done = false;
    cudaError_t error =
        transfer(to, to_pitch, from, from_pitch, width, rows, stream, asynchronous, nullptr, 0, &done, kind);
    if (error != cudaSuccess) return error;
    prepare_writes(to, (rows - 1) * to_pitch + width);
    for (size_t row = 0; row < rows; row++)
        memmove(static_cast<char*>(to) + row * to_pitch, static_cast<const char*>(from) + row * from_pitch, width);
    watch(pending);
    return cudaSuccess;
}

cudaError_t copy(void* to, const void* from, size_t size, cudaStream_t stream, bool asynchronous,
                 cudaMemcpyKind kind) {
    return copy_rows(to, size, from, size, size, 1, stream, asynchronous, kind);
}

Work fill(const cudaMemsetParams& p) {
    return [p](cudaStream_t stream) {
        size_t width = p.width * p.elementSize;
        return fill_rows(p.dst, p.height > 1 ? p.pitch : width, int(p.value), width, p.height, stream, true,
                         p.elementSize);
    };
}

Work allocation_again(void* pointer) {
    return [pointer](cudaStream_t) {
        call(message::AllocateAgain{pointer});
        return cudaSuccess;
    };
}

}  // namespace gpuemu

// ---- Allocation

namespace {

// A graph that allocates has the same address in every launch.
cudaError_t allocate_in_order(void** pointer, size_t size, cudaStream_t stream) {
    cudaError_t error = allocate(pointer, size, MemoryKind::DEVICE);
    if (error == cudaSuccess) captured(stream, cudaGraphNodeTypeMemAlloc, allocation_again(*pointer));
    return error;
}

}  // namespace

API cudaError_t cudaMalloc(void** pointer, size_t size) { return allocate(pointer, size, MemoryKind::DEVICE); }
API cudaError_t cudaMallocManaged(void** pointer, size_t size, unsigned) { return allocate(pointer, size, MemoryKind::MANAGED); }
API cudaError_t cudaMallocHost(void** pointer, size_t size) { return allocate(pointer, size, MemoryKind::PINNED); }
API cudaError_t cudaHostAlloc(void** pointer, size_t size, unsigned) { return allocate(pointer, size, MemoryKind::PINNED); }
API cudaError_t cudaMallocAsync(void** pointer, size_t size, cudaStream_t stream) {
    return allocate_in_order(pointer, size, stream);
}
API cudaError_t cudaMallocFromPoolAsync(void** pointer, size_t size, cudaMemPool_t, cudaStream_t stream) {
    return allocate_in_order(pointer, size, stream);
}
API cudaError_t cudaMallocPitch(void** pointer, size_t* pitch, size_t width, size_t height) {
    size_t size;
    *pitch = (width + PITCH - 1) / PITCH * PITCH;
    if (*pitch < width || __builtin_mul_overflow(*pitch, height, &size)) return result(cudaErrorMemoryAllocation);
    return allocate(pointer, size, MemoryKind::DEVICE);
}
API cudaError_t cudaMalloc3D(cudaPitchedPtr* pointer, cudaExtent extent) {
    pointer->xsize = extent.width;
    pointer->ysize = extent.height;
    size_t rows;
    if (__builtin_mul_overflow(extent.height, extent.depth, &rows)) return result(cudaErrorMemoryAllocation);
    return cudaMallocPitch(&pointer->ptr, &pointer->pitch, extent.width, rows);
}
API cudaError_t cudaFree(void* pointer) { return release(pointer, FreeCall::OF_DEVICE); }
API cudaError_t cudaFreeAsync(void* pointer, cudaStream_t stream) {
    // A graph may be launched again: what it frees stays.
    if (captured(stream, cudaGraphNodeTypeMemFree, nullptr)) return cudaSuccess;
    return release(pointer, FreeCall::IN_STREAM_ORDER, stream);
}
API cudaError_t cudaFreeHost(void* pointer) { return release(pointer, FreeCall::OF_HOST); }
API cudaError_t cudaHostGetDevicePointer(void** device, void* host, unsigned) {
    *device = host;
    return on_device(host) ? cudaSuccess : unsupported("cudaHostGetDevicePointer of memory that was registered");
}
API cudaError_t cudaHostGetFlags(unsigned* flags, void*) {
    *flags = cudaHostAllocMapped;
    return cudaSuccess;
}
// Copies from and to registered memory are those of any other; kernels have no access to it.
API cudaError_t cudaHostRegister(void* host, size_t size, unsigned) {
    if (!host || !size) return result(cudaErrorInvalidValue);
    return result(registered_memory().add(host, size) ? cudaSuccess : cudaErrorHostMemoryAlreadyRegistered);
}
API cudaError_t cudaHostUnregister(void* host) {
    if (!host) return result(cudaErrorInvalidValue);
    if (registered_memory().remove(host)) return cudaSuccess;
    call(message::RejectedCall{RejectedCallKind::FREE, "cudaHostUnregister of memory that is not registered"});
    return result(cudaErrorHostMemoryNotRegistered);
}
API cudaError_t cudaMemGetInfo(size_t* free_bytes, size_t* total) {
    auto sizes = call(message::Allocate{0, MemoryKind::DEVICE});
    *free_bytes = sizes.left;
    *total = sizes.total;
    return cudaSuccess;
}
API cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* pointer) {
    connect_once();
    memset(attributes, 0, sizeof *attributes);
    attributes->type = cudaMemoryTypeUnregistered;
    attributes->hostPointer = const_cast<void*>(pointer);
    if (!on_device(pointer)) return cudaSuccess;
    auto memory = call(message::FindKind{pointer});
    const cudaMemoryType types[] = {cudaMemoryTypeDevice, cudaMemoryTypeManaged, cudaMemoryTypeHost};
    if (!memory.allocated || memory.kind > MemoryKind::PINNED) return cudaSuccess;
    attributes->type = types[uint64_t(memory.kind)];
    attributes->devicePointer = const_cast<void*>(pointer);
    if (memory.kind == MemoryKind::DEVICE) attributes->hostPointer = nullptr;
    return cudaSuccess;
}
API cudaError_t cudaMemPrefetchAsync(const void*, size_t, cudaMemLocation, unsigned, cudaStream_t) {
    return cudaSuccess;
}
API cudaError_t cudaMemAdvise(const void*, size_t, cudaMemoryAdvise, cudaMemLocation) { return cudaSuccess; }
API cudaError_t cudaStreamAttachMemAsync(cudaStream_t, void*, size_t, unsigned) { return cudaSuccess; }

// ---- Pools: every one of them is device memory

API cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int device) {
    static char only;
    *pool = reinterpret_cast<cudaMemPool_t>(&only);
    return device ? result(cudaErrorInvalidDevice) : cudaSuccess;
}
API cudaError_t cudaDeviceGetMemPool(cudaMemPool_t* pool, int device) {
    return cudaDeviceGetDefaultMemPool(pool, device);
}
API cudaError_t cudaDeviceSetMemPool(int device, cudaMemPool_t) {
    return device ? result(cudaErrorInvalidDevice) : cudaSuccess;
}
API cudaError_t cudaMemPoolCreate(cudaMemPool_t* pool, const cudaMemPoolProps*) {
    return cudaDeviceGetDefaultMemPool(pool, 0);
}
API cudaError_t cudaMemPoolDestroy(cudaMemPool_t) { return cudaSuccess; }
API cudaError_t cudaMemPoolTrimTo(cudaMemPool_t, size_t) { return cudaSuccess; }
API cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t, cudaMemPoolAttr, void*) { return cudaSuccess; }

// ---- Copies and fills

API cudaError_t cudaMemcpy(void* to, const void* from, size_t size, cudaMemcpyKind kind) {
    return copy(to, from, size, nullptr, false, kind);
}
API cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t size, cudaMemcpyKind kind, cudaStream_t stream) {
    return copy(to, from, size, stream, true, kind);
}
API cudaError_t cudaMemcpyPeer(void* to, int, const void* from, int, size_t size) {
    return copy(to, from, size, nullptr, false);
}
API cudaError_t cudaMemcpyPeerAsync(void* to, int, const void* from, int, size_t size, cudaStream_t stream) {
    return copy(to, from, size, stream, true);
}
API cudaError_t cudaMemcpy2D(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
                             size_t height, cudaMemcpyKind kind) {
    return copy_rows(to, to_pitch, from, from_pitch, width, height, nullptr, false, kind);
}
API cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
                                  size_t height, cudaMemcpyKind kind, cudaStream_t stream) {
    return copy_rows(to, to_pitch, from, from_pitch, width, height, stream, true, kind);
}
API cudaError_t cudaMemset(void* to, int value, size_t size) {
    return fill_rows(to, size, value, size, 1, nullptr, false);
}
API cudaError_t cudaMemsetAsync(void* to, int value, size_t size, cudaStream_t stream) {
    return fill_rows(to, size, value, size, 1, stream, true);
}
API cudaError_t cudaMemset2D(void* to, size_t pitch, int value, size_t width, size_t height) {
    return fill_rows(to, pitch, value, width, height, nullptr, false);
}
API cudaError_t cudaMemset2DAsync(void* to, size_t pitch, int value, size_t width, size_t height,
                                  cudaStream_t stream) {
    return fill_rows(to, pitch, value, width, height, stream, true);
}
API cudaError_t cudaMemset3DAsync(cudaPitchedPtr to, int value, cudaExtent extent, cudaStream_t stream) {
    for (size_t z = 0; z < extent.depth; z++) {
        char* slice = static_cast<char*>(to.ptr) + z * to.pitch * to.ysize;
        cudaError_t error = fill_rows(slice, to.pitch, value, extent.width, extent.height, stream, true);
        if (error != cudaSuccess) return error;
    }
    return cudaSuccess;
}
API cudaError_t cudaMemset3D(cudaPitchedPtr to, int value, cudaExtent extent) {
    return cudaMemset3DAsync(to, value, extent, nullptr);
}

// ---- Symbols

API cudaError_t cudaMemcpyToSymbolAsync(const void* symbol, const void* from, size_t size, size_t offset,
                                        cudaMemcpyKind kind, cudaStream_t stream) {
    char* to = part_of(symbol, offset);
    return to ? copy(to, from, size, stream, true, kind) : result(cudaErrorInvalidSymbol);
}
API cudaError_t cudaMemcpyToSymbol(const void* symbol, const void* from, size_t size, size_t offset, cudaMemcpyKind kind) {
    char* to = part_of(symbol, offset);
    return to ? copy(to, from, size, nullptr, false, kind) : result(cudaErrorInvalidSymbol);
}
API cudaError_t cudaMemcpyFromSymbolAsync(void* to, const void* symbol, size_t size, size_t offset, cudaMemcpyKind kind,
                                          cudaStream_t stream) {
    char* from = part_of(symbol, offset);
    return from ? copy(to, from, size, stream, true, kind) : result(cudaErrorInvalidSymbol);
}
API cudaError_t cudaMemcpyFromSymbol(void* to, const void* symbol, size_t size, size_t offset, cudaMemcpyKind kind) {
    char* from = part_of(symbol, offset);
    return from ? copy(to, from, size, nullptr, false, kind) : result(cudaErrorInvalidSymbol);
}
API cudaError_t cudaGetSymbolAddress(void** pointer, const void* symbol) {
    *pointer = part_of(symbol, 0);
    return *pointer ? cudaSuccess : result(cudaErrorInvalidSymbol);
}
API cudaError_t cudaGetSymbolSize(size_t* size, const void* symbol) {
    char* address;
    return variable_of(symbol, &address, size) ? cudaSuccess : result(cudaErrorInvalidSymbol);
}
