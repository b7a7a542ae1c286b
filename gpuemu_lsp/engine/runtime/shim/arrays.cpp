// CUDA arrays, and the texture and surface objects that describe them or linear memory.
#include <cstring>

#include "graphs.h"

using namespace gpuemu;

// Rows and slices without padding.
struct cudaArray {
    cudaChannelFormatDesc format;
    cudaExtent extent;  // 0 in the dimensions that it does not have
    unsigned flags;
    char* data;

    size_t element() const { return size_t(format.x + format.y + format.z + format.w) / 8; }
    size_t row() const { return extent.width * element(); }
    size_t slice() const { return row() * (extent.height ? extent.height : 1); }
    char* at(size_t bytes, size_t y, size_t z) const { return data + bytes + y * row() + z * slice(); }
};

namespace {

// What the 64 bits of an object are the address of: the record of engine/texture.py.
struct Record {
    uint64_t magic, address, slice_bytes;
    uint32_t row_bytes, width, height, depth, levels, channel_bytes, channels, kind;
    uint32_t addressing[3], linear, normalised, as_float, level_linear;
    float level_bias, level_least, level_most;
    uint32_t border[4], level_offsets[16];
};
static_assert(sizeof(Record) == 176);
constexpr uint64_t MAGIC = 0x6572757478655421;

cudaError_t make_array(cudaArray_t* array, const cudaChannelFormatDesc* format, cudaExtent extent, unsigned flags) {
    if (!array || !format || !extent.width) return result(cudaErrorInvalidValue);
    cudaArray* made = new cudaArray{*format, extent, flags, nullptr};
    size_t bytes = made->slice() * (extent.depth ? extent.depth : 1);
    cudaError_t error = bytes ? cudaMalloc(reinterpret_cast<void**>(&made->data), bytes) : result(cudaErrorInvalidValue);
    if (error == cudaSuccess) *array = made;
    else delete made;
    return error;
}

// Describe the channels of a texel; false if there is no such format.
bool describe_channels(const cudaChannelFormatDesc& format, Record* record) {
    const int bits[] = {format.x, format.y, format.z, format.w};
    while (record->channels < 4 && bits[record->channels]) record->channels++;
    for (unsigned i = 0; i < 4; i++)
        if (bits[i] != (i < record->channels ? bits[0] : 0)) return false;
    record->channel_bytes = uint32_t(bits[0] / 8);
    record->kind = uint32_t(format.f);
    bool number = format.f == cudaChannelFormatKindFloat ? bits[0] == 16 || bits[0] == 32
                                                         : bits[0] == 8 || bits[0] == 16 || bits[0] == 32;
    return format.f <= cudaChannelFormatKindFloat && number && record->channels && record->channels != 3;
}

// Describe the memory of an object.
cudaError_t describe_memory(const cudaResourceDesc& resource, Record* record) {
    cudaChannelFormatDesc format;
    cudaExtent extent{1, 1, 1};
    if (resource.resType == cudaResourceTypeArray) {
        const cudaArray* array = resource.res.array.array;
        if (!array) return result(cudaErrorInvalidValue);
        format = array->format;
        extent = array->extent;
        record->address = reinterpret_cast<uint64_t>(array->data);
        record->row_bytes = uint32_t(array->row());
        record->slice_bytes = array->slice();
    } else if (resource.resType == cudaResourceTypeLinear) {
        const auto& linear = resource.res.linear;
        format = linear.desc;
        size_t texel = size_t(format.x + format.y + format.z + format.w) / 8;
        if (!texel) return result(cudaErrorInvalidValue);
        extent.width = linear.sizeInBytes / texel;
        record->address = reinterpret_cast<uint64_t>(linear.devPtr);
        record->row_bytes = uint32_t(extent.width * texel);
        record->slice_bytes = extent.width * texel;
    } else if (resource.resType == cudaResourceTypePitch2D) {
        const auto& pitched = resource.res.pitch2D;
        format = pitched.desc;
        extent = {pitched.width, pitched.height, 1};
        record->address = reinterpret_cast<uint64_t>(pitched.devPtr);
        record->row_bytes = uint32_t(pitched.pitchInBytes);
        record->slice_bytes = pitched.pitchInBytes * pitched.height;
    } else {
        return unsupported("a texture of a mipmapped array");
    }
    record->magic = MAGIC;
    record->levels = 1;
    record->width = uint32_t(extent.width);
    record->height = uint32_t(extent.height ? extent.height : 1);
    record->depth = uint32_t(extent.depth ? extent.depth : 1);
    if (!describe_channels(format, record)) return result(cudaErrorInvalidChannelDescriptor);
    bool there = on_device(reinterpret_cast<void*>(record->address)) && record->width;
    return there && record->row_bytes >= record->width * record->channel_bytes * record->channels
               ? cudaSuccess
               : result(cudaErrorInvalidValue);
}

cudaError_t describe_sampling(const cudaTextureDesc& texture, Record* record) {
    bool integers = record->kind != cudaChannelFormatKindFloat;
    bool floats = !integers || texture.readMode == cudaReadModeNormalizedFloat;
    if (integers && floats && record->channel_bytes > 2) return result(cudaErrorInvalidNormSetting);
    if (!floats && texture.filterMode == cudaFilterModeLinear) return result(cudaErrorInvalidFilterSetting);
    record->linear = texture.filterMode == cudaFilterModeLinear;
    record->normalised = texture.normalizedCoords != 0;
    record->as_float = integers && floats;
    record->level_linear = texture.mipmapFilterMode == cudaFilterModeLinear;
    record->level_bias = texture.mipmapLevelBias;
    record->level_least = texture.minMipmapLevelClamp;
    record->level_most = texture.maxMipmapLevelClamp;
    for (int i = 0; i < 3; i++) record->addressing[i] = uint32_t(texture.addressMode[i]);
    for (int i = 0; i < 4; i++) {
        if (floats) memcpy(&record->border[i], &texture.borderColor[i], 4);
        else record->border[i] = uint32_t(int64_t(texture.borderColor[i]));
    }
    return cudaSuccess;
}

// Objects are variables of the run: a program cannot free them as memory.
cudaError_t make_object(unsigned long long* object, const cudaResourceDesc* resource, const cudaTextureDesc* texture) {
    if (!object || !resource) return result(cudaErrorInvalidValue);
    connect_once();
    Record record{};
    cudaError_t error = describe_memory(*resource, &record);
    if (error == cudaSuccess && texture) error = describe_sampling(*texture, &record);
    if (error != cudaSuccess) return error;
    void* address = call(message::Allocate{sizeof record, MemoryKind::VARIABLE}).address;
    if (!address) return result(cudaErrorMemoryAllocation);
    memcpy(address, &record, sizeof record);
    *object = reinterpret_cast<unsigned long long>(address);
    return cudaSuccess;
}

cudaError_t destroy_object(unsigned long long object) {
    if (!on_device(reinterpret_cast<void*>(object))) return result(cudaErrorInvalidValue);
    memset(reinterpret_cast<void*>(object), 0, 8);
    return cudaSuccess;
}

// Rows of a copy: their first byte, and the distances of rows and slices.
struct Rows {
    char* at;
    size_t pitch, slice;
};

Rows rows_of(cudaArray_t array, const cudaPitchedPtr& memory, const cudaPos& from) {
    if (array) return {array->at(from.x * array->element(), from.y, from.z), array->row(), array->slice()};
    size_t slice = memory.pitch * memory.ysize;
    return {static_cast<char*>(memory.ptr) + from.x + from.y * memory.pitch + from.z * slice, memory.pitch, slice};
}

}  // namespace

