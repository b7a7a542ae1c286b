// Shared by the sources of the runtime library: the connection to gpuemu, errors, and device memory.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#define API extern "C" __attribute__((visibility("default")))

namespace gpuemu {

enum Operation : uint32_t {
    MODULE = 1,
    FUNCTION,
    ALLOCATE,
    FREE,
    TRANSFER,
    LAUNCH,
    VARIABLE,
    UNSUPPORTED,
    FAILED_LAUNCH,
    CHECKED,
    STREAM,
    EVENT,
    WAIT,
    SYNCHRONIZE,
    PRODUCT,
    HOST_ACCESS,
    TENSOR_MAP,
    ALLOCATE_AGAIN,
    QUERY,
    RESET,
    LOST_CAPTURE,
};

// Kinds of memory, as in the Python part; texture and surface objects are variables of the run.
enum Kind : uint64_t { DEVICE, MANAGED, PINNED, OBJECT };

// Whether the host waits for the end of a copy or fill: in calls without a stream, but those within device memory.
enum Waits : uint64_t { ALWAYS, NEVER, FOR_HOST_MEMORY };

// What has ended when a call of SYNCHRONIZE returns.
enum Scope : uint64_t { WHOLE_DEVICE, ONE_STREAM, ONE_EVENT };

// The return addresses on the stack, each as a file and an offset in it: a position-independent program is loaded
// anywhere. A node of a graph has those of the call that added it, which `Use` puts in place of the current ones.
struct CallStack {
    std::vector<std::pair<uint64_t, std::string>> frames;
    static CallStack current();
    // The same of other addresses in code.
    static CallStack of(const std::vector<uint64_t>& addresses);
    static CallStack here();
    struct Use {
        explicit Use(const CallStack& stack);
        ~Use();
        const CallStack* before;
    };
};

// A request: an operation, words and byte strings. The answer has words only.
class Message {
   public:
    explicit Message(Operation operation);
    Message& word(uint64_t value) { return raw(&value, 8); }
    Message& word(const void* address) { return word(reinterpret_cast<uint64_t>(address)); }
    Message& data(const void* from, size_t size) { return word(size).raw(from, size); }
    Message& text(const char* value);
    Message& call_stack();
    std::vector<uint64_t> call();

   private:
    Message& raw(const void* from, size_t size);
    std::vector<char> bytes_;
};

void connect_once();
bool on_device(const void* address);
// Make an error the last one of this thread; pass it on.
cudaError_t result(cudaError_t error);
cudaError_t result(uint64_t error);
// Report a function, or a use of one, that is not implemented.
cudaError_t unsupported(const char* what);
// Errors of launches that have happened since the last synchronisation.
void launch_failed(cudaError_t error);
cudaError_t synchronize(Scope scope, uint64_t which);
// Synchronise if the work has ended as far as the program knows, or at its second question; else cudaErrorNotReady.
cudaError_t query(Scope scope, uint64_t which);
// Forget what is known of the modules that are loaded: their kernels and variables are loaded again when they are used.
void unload_modules();
cudaError_t copy(void* to, const void* from, size_t size, cudaStream_t stream, bool asynchronous,
                 cudaMemcpyKind kind = cudaMemcpyDefault);
// The address and size of a module variable, by its address on the host.
bool variable_of(const void* host, char** address, size_t* size);
bool known_kernel(const void* host, size_t* shared_bytes, size_t* local_bytes, size_t* most_threads);
// The compute capability of the registered code, times ten: that of the emulated device.
int architecture();
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
// to them are reported. `ranges` are addresses and sizes, from `first` on; of odd addresses only writes are reported.
void watch(const std::vector<uint64_t>& ranges, size_t first);
void end_watch();

}  // namespace gpuemu
