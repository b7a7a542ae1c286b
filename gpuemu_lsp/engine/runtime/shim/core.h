// Shared by the sources of the runtime library: the connection to gpuemu, errors, and device memory.
#pragma once

#include "messages.h"

#define API extern "C" __attribute__((visibility("default")))

namespace gpuemu {

void connect_once();
bool on_device(const void* address);
// The size of device memory in bytes, also in a process that has no connection.
size_t total_memory();
// Make an error the last one of this thread; pass it on.
cudaError_t result(cudaError_t error);
cudaError_t result(uint64_t error);
// Report a function, or a use of one, that is not implemented.
cudaError_t unsupported(const char* what);
// Errors of launches that have happened since the last synchronisation.
void launch_failed(cudaError_t error);
// A launch that a GPU does not start: its error is that of the call, and no other call returns it.
void launch_rejected(cudaError_t error);
cudaError_t synchronize(WaitScope scope, uint64_t number = 0);
// Synchronise if the work has ended as far as the program knows, or at its second question; else cudaErrorNotReady.
cudaError_t query(WaitScope scope, uint64_t number);
// Forget what is known of the modules that are loaded: their kernels and variables are loaded again when they are used.
void unload_modules();
cudaError_t copy(void* to, const void* from, size_t size, cudaStream_t stream, bool asynchronous,
                 cudaMemcpyKind kind = cudaMemcpyDefault);
// The address and size of a module variable, by its address on the host.
bool variable_of(const void* host, char** address, size_t* size);
bool known_kernel(const void* host, size_t* shared_bytes, size_t* local_bytes, size_t* most_threads);
// The compute capability of the registered code, times ten: that of the emulated device.
int architecture();
// The multiprocessors of the device, on which a cooperative grid has to fit; programs may see fewer of them.
int multiprocessors();
uint64_t stream_number(cudaStream_t stream);
// Whether this process is the one that may call gpuemu: a forked one is not.
bool has_connection();
// A number that changes with the contents of device memory; 0 if launches are not to be repeated by this process.
uint64_t memory_contents();
// Count a launch that is not made, because it changes nothing.
void count_repeat();
// Count a call of a library's function that works on device memory without a launch or a message of its own.
void count_library_call();
// Pages of memory that the host shares with the device, and that work writes for which it has not waited: its accesses
// to them are reported.
void watch(const std::vector<message::WatchedPages>& pages);
void end_watch();

}  // namespace gpuemu
