// CPU tensors on the memory of tensors of the device, for the duration of one operator.
#pragma once

#include <ATen/core/Tensor.h>

#include <unordered_map>

#include "device.h"

namespace gpuemu_torch {

// The bytes of tensors, as messages have them.
class Rows {
   public:
    // Add what a tensor covers. Bytes between its elements are not part of it, unless its layout is too irregular.
    void add(const at::Tensor& tensor);
    const gpuemuRows* data() const { return rows_.data(); }
    size_t size() const { return rows_.size(); }

   private:
    std::vector<gpuemuRows> rows_;
};

// Device memory is mapped in this process, so that an operator of the CPU works on the bytes of the device themselves.
class HostViews {
   public:
    // The CPU tensor with the memory, shape and flags of one of the device.
    at::Tensor of_device(const at::Tensor& tensor);
    // Note a result whose memory is new.
    void add_result(const at::Tensor& result);
    // Report to the runtime what the operator has read and written, which allocates the memory of new results.
    void report(const char* name, const Rows& reads, const Rows& writes);
    // What an operator has returned, for the device: an argument, a view of one, or a copy in new memory.
    at::Tensor on_device(const at::Tensor& result);
    // Give an argument the shape and memory that the operator has given to its view.
    void update(const at::Tensor& tensor);

   private:
    at::Storage storage_of(const at::Storage& device);

    std::unordered_map<c10::TensorImpl*, at::Tensor> views_, arguments_;
    std::unordered_map<c10::StorageImpl*, at::Storage> host_storages_, device_storages_;
    std::vector<at::Storage> new_storages_;  // on the host, of results
};

}  // namespace gpuemu_torch
