// CUDA's runtime API (version 13) for programs that `gpuemu run` starts.
//
// Device memory is a file that this process and gpuemu both map; this process maps it at one fixed address, so that a
// device pointer is an address of its own. Every allocation, copy and launch is a message to gpuemu, which answers
// with 64-bit words. A message is an operation (u32), the number of its bytes (u32), and these bytes.
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <execinfo.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#define API extern "C" __attribute__((visibility("default")))

namespace {

enum Operation : uint32_t { MODULE = 1, FUNCTION, ALLOCATE, FREE, TRANSFER, LAUNCH };
constexpr int UNAVAILABLE = 98;  // exit status: gpuemu is gone, or did not start this program

int connection = -1;
char* device_memory = nullptr;
uint64_t device_bytes = 0;
std::recursive_mutex mutex;
thread_local cudaError_t last_error = cudaSuccess;
thread_local cudaError_t launch_error = cudaSuccess;  // of a launch since the last synchronisation

cudaError_t result(cudaError_t error) {
    if (error != cudaSuccess) last_error = error;
    return error;
}

[[noreturn]] void give_up(const char* reason) {
    fprintf(stderr, "gpuemu: %s\n", reason);
    _exit(UNAVAILABLE);
}

// A program must not outlive the command that started it.
__attribute__((constructor)) void end_with_parent() {
    if (getenv("GPUEMU_RUNTIME")) prctl(PR_SET_PDEATHSIG, SIGKILL);
}

void receive(void* target, size_t size) {
    for (char* at = static_cast<char*>(target); size;) {
        ssize_t count = read(connection, at, size);
        if (count <= 0) give_up("the connection to `gpuemu run` has ended");
        at += count;
        size -= count;
    }
}

void transmit(const char* at, size_t size) {
    while (size) {
        ssize_t count = send(connection, at, size, MSG_NOSIGNAL);
        if (count <= 0) give_up("the connection to `gpuemu run` has ended");
        at += count;
        size -= count;
    }
}

void connect_once() {
    if (connection >= 0) return;
    const char* settings = getenv("GPUEMU_RUNTIME");
    if (!settings) give_up("this program was built by `gpuemu nvcc`: start it with `gpuemu run`");
    int file;
    unsigned long long base, size;
    if (sscanf(settings, "%d:%d:%llx:%llx", &connection, &file, &base, &size) != 4) give_up("GPUEMU_RUNTIME is wrong");
    void* wanted = reinterpret_cast<void*>(base);
    void* mapped = mmap(wanted, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED_NOREPLACE | MAP_NORESERVE, file, 0);
    if (mapped != wanted) give_up("device memory cannot be mapped");
    device_memory = static_cast<char*>(mapped);
    device_bytes = size;
}

class Message {
   public:
    explicit Message(Operation operation) : bytes_(8) { memcpy(&bytes_[0], &operation, 4); }
    Message& word(uint64_t value) { return raw(&value, 8); }
    Message& data(const void* from, size_t size) { return word(size).raw(from, size); }
    Message& text(const char* value) { return data(value, strlen(value)); }
    // The return addresses on the stack, each as a file and an offset in it: a position-independent program is
    // loaded anywhere.
    Message& call_stack() {
        void* frames[16];
        int count = backtrace(frames, 16);
        word(count);
        for (int i = 0; i < count; i++) {
            Dl_info info{};
            dladdr(frames[i], &info);
            word(reinterpret_cast<uint64_t>(frames[i]) - reinterpret_cast<uint64_t>(info.dli_fbase) - 1);
            text(info.dli_fname ? info.dli_fname : "");
        }
        return *this;
    }
    std::vector<uint64_t> call() {
        std::lock_guard<std::recursive_mutex> guard(mutex);
        connect_once();
        uint32_t size = bytes_.size() - 8, count;
        memcpy(&bytes_[4], &size, 4);
        transmit(bytes_.data(), bytes_.size());
        receive(&count, 4);
        std::vector<uint64_t> words(count);
        if (count) receive(words.data(), 8 * count);
        return words;
    }

