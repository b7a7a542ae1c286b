// Kernels that nvcc's code has registered.
#pragma once

#include <cuda.h>

#include <string>
#include <vector>

#include "core.h"

namespace gpuemu {

const dim3 NO_CLUSTER(0, 0, 0);

using Parameter = message::ParameterPlace;

struct Function {
    uint64_t module;
    std::string name;
    bool known = false;  // what follows is
    uint64_t id = 0, bytes = 0, shared = 0, local = 0, most_threads = 0;
    dim3 cluster = NO_CLUSTER;  // what the kernel requires
    std::vector<Parameter> parameters;
    int most_shared = 48 << 10;  // bytes of dynamic shared memory
    unsigned most_blocks = 8;    // of a cluster
    uint64_t settings = 0;       // how often the program has changed the two above
};

// The kernel at an address of the host, whose module is loaded; null if there is none.
Function* function_of(const void* host);

// The driver's handles of modules are their numbers, from 1 on: none is null.
constexpr uint64_t FIRST_MODULE = 1;
inline uint64_t number(CUmodule module) { return reinterpret_cast<uint64_t>(module) - FIRST_MODULE; }

// Add a module that the program loads itself: PTX, or a fat binary with some. False if it is something else.
bool add_image(const void* image, uint64_t* module);
// What stands for a kernel of a module as its address on the host; null if there is no such kernel.
const void* kernel_in(uint64_t module, const char* name);
// The names of a module's kernels.
std::vector<std::string> kernels_in(uint64_t module);
bool variable_in(uint64_t module, const char* name, char** address, size_t* size);

}  // namespace gpuemu
