// The operators of the device: each runs its kernel for the CPU on the bytes of the device, and reports its reads and writes
// to the runtime.
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/cuda/CUDAGeneratorImpl.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include <algorithm>
#include <unordered_set>

#include "host_views.h"

namespace gpuemu_torch {
namespace {

// Operators that take tensors of both devices: indices may be on the host.
const std::unordered_set<std::string> TAKES_BOTH_DEVICES = {"aten::index",       "aten::index_put_",
                                                            "aten::_index_put_impl_", "aten::_unsafe_index"};

// In-place operators that change a tensor, and no byte of its memory.
const std::unordered_set<std::string> WRITES_NOTHING = {"aten::resize_",  "aten::as_strided_", "aten::squeeze_",
                                                        "aten::transpose_", "aten::t_",        "aten::unsqueeze_"};

// A result is written where it is, and not copied, if an operand is this large.
constexpr size_t LARGE = 1 << 16;

bool follows_launches = false;
constexpr size_t WITHOUT_CONTENTS = 1 << 26;

thread_local bool on_host = false;

// One call of an operator: its arguments on the host, its results on the device.
class HostCall {
   public:
    HostCall(const c10::OperatorHandle& op, torch::jit::Stack& stack) : op_(op), stack_(stack) {
        const auto& schema = op.schema();
        name_ = schema.name();
        for (const auto& result : schema.returns())
            returns_view_ |= result.alias_info() && !result.alias_info()->isWrite();
        const size_t count = schema.arguments().size(), begin = stack.size() - count;
        for (size_t i = 0; i < count; i++) stack[begin + i] = argument(schema.arguments()[i], stack[begin + i]);
    }

    void run() {
        check();
        if (is_skipped()) return skip();
        {
            at::AutoDispatchBelowADInplaceOrView no_autograd;
            c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
            Inside inside;
            op_.callBoxed(&stack_);
        }
        for (const auto& tensor : written_) views_.update(tensor);
        const size_t first = stack_.size() - op_.schema().returns().size();
        bool waits = false;
        for (size_t i = first; i < stack_.size(); i++) waits |= !add_result(stack_[i]);
        report();
        for (size_t i = first; i < stack_.size(); i++) stack_[i] = result(stack_[i]);
        // A number in a variable of the host: it has waited for that.
        if (waits && !read_.empty()) c10::cuda::getCurrentCUDAStream().synchronize();
    }

   private:
    struct Inside {
        Inside() { on_host = true; }
        ~Inside() { on_host = false; }
    };

    at::Tensor on_host_view(const at::Tensor& tensor, bool writes) {
        if (!tensor.defined()) return tensor;
        if (!tensor.is_cuda()) {
            if (tensor.dim() && tensor.is_cpu()) of_host_ = true;
            return tensor;
        }
        TORCH_CHECK_NOT_IMPLEMENTED(tensor.layout() == at::kStrided, name_, " of a ", tensor.layout(),
                                    " tensor on the device is not emulated (gpuemu)");
        (writes ? written_ : read_).push_back(tensor);
        return views_.of_device(tensor);
    }

    c10::IValue argument(const c10::Argument& declared, const c10::IValue& value) {
        const bool writes = declared.alias_info() && declared.alias_info()->isWrite();
        if (value.isTensor()) return on_host_view(value.toTensor(), writes);
        if (value.isTensorList()) {
            std::vector<at::Tensor> views;
            for (const at::Tensor& tensor : value.toTensorVector()) views.push_back(on_host_view(tensor, writes));
            return c10::IValue(views);
        }
        if (value.isOptionalTensorList()) {
            c10::List<std::optional<at::Tensor>> views;
            for (const std::optional<at::Tensor>& tensor : value.toOptionalTensorVector())
                views.push_back(tensor ? std::optional(on_host_view(*tensor, writes)) : tensor);
            return views;
        }
        if (value.isDevice()) {
            to_host_ = !value.toDevice().is_cuda();
            return to_host_ ? value : c10::IValue(at::Device(at::kCPU));
        }
        // The operand that is added is not read if it is multiplied by 0, as in addmm().
        if (declared.name() == "beta" && value.isScalar()) ignores_first_ = value.toScalar().equal(0);
        if (value.isGenerator() && value.toGenerator().device().is_cuda()) return host_generator(value.toGenerator());
        if (value.isNone() && declared.type()->str() == "Generator?")
            return host_generator(at::cuda::detail::getDefaultCUDAGenerator());
        return value;
    }

    void check() const {
        TORCH_CHECK((read_.empty() && written_.empty()) || !of_host_ || TAKES_BOTH_DEVICES.count(name_),
                    "Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu! (when "
                    "checking arguments of ",
                    name_, ")");
        using c10::DispatchKey;
        for (auto key : {DispatchKey::CPU, DispatchKey::CompositeExplicitAutograd,
                         DispatchKey::CompositeExplicitAutogradNonFunctional, DispatchKey::CompositeImplicitAutograd})
            if (op_.hasKernelForDispatchKey(key)) return;
        not_emulated(name_);
    }

