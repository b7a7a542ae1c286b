// Shared by the sources of the device: everything that is not an interface of PyTorch.
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <c10/core/CachingDeviceAllocator.h>

#include "frameworks.h"

#define API extern "C" __attribute__((visibility("default")))

namespace gpuemu_torch {

// ---- Memory (allocator.cpp)

c10::Allocator* device_allocator();
c10::Allocator* pinned_allocator();
void* allocate(size_t bytes);
void release(void* pointer);
// Note memory that the runtime has allocated as the result of an operator; raise if it has not.
void adopt(void* pointer, size_t bytes);
void record_stream(const void* pointer, cudaStream_t stream);

// ---- Processes (guard.cpp)

// This process was forked from one that uses the device, in which CUDA does not work.
extern bool is_forked;

// ---- Random numbers (generator.cpp)

// The CPU generator whose numbers PyTorch's operators draw for a generator of the device.
at::Generator host_generator(const at::Generator& generator);
// For a new generator at the address of an earlier one.
void forget_host_generator(const c10::GeneratorImpl* generator);

// ---- Operators (fallback.cpp)

// Launches are followed, and tensors of this size have no contents: operators do not compute them.
bool is_without_contents(const at::Tensor& tensor);

// Raise that an operator is not emulated, and put it into the report.
[[noreturn]] void not_emulated(const std::string& what);

}  // namespace gpuemu_torch