   private:
    Message& raw(const void* from, size_t size) {
        bytes_.insert(bytes_.end(), static_cast<const char*>(from), static_cast<const char*>(from) + size);
        return *this;
    }
    std::vector<char> bytes_;
};

struct Module {
    std::string ptx;
    bool loaded = false;
};
struct Function {
    int module;
    std::string name;
    bool known = false;
    uint64_t id = 0, bytes = 0;
    std::vector<std::pair<uint64_t, uint64_t>> parameters;  // offset, size
};
struct Configuration {
    dim3 grid, block;
    size_t shared;
    cudaStream_t stream;
};

// Registration runs in static constructors, maybe before those of this library: hence functions.
std::vector<Module>& modules() {
    static std::vector<Module> all;
    return all;
}
std::map<const void*, Function>& functions() {
    static std::map<const void*, Function> all;
    return all;
}
thread_local std::vector<Configuration> configurations;

bool on_device(const void* address) {
    const char* at = static_cast<const char*>(address);
    return device_memory && at >= device_memory && at < device_memory + device_bytes;
}

Function* function_of(const void* host) {
    auto found = functions().find(host);
    if (found == functions().end()) return nullptr;
    Function& function = found->second;
    if (!function.known) {
        Module& module = modules()[function.module];
        if (!module.loaded) Message(MODULE).word(function.module).text(module.ptx.c_str()).call();
        module.loaded = true;
        auto words = Message(FUNCTION).word(function.module).text(function.name.c_str()).call();
        function.known = true;
        function.id = words[0];
        function.bytes = words[1];
        for (size_t i = 2; i + 1 < words.size(); i += 2) function.parameters.push_back({words[i], words[i + 1]});
    }
    return function.id ? &function : nullptr;
}

cudaError_t launch(const void* host, dim3 grid, dim3 block, void** arguments, size_t shared) {
    Function* function = function_of(host);
    if (!function) return result(cudaErrorInvalidDeviceFunction);
    uint64_t threads = uint64_t(block.x) * block.y * block.z;
    if (!grid.x || !grid.y || !grid.z || !threads || threads > 1024) return result(cudaErrorInvalidConfiguration);
    std::vector<char> block_of_parameters(function->bytes ? function->bytes : 1);
    for (size_t i = 0; i < function->parameters.size(); i++)
        memcpy(&block_of_parameters[function->parameters[i].first], arguments[i], function->parameters[i].second);
    Message message(LAUNCH);
    for (uint64_t value : {function->id, uint64_t(grid.x), uint64_t(grid.y), uint64_t(grid.z), uint64_t(block.x),
                           uint64_t(block.y), uint64_t(block.z), uint64_t(shared)})
        message.word(value);
    // A launch returns before the kernel has run: its failure is that of a later call.
    uint64_t failure = message.data(block_of_parameters.data(), function->bytes).call_stack().call()[0];
    if (failure) last_error = launch_error = static_cast<cudaError_t>(failure);
    return cudaSuccess;
}

cudaError_t transfer(void* to, const void* from, size_t size) {
    if (!size) return cudaSuccess;
    uint64_t target = on_device(to) ? reinterpret_cast<uint64_t>(to) : 0;
    uint64_t source = on_device(from) ? reinterpret_cast<uint64_t>(from) : 0;
    if (target || source) {
        auto words = Message(TRANSFER).word(target).word(source).word(size).call_stack().call();
        if (words[0]) return result(static_cast<cudaError_t>(words[0]));
    }
    return cudaSuccess;
}

cudaError_t copy(void* to, const void* from, size_t size) {
    cudaError_t error = transfer(to, from, size);
    if (error == cudaSuccess) memmove(to, from, size);
    return error;
}

cudaError_t fill(void* to, int value, size_t size) {
    if (size && !on_device(to)) return result(cudaErrorInvalidValue);
    cudaError_t error = transfer(to, nullptr, size);
    if (error == cudaSuccess) memset(to, value, size);
    return error;
}

cudaError_t taken(cudaError_t& from) {
    cudaError_t error = from;
    from = cudaSuccess;
    return error;
}

}  // namespace

// ---- Registration: what nvcc writes into every program

API void** __cudaRegisterFatBinary(void* wrapper) {
    struct Wrapper {
        int magic, version;
        const char* data;
        void* file;
    };
    const char* binary = static_cast<Wrapper*>(wrapper)->data;
    uint16_t header;
    uint64_t total;
    memcpy(&header, binary + 6, 2);
    memcpy(&total, binary + 8, 8);
    Module module;
    for (const char *at = binary + header, *end = at + total; at < end;) {
        uint16_t kind;
        uint32_t entry;
        uint64_t size;
        memcpy(&kind, at, 2);
        memcpy(&entry, at + 4, 4);
        memcpy(&size, at + 8, 8);
        if (kind == 1) module.ptx.assign(at + entry, strnlen(at + entry, size));
        at += entry + size;
    }
    modules().push_back(module);
    return reinterpret_cast<void**>(new uint64_t(modules().size() - 1));
}
API void __cudaRegisterFatBinaryEnd(void**) {}
API void __cudaUnregisterFatBinary(void**) {}
API char __cudaInitModule(void**) { return 1; }
API void __cudaRegisterFunction(void** module, const char* host, char*, const char* name, int, uint3*, uint3*, dim3*,
                                dim3*, int*) {
    Function function;
    function.module = static_cast<int>(*reinterpret_cast<uint64_t*>(module));
    function.name = name;
    functions()[host] = function;
}
// A variable is registered for access from the host, of which this library has no function yet.
API void __cudaRegisterVar(void**, char*, char*, const char*, int, size_t, int, int) {}

