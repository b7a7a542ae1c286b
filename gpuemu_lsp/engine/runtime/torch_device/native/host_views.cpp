#include "host_views.h"

#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>

#include <algorithm>
#include <cstring>

namespace gpuemu_torch {
namespace {

constexpr size_t MOST_ROWS = 64;

struct Dimension {
    uint64_t size, pitch;
};

void release_storage(void* storage) { delete static_cast<at::Storage*>(storage); }

// The memory of a view that an operator makes larger is new memory of the device.
struct GrownMemory final : c10::Allocator {
    at::DataPtr allocate(size_t bytes) override {
        void* data = gpuemu_torch::allocate(bytes);
        return {data, data, &release, at::Device(at::kCPU)};
    }
    void copy_data(void* to, const void* from, std::size_t bytes) const override { memcpy(to, from, bytes); }
};
GrownMemory grown_memory;

void copy_flags(const at::Tensor& from, const at::Tensor& to) {
    auto *of = from.unsafeGetTensorImpl(), *on = to.unsafeGetTensorImpl();
    on->set_sizes_and_strides(from.sizes(), from.strides(), from.storage_offset());
    if (of->is_wrapped_number()) on->set_wrapped_number(true);
    if (from.is_conj()) to._set_conj(true);
    if (from.is_neg()) to._set_neg(true);
}

}  // namespace

void Rows::add(const at::Tensor& tensor) {
    if (!tensor.defined() || !tensor.numel() || !tensor.has_storage()) return;
    const auto* address = static_cast<const char*>(tensor.const_data_ptr());
    std::vector<Dimension> outer;
    for (int64_t i = 0; i < tensor.dim(); i++)
        if (tensor.size(i) > 1 && tensor.stride(i) > 0)
            outer.push_back({uint64_t(tensor.size(i)), uint64_t(tensor.stride(i)) * tensor.itemsize()});
    std::sort(outer.begin(), outer.end(), [](auto& a, auto& b) { return a.pitch < b.pitch; });
    uint64_t width = tensor.itemsize();
    size_t inner = 0;
    for (; inner < outer.size() && outer[inner].pitch <= width; inner++)
        width = std::max(width, (outer[inner].size - 1) * outer[inner].pitch + width);
    outer.erase(outer.begin(), outer.begin() + inner);
    if (outer.empty()) return void(rows_.push_back({address, width, width, 1}));
    Dimension rows = outer.front();
    outer.erase(outer.begin());
    size_t blocks = 1;
    for (const Dimension& dimension : outer) blocks *= dimension.size;
    if (blocks > MOST_ROWS) {
        uint64_t extent = (rows.size - 1) * rows.pitch + width;
        for (const Dimension& dimension : outer) extent += (dimension.size - 1) * dimension.pitch;
        return void(rows_.push_back({address, extent, extent, 1}));
    }
    for (size_t block = 0; block < blocks; block++) {
        size_t rest = block;
        const char* at = address;
        for (const Dimension& dimension : outer) {
            at += rest % dimension.size * dimension.pitch;
            rest /= dimension.size;
        }
        rows_.push_back({at, rows.pitch, width, rows.size});
    }
}

at::Storage HostViews::storage_of(const at::Storage& device) {
    auto [entry, is_new] = host_storages_.try_emplace(device.unsafeGetStorageImpl());
    if (is_new) {
        at::DataPtr data(device.mutable_data(), new at::Storage(device), &release_storage, at::Device(at::kCPU));
        entry->second = at::Storage(at::Storage::use_byte_size_t(), device.nbytes(), std::move(data), &grown_memory, true);
        device_storages_.emplace(entry->second.unsafeGetStorageImpl(), device);
    }
    return entry->second;
}

at::Tensor HostViews::of_device(const at::Tensor& tensor) {
    auto [entry, is_new] = views_.try_emplace(tensor.unsafeGetTensorImpl());
    if (is_new) {
        entry->second = at::detail::make_tensor<c10::TensorImpl>(
            storage_of(tensor.storage()), c10::DispatchKeySet(c10::DispatchKey::CPU), tensor.dtype());
        copy_flags(tensor, entry->second);
        arguments_.emplace(entry->second.unsafeGetTensorImpl(), tensor);
    }
    return entry->second;
}

void HostViews::add_result(const at::Tensor& result) {
    if (!result.defined() || result.is_cuda() || arguments_.count(result.unsafeGetTensorImpl())) return;
    auto [entry, is_new] = device_storages_.try_emplace(result.storage().unsafeGetStorageImpl());
    if (is_new) new_storages_.push_back(result.storage());
}

void HostViews::report(const char* name, const Rows& reads, const Rows& writes) {
    std::vector<size_t> sizes;
    for (const at::Storage& storage : new_storages_)
        if (storage.nbytes()) sizes.push_back(storage.nbytes());
    std::vector<void*> results(sizes.size());
    if (reads.size() || writes.size() || !sizes.empty()) {
        gpuemuOperator operation{name,         reads.data(), reads.size(),   writes.data(),
                                 writes.size(), sizes.data(), sizes.size(), results.data(),
                                 c10::cuda::getCurrentCUDAStream()};
        C10_CUDA_CHECK(gpuemuExecuted(&operation));
    }
    auto result = results.begin();
    for (const at::Storage& storage : new_storages_) {
        void* data = storage.nbytes() ? *result++ : nullptr;
        if (data) memcpy(data, storage.data(), storage.nbytes());
        if (storage.nbytes()) adopt(data, storage.nbytes());
        device_storages_[storage.unsafeGetStorageImpl()] =
            at::Storage(at::Storage::use_byte_size_t(), storage.nbytes(),
                        at::DataPtr(data, data, &release, at::Device(at::kCUDA, 0)), device_allocator(), true);
    }
}

at::Tensor HostViews::on_device(const at::Tensor& result) {
    if (!result.defined() || result.is_cuda()) return result;
    auto argument = arguments_.find(result.unsafeGetTensorImpl());
    if (argument != arguments_.end()) return argument->second;
    auto tensor = at::detail::make_tensor<c10::TensorImpl>(
        at::Storage(device_storages_.at(result.storage().unsafeGetStorageImpl())),
        c10::DispatchKeySet(c10::DispatchKey::CUDA), result.dtype());
    copy_flags(result, tensor);
    return tensor;
}

void HostViews::update(const at::Tensor& tensor) {
    const at::Tensor& view = views_.at(tensor.unsafeGetTensorImpl());
    auto *from = view.storage().unsafeGetStorageImpl(), *to = tensor.storage().unsafeGetStorageImpl();
    if (from->data() != to->data()) {
        at::DataPtr memory = from->set_data_ptr(at::DataPtr());
        void* data = memory.release_context();
        to->set_data_ptr_noswap(at::DataPtr(data, data, &release, at::Device(at::kCUDA, 0)));
        to->set_nbytes(from->nbytes());
    }
    if (tensor.sizes() != view.sizes() || tensor.strides() != view.strides() ||
        tensor.storage_offset() != view.storage_offset())
        tensor.unsafeGetTensorImpl()->set_sizes_and_strides(view.sizes(), view.strides(), view.storage_offset());
}

}  // namespace gpuemu_torch