namespace gpuemu {

cudaError_t copy_volume(const cudaMemcpy3DParms& p, cudaStream_t stream, bool asynchronous) {
    Rows to = rows_of(p.dstArray, p.dstPtr, p.dstPos), from = rows_of(p.srcArray, p.srcPtr, p.srcPos);
    // The width is one of elements if an array takes part.
    cudaArray_t array = p.srcArray ? p.srcArray : p.dstArray;
    size_t width = p.extent.width * (array ? array->element() : 1);
    for (size_t z = 0; z < p.extent.depth; z++) {
        cudaError_t error = copy_rows(to.at + z * to.slice, to.pitch, from.at + z * from.slice, from.pitch, width,
                                      p.extent.height, stream, asynchronous);
        if (error != cudaSuccess) return error;
    }
    return cudaSuccess;
}

Work volume_copy(const cudaMemcpy3DParms& parameters) {
    return [parameters](cudaStream_t stream) { return copy_volume(parameters, stream, true); };
}

}  // namespace gpuemu

// ---- Arrays

API cudaError_t cudaMalloc3DArray(cudaArray_t* array, const cudaChannelFormatDesc* format, cudaExtent extent,
                                  unsigned flags) {
    return make_array(array, format, extent, flags);
}
API cudaError_t cudaMallocArray(cudaArray_t* array, const cudaChannelFormatDesc* format, size_t width, size_t height,
                                unsigned flags) {
    return make_array(array, format, {width, height, 0}, flags);
}
API cudaError_t cudaFreeArray(cudaArray_t array) {
    if (!array) return cudaSuccess;
    cudaError_t error = cudaFree(array->data);
    delete array;
    return error;
}
API cudaError_t cudaArrayGetInfo(cudaChannelFormatDesc* format, cudaExtent* extent, unsigned* flags,
                                 cudaArray_t array) {
    if (format) *format = array->format;
    if (extent) *extent = array->extent;
    if (flags) *flags = array->flags;
    return cudaSuccess;
}
API cudaError_t cudaGetChannelDesc(cudaChannelFormatDesc* format, cudaArray_const_t array) {
    *format = array->format;
    return cudaSuccess;
}
API cudaError_t cudaMemcpy3D(const cudaMemcpy3DParms* p) { return copy_volume(*p, nullptr, false); }
API cudaError_t cudaMemcpy3DAsync(const cudaMemcpy3DParms* p, cudaStream_t stream) {
    return copy_volume(*p, stream, true);
}
API cudaError_t cudaMemcpy2DToArray(cudaArray_t to, size_t x, size_t y, const void* from, size_t pitch, size_t width,
                                    size_t height, cudaMemcpyKind) {
    return copy_rows(to->at(x, y, 0), to->row(), from, pitch, width, height, nullptr, false);
}
API cudaError_t cudaMemcpy2DToArrayAsync(cudaArray_t to, size_t x, size_t y, const void* from, size_t pitch,
                                         size_t width, size_t height, cudaMemcpyKind, cudaStream_t stream) {
    return copy_rows(to->at(x, y, 0), to->row(), from, pitch, width, height, stream, true);
}
API cudaError_t cudaMemcpy2DFromArray(void* to, size_t pitch, cudaArray_const_t from, size_t x, size_t y, size_t width,
                                      size_t height, cudaMemcpyKind) {
    return copy_rows(to, pitch, from->at(x, y, 0), from->row(), width, height, nullptr, false);
}
API cudaError_t cudaMemcpy2DFromArrayAsync(void* to, size_t pitch, cudaArray_const_t from, size_t x, size_t y,
                                           size_t width, size_t height, cudaMemcpyKind, cudaStream_t stream) {
    return copy_rows(to, pitch, from->at(x, y, 0), from->row(), width, height, stream, true);
}
API cudaError_t cudaMemcpy2DArrayToArray(cudaArray_t to, size_t x, size_t y, cudaArray_const_t from, size_t from_x,
                                         size_t from_y, size_t width, size_t height, cudaMemcpyKind) {
    return copy_rows(to->at(x, y, 0), to->row(), from->at(from_x, from_y, 0), from->row(), width, height, nullptr,
                     false);
}
API cudaError_t cudaMemcpyToArray(cudaArray_t to, size_t x, size_t y, const void* from, size_t size, cudaMemcpyKind) {
    return copy(to->at(x, y, 0), from, size, nullptr, false);
}
API cudaError_t cudaMemcpyFromArray(void* to, cudaArray_const_t from, size_t x, size_t y, size_t size,
                                    cudaMemcpyKind) {
    return copy(to, from->at(x, y, 0), size, nullptr, false);
}

// ---- Objects

API cudaError_t cudaCreateTextureObject(cudaTextureObject_t* object, const cudaResourceDesc* resource,
                                        const cudaTextureDesc* texture, const cudaResourceViewDesc* view) {
    if (view) return unsupported("cudaCreateTextureObject with a view of the resource");
    return texture ? make_object(object, resource, texture) : result(cudaErrorInvalidValue);
}
API cudaError_t cudaCreateSurfaceObject(cudaSurfaceObject_t* object, const cudaResourceDesc* resource) {
    bool writable = resource && resource->resType == cudaResourceTypeArray && resource->res.array.array &&
                    resource->res.array.array->flags & cudaArraySurfaceLoadStore;
    if (!writable) return result(cudaErrorInvalidValue);
    return make_object(object, resource, nullptr);
}
API cudaError_t cudaDestroyTextureObject(cudaTextureObject_t object) { return destroy_object(object); }
API cudaError_t cudaDestroySurfaceObject(cudaSurfaceObject_t object) { return destroy_object(object); }
