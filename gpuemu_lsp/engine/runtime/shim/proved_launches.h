// Launches that gpuemu has proved to change nothing: the library does not make them again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "modules.h"

namespace gpuemu {

// A launch as a program asks for it, without the values of the parameters.
struct Call {
    const void* host;
    dim3 grid, block;
    size_t shared;  // dynamic, in bytes
    cudaStream_t stream;
    bool cooperative = false;
    dim3 cluster = NO_CLUSTER;
};

// Those of one thread, so that no lock is needed.
class ProvedLaunches {
   public:
    // Whether a launch does nothing with the present contents of device memory; it is counted if so. `arguments` are
    // the addresses of the values of the parameters.
    bool skip(const Call& call, const void* const* arguments);
    // `values` is the block of the parameters, and `contents` the number of those for which gpuemu has proved it: another
    // thread may have changed them since.
    void add(const Call& call, const Function& function, const std::vector<char>& values, uint64_t contents);

   private:
    struct Proved {
        Call call;
        const Function* function;
        std::vector<char> values;
        uint64_t contents, settings;
    };
    static bool same(const Proved& one, const Call& call, const void* const* arguments);
    std::vector<Proved> all_;
    size_t next_ = 0;  // a loop makes its launches in the same order: the search starts here
};

}  // namespace gpuemu