    bool is_skipped() const {
        if (returns_view_ || WRITES_NOTHING.count(name_)) return false;
        return std::any_of(read_.begin(), read_.end(), &is_without_contents) ||
               std::any_of(written_.begin(), written_.end(), &is_without_contents);
    }

    // Return what is written as it is.
    void skip() {
        if (written_.size() != op_.schema().returns().size()) not_emulated(name_ + " of a tensor without contents");
        torch::jit::drop(stack_, op_.schema().arguments().size());
        for (const auto& tensor : written_) stack_.push_back(tensor);
    }

    // Return whether a result is one of the device.
    bool add_result(const c10::IValue& value) {
        if (value.isTensor() && !to_host_) views_.add_result(value.toTensor());
        if (value.isTensorList() && !to_host_)
            for (const at::Tensor& tensor : value.toTensorVector()) views_.add_result(tensor);
        return value.isTensor() || value.isTensorList();
    }

    c10::IValue result(const c10::IValue& value) {
        if (to_host_) return value;
        if (value.isTensor()) return views_.on_device(value.toTensor());
        if (!value.isTensorList()) return value;
        std::vector<at::Tensor> results;
        for (const at::Tensor& tensor : value.toTensorVector()) results.push_back(views_.on_device(tensor));
        return c10::IValue(results);
    }

    // An operator that gets its result as an operand as well computes nothing of it, or reads it as an operator in place.
    bool is_written(const at::Tensor& tensor) const {
        for (const auto& written : written_)
            if (written.is_same(tensor)) return true;
        return false;
    }

    void report() {
        Rows reads, writes;
        if (!returns_view_)
            for (const auto& tensor : read_)
                if (!is_written(tensor) && !(ignores_first_ && tensor.is_same(read_.front()))) reads.add(tensor);
        if (!WRITES_NOTHING.count(name_))
            for (const auto& tensor : written_) writes.add(tensor);
        views_.report(name_.c_str(), reads, writes);
    }

    const c10::OperatorHandle& op_;
    torch::jit::Stack& stack_;
    std::string name_;
    HostViews views_;
    std::vector<at::Tensor> read_, written_;
    bool returns_view_ = false, of_host_ = false, to_host_ = false, ignores_first_ = false;
};

}  // namespace

void not_emulated(const std::string& what) {
    gpuemuUnsupported(what.c_str());
    TORCH_CHECK_NOT_IMPLEMENTED(false, what, " is not emulated (gpuemu)");
    throw std::logic_error(what);  // for the compiler: the line above always raises
}

bool is_without_contents(const at::Tensor& tensor) {
    return follows_launches && tensor.defined() && tensor.nbytes() >= WITHOUT_CONTENTS;
}

void run_on_host(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
    if (on_host) not_emulated(op.schema().name());
    HostCall(op, *stack).run();
}

// An operator with a composite for devices without a kernel: it allocates the result, and has another operator write that.
void run_composite(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
    const size_t count = op.schema().arguments().size();
    for (size_t i = stack->size() - count; i < stack->size(); i++)
        if ((*stack)[i].isTensor() && (*stack)[i].toTensor().defined() && (*stack)[i].toTensor().nbytes() >= LARGE)
            return op.callBoxedForDispatchKey(c10::DispatchKey::CompositeExplicitAutogradNonFunctional, *stack);
    run_on_host(op, stack);
}

// A message for each of a composite's steps costs more than a small operator.
void replace_composites(torch::Library& library) {
    auto& dispatcher = c10::Dispatcher::singleton();
    for (const c10::OperatorName& name : dispatcher.getAllOpNames()) {
        auto op = dispatcher.findSchema(name);
        if (op && name.name.rfind("aten::", 0) == 0 && !op->schema().is_mutable() &&
            !op->hasKernelForDispatchKey(c10::DispatchKey::CUDA) &&
            op->hasKernelForDispatchKey(c10::DispatchKey::CPU) &&
            op->hasKernelForDispatchKey(c10::DispatchKey::CompositeExplicitAutogradNonFunctional))
            library.impl(toString(name).c_str(), torch::CppFunction::makeFromBoxedFunction<&run_composite>());
    }
}

}  // namespace gpuemu_torch

TORCH_LIBRARY_IMPL(_, CUDA, library) {
    library.fallback(torch::CppFunction::makeFromBoxedFunction<&gpuemu_torch::run_on_host>());
}

TORCH_LIBRARY_IMPL(aten, CUDA, library) {
    // Composites of operators that a device other than the CPU is assumed to have.
    for (const char* name : {"convolution", "convolution_backward"})
        library.impl(name, torch::CppFunction::makeFromBoxedFunction<&gpuemu_torch::run_on_host>());
}

API void gpuemu_torch_follow_launches(int follow) {
    gpuemu_torch::follows_launches = follow != 0;
    gpuemuFollowLaunches(follow);
}
