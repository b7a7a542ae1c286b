// Operators of the device that no kernel of the CPU can stand for: new tensors, copies, storages.
#include <ATen/EmptyTensor.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/native/transformers/attention.h>
#include <ATen/ops/_log_softmax.h>
#include <ATen/ops/_log_softmax_backward_data.h>
#include <ATen/ops/_softmax.h>
#include <ATen/ops/_softmax_backward_data.h>
#include <ATen/ops/empty_like.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <c10/util/strides.h>
#include <torch/library.h>

#include "host_views.h"

namespace gpuemu_torch {

void replace_composites(torch::Library& library);  // fallback.cpp

namespace {

// ---- New tensors

at::Tensor empty(at::IntArrayRef size, std::optional<at::ScalarType> dtype, std::optional<at::Layout>,
                 std::optional<at::Device>, std::optional<bool>, std::optional<at::MemoryFormat> format) {
    return at::detail::empty_generic(size, device_allocator(), c10::DispatchKeySet(c10::DispatchKey::CUDA),
                                     c10::dtype_or_default(dtype), format);
}

at::Tensor empty_strided(at::IntArrayRef size, at::IntArrayRef stride, std::optional<at::ScalarType> dtype,
                         std::optional<at::Layout>, std::optional<at::Device>, std::optional<bool>) {
    return at::detail::empty_strided_generic(size, stride, device_allocator(),
                                             c10::DispatchKeySet(c10::DispatchKey::CUDA),
                                             c10::dtype_or_default(dtype));
}

// ---- Copies, also to and from the host

bool same_bytes(const at::Tensor& to, const at::Tensor& from) {
    return to.scalar_type() == from.scalar_type() && to.is_contiguous() && from.is_contiguous() &&
           to.is_conj() == from.is_conj() && to.is_neg() == from.is_neg();
}

void copy_by_host(const at::Tensor& to, const at::Tensor& from) {
    HostViews views;
    {
        at::AutoDispatchBelowADInplaceOrView no_autograd;
        at::Tensor target = to.is_cuda() ? views.of_device(to) : to;
        target.copy_(from.is_cuda() ? views.of_device(from) : from);
    }
    Rows reads, writes;
    if (from.is_cuda()) reads.add(from);
    if (to.is_cuda()) writes.add(to);
    views.report("aten::copy_", reads, writes);
}

at::Tensor& copy_(at::Tensor& self, const at::Tensor& source, bool non_blocking) {
    if (!self.numel() || is_without_contents(self)) return self;
    at::Tensor from = source.expand(self.sizes());
    auto stream = c10::cuda::getCurrentCUDAStream();
    if (same_bytes(self, from))
        C10_CUDA_CHECK(cudaMemcpyAsync(self.mutable_data_ptr(), from.const_data_ptr(), self.nbytes(), cudaMemcpyDefault,
                                       stream));
    else
        copy_by_host(self, from);
    if (!non_blocking && !(self.is_cuda() && from.is_cuda())) stream.synchronize();
    return self;
}

// ---- Storages

at::Tensor& set_storage(at::Tensor& self, at::Storage source, int64_t offset, at::IntArrayRef size,
                        at::IntArrayRef stride) {
    auto* impl = self.unsafeGetTensorImpl();
    impl->set_storage_keep_dtype(std::move(source));
    at::DimVector strides(stride.begin(), stride.end());
    if (strides.size() != size.size()) strides = c10::contiguous_strides(size);
    impl->set_sizes_and_strides(size, strides, offset);
    return self;
}
at::Tensor& set_whole_storage(at::Tensor& self, at::Storage source) {
    int64_t count = int64_t(source.nbytes() / self.itemsize());
    return set_storage(self, std::move(source), 0, {count}, {1});
}
at::Tensor& set_tensor(at::Tensor& self, const at::Tensor& source) {
    return set_storage(self, source.storage(), source.storage_offset(), source.sizes(), source.strides());
}
at::Tensor& set_empty(at::Tensor& self) {
    return set_storage(self, at::Storage(at::Storage::use_byte_size_t(), 0, device_allocator(), true), 0, {0}, {1});
}

void record_stream_of(at::Tensor& self, at::Stream stream) {
    record_stream(self.storage().data(), c10::cuda::CUDAStream(stream).stream());
}

// ---- Softmax of half precision into single precision, which the CPU does not have

at::Tensor softmax(const at::Tensor& x, int64_t dim, bool half_to_float) {
    at::Tensor wide = half_to_float ? x.to(at::kFloat) : x;
    at::Tensor result = at::empty_like(wide);
    return at::_softmax_out(result, wide, dim, false);
}
at::Tensor log_softmax(const at::Tensor& x, int64_t dim, bool half_to_float) {
    at::Tensor wide = half_to_float ? x.to(at::kFloat) : x;
    at::Tensor result = at::empty_like(wide);
    return at::_log_softmax_out(result, wide, dim, false);
}

at::Tensor softmax_backward(const at::Tensor& gradient, const at::Tensor& output, int64_t dim, at::ScalarType type) {
    at::Tensor result = at::empty_like(gradient);
    at::_softmax_backward_data_out(result, gradient, output, dim, gradient.scalar_type());
    return result.to(type);
}
at::Tensor log_softmax_backward(const at::Tensor& gradient, const at::Tensor& output, int64_t dim,
                                at::ScalarType type) {
    at::Tensor result = at::empty_like(gradient);
    at::_log_softmax_backward_data_out(result, gradient, output, dim, gradient.scalar_type());
    return result.to(type);
}

bool ctc_loss_by_cudnn(const at::Tensor&, const at::Tensor&, at::IntArrayRef, at::IntArrayRef, int64_t) { return false; }
bool ctc_loss_of_tensors_by_cudnn(const at::Tensor&, const at::Tensor&, const at::Tensor&, const at::Tensor&, int64_t) {
    return false;
}

int64_t attention_by_operators(const at::Tensor&, const at::Tensor&, const at::Tensor&,
                               const std::optional<at::Tensor>&, double, bool, std::optional<double>, bool) {
    return 0;  // sdp::SDPBackend::math
}

}  // namespace
}  // namespace gpuemu_torch

namespace at::native {
static RegisterCUDADispatch<decltype(_fused_sdp_choice_stub)> choice(_fused_sdp_choice_stub,
                                                                     &gpuemu_torch::attention_by_operators);
}

TORCH_LIBRARY_IMPL(aten, CUDA, library) {
    using namespace gpuemu_torch;
    library.impl("empty.memory_format", &empty);
    library.impl("empty_strided", &empty_strided);
    library.impl("copy_", &copy_);
    library.impl("set_", &set_empty);
    library.impl("set_.source_Storage", &set_whole_storage);
    library.impl("set_.source_Storage_storage_offset", &set_storage);
    library.impl("set_.source_Tensor", &set_tensor);
    library.impl("record_stream", &record_stream_of);
    library.impl("_softmax", &softmax);
    library.impl("_log_softmax", &log_softmax);
    library.impl("_use_cudnn_ctc_loss", &ctc_loss_by_cudnn);
    library.impl("_use_cudnn_ctc_loss.Tensor", &ctc_loss_of_tensors_by_cudnn);
    library.impl("_softmax_backward_data", &softmax_backward);
    library.impl("_log_softmax_backward_data", &log_softmax_backward);
    replace_composites(library);  // but for those above
}
