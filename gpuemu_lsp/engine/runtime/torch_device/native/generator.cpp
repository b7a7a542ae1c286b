// Random numbers: PyTorch's operators draw those of the CPU, kernels of the program get seed and offset.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Utils.h>
#include <ATen/cuda/CUDAGeneratorImpl.h>
#include <ATen/ops/empty.h>
#include <torch/version.h>

#include <map>
#include <mutex>

#include "device.h"

namespace at {

constexpr uint64_t NUMBERS_OF_A_STEP = 4;  // of Philox

#if TORCH_VERSION_MAJOR > 2 || TORCH_VERSION_MINOR >= 4
void CUDAGeneratorState::increase(uint64_t count) {
    philox_offset_per_thread_ += (count + NUMBERS_OF_A_STEP - 1) / NUMBERS_OF_A_STEP * NUMBERS_OF_A_STEP;
}
#endif

CUDAGeneratorImpl::CUDAGeneratorImpl(DeviceIndex index)
    : CUDAGeneratorImpl(index, make_intrusive<CUDAGeneratorState>()) {}
CUDAGeneratorImpl::CUDAGeneratorImpl(DeviceIndex index, intrusive_ptr<CUDAGeneratorState> state)
    : GeneratorImpl(Device(DeviceType::CUDA, index < 0 ? DeviceIndex(0) : index), DispatchKeySet(DispatchKey::CUDA)),
      state_(std::move(state)) {
    no_reset_rnn_state_.clear();
    gpuemu_torch::forget_host_generator(this);
}
void CUDAGeneratorImpl::set_current_seed(uint64_t seed) {
    state_->seed_ = seed;
    state_->philox_offset_per_thread_ = 0;
    gpuemu_torch::host_generator(Generator(intrusive_ptr<GeneratorImpl>::reclaim_copy(this))).set_current_seed(seed);
}
void CUDAGeneratorImpl::set_offset(uint64_t offset) { set_philox_offset_per_thread(offset); }
uint64_t CUDAGeneratorImpl::get_offset() const { return philox_offset_per_thread(); }
uint64_t CUDAGeneratorImpl::current_seed() const { return state_->seed_; }
uint64_t CUDAGeneratorImpl::seed() {
    uint64_t random = c10::detail::getNonDeterministicRandom(true);
    set_current_seed(random);
    return random;
}

// The state has the two words of PyTorch's own, and behind them that of the generator of the CPU.
void CUDAGeneratorImpl::set_state(const TensorImpl& state) {
    auto* words = static_cast<const uint64_t*>(state.data());
    set_current_seed(words[0]);
    state_->philox_offset_per_thread_ = words[1];
    int64_t rest = state.numel() - 16;
    if (rest <= 0) return;
    auto of_host = at::empty({rest}, at::kByte);
    memcpy(of_host.mutable_data_ptr(), words + 2, size_t(rest));
    gpuemu_torch::host_generator(Generator(intrusive_ptr<GeneratorImpl>::reclaim_copy(this))).set_state(of_host);
}
intrusive_ptr<TensorImpl> CUDAGeneratorImpl::get_state() const {
    auto* self = const_cast<CUDAGeneratorImpl*>(this);
    auto of_host = gpuemu_torch::host_generator(Generator(intrusive_ptr<GeneratorImpl>::reclaim_copy(self))).get_state();
    auto state = at::empty({16 + of_host.numel()}, at::kByte);
    auto* words = static_cast<uint64_t*>(state.mutable_data_ptr());
    words[0] = state_->seed_;
    words[1] = state_->philox_offset_per_thread_;
    memcpy(words + 2, of_host.const_data_ptr(), size_t(of_host.numel()));
    return state.getIntrusivePtr();
}
void CUDAGeneratorImpl::graphsafe_set_state(const intrusive_ptr<GeneratorImpl>& other) {
    state_ = static_cast<CUDAGeneratorImpl*>(other.get())->state_;
}
intrusive_ptr<GeneratorImpl> CUDAGeneratorImpl::graphsafe_get_state() const {
    return make_intrusive<CUDAGeneratorImpl>(device().index(), state_);
}
void CUDAGeneratorImpl::set_philox_offset_per_thread(uint64_t offset) { state_->philox_offset_per_thread_ = offset; }
uint64_t CUDAGeneratorImpl::philox_offset_per_thread() const { return state_->philox_offset_per_thread_; }
std::pair<uint64_t, uint64_t> CUDAGeneratorImpl::philox_engine_inputs(uint64_t increment) {
    uint64_t offset = state_->philox_offset_per_thread_;
    state_->increase(increment);
    return {state_->seed_, offset};
}
PhiloxCudaState CUDAGeneratorImpl::philox_cuda_state(uint64_t increment) {
    auto [seed, offset] = philox_engine_inputs(increment);
    return {seed, offset};
}
DeviceType CUDAGeneratorImpl::device_type() { return DeviceType::CUDA; }
CUDAGeneratorImpl* CUDAGeneratorImpl::clone_impl() const {
    auto* copy = new CUDAGeneratorImpl(device().index());
    copy->set_current_seed(state_->seed_);
    copy->set_philox_offset_per_thread(state_->philox_offset_per_thread_);
    return copy;
}
std::shared_ptr<CUDAGeneratorImpl> CUDAGeneratorImpl::clone() const {
    return std::shared_ptr<CUDAGeneratorImpl>(clone_impl());
}

namespace cuda::detail {

const Generator& getDefaultCUDAGenerator(DeviceIndex) {
    static const Generator& only = *new Generator(make_generator<CUDAGeneratorImpl>(DeviceIndex(0)));
    return only;
}
Generator createCUDAGenerator(DeviceIndex index) { return make_generator<CUDAGeneratorImpl>(index); }

}  // namespace cuda::detail
}  // namespace at

namespace gpuemu_torch {
namespace {

struct HostGenerators {
    std::mutex mutex;
    std::map<const c10::GeneratorImpl*, at::Generator> by_device;
};

HostGenerators& host_generators() {
    static auto& all = *new HostGenerators;
    return all;
}

}  // namespace

at::Generator host_generator(const at::Generator& generator) {
    auto& all = host_generators();
    std::lock_guard<std::mutex> guard(all.mutex);
    at::Generator& of_host = all.by_device[generator.unsafeGetGeneratorImpl()];
    if (!of_host.defined()) of_host = at::detail::createCPUGenerator(generator.current_seed());
    return of_host;
}

void forget_host_generator(const c10::GeneratorImpl* generator) {
    auto& all = host_generators();
    std::lock_guard<std::mutex> guard(all.mutex);
    all.by_device.erase(generator);
}

}  // namespace gpuemu_torch