// ---- Launches

API unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, void* stream) {
    configurations.push_back({grid, block, shared, static_cast<cudaStream_t>(stream)});
    return 0;
}
API cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared, void* stream) {
    Configuration last = configurations.back();
    configurations.pop_back();
    *grid = last.grid;
    *block = last.block;
    *shared = last.shared;
    *static_cast<cudaStream_t*>(stream) = last.stream;
    return cudaSuccess;
}
API cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* host) {
    *kernel = reinterpret_cast<cudaKernel_t>(const_cast<void*>(host));
    return cudaSuccess;
}
API cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments, size_t shared,
                                   cudaStream_t) {
    return launch(kernel, grid, block, arguments, shared);
}
API cudaError_t cudaLaunchKernel(const void* host, dim3 grid, dim3 block, void** arguments, size_t shared,
                                 cudaStream_t) {
    return launch(host, grid, block, arguments, shared);
}

// ---- Memory

API cudaError_t cudaMalloc(void** pointer, size_t size) {
    *pointer = nullptr;
    if (!size) return cudaSuccess;
    uint64_t address = Message(ALLOCATE).word(size).call_stack().call()[0];
    *pointer = reinterpret_cast<void*>(address);
    return address ? cudaSuccess : result(cudaErrorMemoryAllocation);
}
API cudaError_t cudaFree(void* pointer) {
    if (!pointer) return cudaSuccess;
    return result(static_cast<cudaError_t>(
        Message(FREE).word(reinterpret_cast<uint64_t>(pointer)).call_stack().call()[0]));
}
API cudaError_t cudaMemcpy(void* to, const void* from, size_t size, cudaMemcpyKind) { return copy(to, from, size); }
API cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t size, cudaMemcpyKind, cudaStream_t) {
    return copy(to, from, size);
}
API cudaError_t cudaMemset(void* to, int value, size_t size) { return fill(to, value, size); }
API cudaError_t cudaMemsetAsync(void* to, int value, size_t size, cudaStream_t) { return fill(to, value, size); }

// ---- Synchronisation and errors: a launch has ended when its call returns

API cudaError_t cudaDeviceSynchronize() { return taken(launch_error); }
API cudaError_t cudaStreamSynchronize(cudaStream_t) { return taken(launch_error); }
API cudaError_t cudaGetLastError() { return taken(last_error); }
API cudaError_t cudaPeekAtLastError() { return last_error; }
API cudaError_t cudaDeviceReset() { return cudaSuccess; }
API cudaError_t cudaSetDevice(int device) { return device ? result(cudaErrorInvalidDevice) : cudaSuccess; }
API cudaError_t cudaGetDevice(int* device) {
    *device = 0;
    return cudaSuccess;
}
API cudaError_t cudaGetDeviceCount(int* count) {
    *count = 1;
    return cudaSuccess;
}
API const char* cudaGetErrorName(cudaError_t error) {
    switch (error) {
        case cudaSuccess: return "cudaSuccess";
        case cudaErrorInvalidValue: return "cudaErrorInvalidValue";
        case cudaErrorMemoryAllocation: return "cudaErrorMemoryAllocation";
        case cudaErrorInvalidConfiguration: return "cudaErrorInvalidConfiguration";
        case cudaErrorInvalidDeviceFunction: return "cudaErrorInvalidDeviceFunction";
        case cudaErrorInvalidDevice: return "cudaErrorInvalidDevice";
        case cudaErrorLaunchFailure: return "cudaErrorLaunchFailure";
        default: return "unrecognized error code";
    }
}
API const char* cudaGetErrorString(cudaError_t error) {
    switch (error) {
        case cudaSuccess: return "no error";
        case cudaErrorInvalidValue: return "invalid argument";
        case cudaErrorMemoryAllocation: return "out of memory";
        case cudaErrorInvalidConfiguration: return "invalid configuration argument";
        case cudaErrorInvalidDeviceFunction: return "invalid device function";
        case cudaErrorInvalidDevice: return "invalid device ordinal";
        case cudaErrorLaunchFailure: return "unspecified launch failure";
        default: return "unrecognized error code";
    }
}

// ---- Streams and events: everything runs in the order of the calls

API cudaError_t cudaStreamCreate(cudaStream_t* stream) {
    *stream = reinterpret_cast<cudaStream_t>(new char);
    return cudaSuccess;
}
API cudaError_t cudaStreamDestroy(cudaStream_t stream) {
    delete reinterpret_cast<char*>(stream);
    return cudaSuccess;
}
