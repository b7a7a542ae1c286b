// The part of this library for the device of a framework, which is not in the CUDA runtime: operators that it executes on
// the host in device memory. Plain C, as it is compiled with other options.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

extern "C" {

// `rows` of `width` bytes, which begin a pitch apart.
struct gpuemuRows {
    const void* address;
    uint64_t pitch, width, rows;
};

// An operator in the order of a stream. It has written its arguments already, or will before the next call. Its results are
// allocated, `sizes` bytes each, at the addresses that `results` gets, null if there is no memory; all of them are written.
struct gpuemuOperator {
    const char* name;
    const gpuemuRows* reads;
    size_t read_count;
    const gpuemuRows* writes;
    size_t write_count;
    const size_t* sizes;
    size_t result_count;
    void** results;
    cudaStream_t stream;
};

cudaError_t gpuemuExecuted(const gpuemuOperator* operation);

// Free in the order of a stream what was allocated as such a result, or by cudaMalloc.
void gpuemuFree(void* pointer, cudaStream_t stream);

// Report that an operator is not emulated.
void gpuemuUnsupported(const char* what);

// Make the launches that follow without an effect, and report nothing, until this is called with 0.
void gpuemuSkipLaunches(int skip);

// The same, but follow the integer arithmetic of the launches, and give new memory no contents.
void gpuemuFollowLaunches(int follow);
}
