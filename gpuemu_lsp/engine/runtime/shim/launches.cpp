// Registration, which nvcc writes into every program, and launches.
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "graphs.h"

using namespace gpuemu;

namespace {

const dim3 NO_CLUSTER(0, 0, 0);
constexpr unsigned MOST_BLOCKS = 16;  // of a cluster, on a GPU whose limit is not that of all GPUs

struct Module {
    std::string ptx;
    bool loaded = false;
};
struct Function {
    uint64_t module;
    std::string name;
    bool known = false;
    uint64_t id = 0, bytes = 0, shared = 0, local = 0, most_threads = 0;
    dim3 cluster = NO_CLUSTER;  // what the kernel requires
    std::vector<std::pair<uint64_t, uint64_t>> parameters;  // offset, size
    int most_shared = 48 << 10;                             // bytes of dynamic shared memory
    unsigned most_blocks = 8;                               // of a cluster
};
struct Variable {
    uint64_t module;
    std::string name;
    size_t size;
    char* address = nullptr;
};
struct Configuration {
    dim3 grid, block;
    size_t shared;
    cudaStream_t stream;
};

// Bytes per block, with cudaFuncSetAttribute.
size_t most_shared() { return size_t(architecture() >= 90 && architecture() < 120 ? 227 : 163) << 10; }

// Registration runs in static constructors, maybe before those of this library: hence functions.
std::vector<Module>& modules() {
    static auto& all = *new std::vector<Module>;
    return all;
}
std::map<const void*, Function>& functions() {
    static auto& all = *new std::map<const void*, Function>;
    return all;
}
std::map<const void*, Variable>& variables() {
    static auto& all = *new std::map<const void*, Variable>;
    return all;
}
thread_local std::vector<Configuration> configurations;
std::recursive_mutex loading;

void load(uint64_t number) {
    std::lock_guard<std::recursive_mutex> guard(loading);
    Module& module = modules()[number];
    if (!module.loaded) Message(MODULE).word(number).data(module.ptx.data(), module.ptx.size()).call();
    module.loaded = true;
}

uint64_t module_of(void** handle) { return *reinterpret_cast<uint64_t*>(handle); }

Function* function_of(const void* host) {
    std::lock_guard<std::recursive_mutex> guard(loading);
    auto found = functions().find(host);
    if (found == functions().end()) return nullptr;
    Function& function = found->second;
    if (!function.known) {
        load(function.module);
        auto words = Message(FUNCTION).word(function.module).text(function.name.c_str()).call();
        function.known = true;
        function.id = words[0];
        function.bytes = words[1];
        function.shared = words[2];
        function.local = words[3];
        function.most_threads = words[4];
        function.cluster = dim3(unsigned(words[5]), unsigned(words[6]), unsigned(words[7]));
        for (size_t i = 8; i + 1 < words.size(); i += 2) function.parameters.push_back({words[i], words[i + 1]});
    }
    return function.id ? &function : nullptr;
}

char* address_of(Variable& variable) {
    std::lock_guard<std::recursive_mutex> guard(loading);
    if (!variable.address) {
        load(variable.module);
        auto words = Message(VARIABLE).word(variable.module).text(variable.name.c_str()).call();
        variable.address = reinterpret_cast<char*>(words[0]);
    }
    return variable.address;
}

bool is_cluster(dim3 size) { return size.x || size.y || size.z; }

// The reason for which a GPU rejects the clusters of a launch, null if it does not.
const char* cluster_rejection(const Function& function, dim3 grid, dim3 size) {
    if (!is_cluster(size)) return nullptr;
    dim3 own = function.cluster;
    if (is_cluster(own) && (own.x != size.x || own.y != size.y || own.z != size.z))
        return "the kernel requires clusters of another size";
    if (!size.x || !size.y || !size.z) return "the cluster is empty";
    if (architecture() < 90) return "a device of this compute capability has no clusters: compile for sm_90 or later";
    if (size.x > MOST_BLOCKS || size.y > MOST_BLOCKS || size.z > MOST_BLOCKS || size.x * size.y * size.z > MOST_BLOCKS)
        return "the cluster has more blocks than a GPU allows";
    if (size.x * size.y * size.z > function.most_blocks)
        return "a cluster of more than 8 blocks needs cudaFuncAttributeNonPortableClusterSizeAllowed";
    if (grid.x % size.x || grid.y % size.y || grid.z % size.z) return "the grid does not consist of whole clusters";
    return nullptr;
}

// The reason for which a GPU rejects a launch, null if it does not.
const char* rejection(const Function& function, dim3 grid, dim3 block, size_t shared) {
    uint64_t threads = uint64_t(block.x) * block.y * block.z;
    if (!grid.x || !grid.y || !grid.z || !threads) return "the grid or the block is empty";
    if (threads > function.most_threads || block.x > 1024 || block.y > 1024 || block.z > 64)
        return "the block has more threads than the kernel or a GPU allows";
    if (grid.x > 0x7fffffff || grid.y > 65535 || grid.z > 65535) return "the grid has more blocks than a GPU allows";
    if (function.shared + shared > size_t(function.most_shared) || function.shared + shared > most_shared())
        return "it asks for more shared memory than was set with cudaFuncSetAttribute";
    return nullptr;
}

// A launch with the block of its parameters.
struct Launch {
    const void* host;
    Function* function;
    dim3 grid, block;
    size_t shared;
    bool cooperative;
    dim3 cluster;
    std::vector<char> parameters;
    mutable std::vector<void*> arguments{};  // what `kernelParams` of a node points to

    cudaError_t operator()(cudaStream_t stream) const {
        const uint64_t values[] = {function->id,        grid.x,    grid.y,    grid.z,  block.x, block.y,
                                   block.z,             shared,    stream_number(stream),
                                   uint64_t(cooperative), cluster.x, cluster.y, cluster.z};
        // The same buffer each time: a repeat is to cost little.
        static thread_local std::string identity;
        identity.assign(reinterpret_cast<const char*>(values), sizeof values);
        identity.append(parameters.data(), function->bytes);
        if (is_repeat(identity)) return cudaSuccess;
        Message message(LAUNCH);
        for (uint64_t value : values) message.word(value);
        // A launch returns before the kernel has run: its failure is that of a later call.
        auto words = message.data(parameters.data(), function->bytes).call_stack().call();
        end_watch();
        watch(words, 2);
        if (words[0]) launch_failed(static_cast<cudaError_t>(words[0]));
        else if (words[1]) note_repeats(identity);
        return cudaSuccess;
    }
};

// Report a launch that a GPU rejects. `returned`: the program gets the error from the call, where `<<<...>>>` discards
// it. `function` is null if no kernel is known.
cudaError_t reject(const Function* function, dim3 grid, dim3 block, bool returned, cudaError_t error,
                   const char* reason) {
    Message message(FAILED_LAUNCH);
    message.word(function ? function->id : 0).word(uint64_t(grid.x)).word(uint64_t(grid.y)).word(uint64_t(grid.z));
    message.word(uint64_t(block.x)).word(uint64_t(block.y)).word(uint64_t(block.z)).word(uint64_t(returned));
    message.text(reason).call_stack().call();
    launch_failed(error);
    return error;
}

cudaError_t prepare(const void* host, dim3 grid, dim3 block, void** arguments, size_t shared, bool cooperative,
                    dim3 cluster, bool returned, Launch* launch) {
    Function* function = function_of(host);
    cudaError_t error = function ? cudaErrorInvalidConfiguration : cudaErrorInvalidDeviceFunction;
    const char* reason = function ? rejection(*function, grid, block, shared) : "the kernel is in no loaded module";
    if (!reason) {
        if (!is_cluster(cluster)) cluster = function->cluster;
        reason = cluster_rejection(*function, grid, cluster);
        error = cudaErrorInvalidClusterSize;
    }
    if (reason) return reject(function, grid, block, returned, error, reason);
    *launch = Launch{host, function, grid, block, shared, cooperative, cluster,
                     std::vector<char>(function->bytes + 1)};
    for (size_t i = 0; i < function->parameters.size(); i++)
        memcpy(&launch->parameters[function->parameters[i].first], arguments[i], function->parameters[i].second);
    return cudaSuccess;
}

dim3 cluster_of(const cudaLaunchConfig_t& config) {
    for (unsigned i = 0; i < config.numAttrs; i++)
        if (config.attrs[i].id == cudaLaunchAttributeClusterDimension) {
            auto size = config.attrs[i].val.clusterDim;
            return dim3(size.x, size.y, size.z);
        }
    return NO_CLUSTER;
}

cudaError_t launch(const void* host, dim3 grid, dim3 block, void** arguments, size_t shared, cudaStream_t stream,
                   bool cooperative, dim3 cluster = NO_CLUSTER, bool returned = true) {
    Launch launch;
    cudaError_t error = prepare(host, grid, block, arguments, shared, cooperative, cluster, returned, &launch);
    if (error != cudaSuccess) return error;
    if (capturing(stream) && captured(stream, cudaGraphNodeTypeKernel, launch)) return error;
    return launch(stream);
}

}  // namespace

namespace gpuemu {

cudaError_t prepared_launch(const void* host, dim3 grid, dim3 block, void** arguments, size_t shared, Work* work) {
    Launch launch;
    cudaError_t error = prepare(host, grid, block, arguments, shared, false, NO_CLUSTER, true, &launch);
    if (error == cudaSuccess) *work = launch;
    return error;
}

bool launch_of(const Work& work, cudaKernelNodeParams* p) {
    const Launch* launch = work.target<Launch>();
    if (!launch) return false;
    launch->arguments.clear();
    for (const auto& parameter : launch->function->parameters)
        launch->arguments.push_back(const_cast<char*>(&launch->parameters[parameter.first]));
    *p = {};
    p->func = const_cast<void*>(launch->host);
    p->gridDim = launch->grid;
    p->blockDim = launch->block;
    p->sharedMemBytes = unsigned(launch->shared);
    p->kernelParams = launch->arguments.data();
    return true;
}

int architecture() {
    int found = 80;
    for (const Module& module : modules()) {
        const char* target = strstr(module.ptx.c_str(), ".target sm_");
        if (target && atoi(target + 11) > found) found = atoi(target + 11);
    }
    return found;
}

bool variable_of(const void* host, char** address, size_t* size) {
    auto found = variables().find(host);
    if (found == variables().end()) return false;
    *address = address_of(found->second);
    *size = found->second.size;
    return *address != nullptr;
}

bool known_kernel(const void* host, size_t* shared_bytes, size_t* local_bytes, size_t* most_threads) {
    Function* function = function_of(host);
    if (!function) return false;
    *shared_bytes = function->shared;
    *local_bytes = function->local;
    *most_threads = function->most_threads;
    return true;
}

}  // namespace gpuemu

namespace {

// The PTX in the code that nvcc has put into a program.
std::string ptx_of(void* wrapper) {
    struct Wrapper {
        int magic, version;
        const char* data;
        void* file;
    };
    const char* binary = static_cast<Wrapper*>(wrapper)->data;
    std::string ptx;
    uint16_t header;
    uint64_t total;
    memcpy(&header, binary + 6, 2);
    memcpy(&total, binary + 8, 8);
    for (const char *at = binary + header, *end = at + total; at < end;) {
        uint16_t kind;
        uint32_t entry;
        uint64_t size;
        memcpy(&kind, at, 2);
        memcpy(&entry, at + 4, 4);
        memcpy(&size, at + 8, 8);
        if (kind == 1) ptx.assign(at + entry, strnlen(at + entry, size));
        at += entry + size;
    }
    return ptx;
}

void** add_module(const std::string& ptx) {
    modules().push_back(Module{ptx});
    return reinterpret_cast<void**>(new uint64_t(modules().size() - 1));
}

}  // namespace

API void** __cudaRegisterFatBinary(void* wrapper) { return add_module(ptx_of(wrapper)); }
// One object of a program whose device code is linked. All of them are one module, with a zero byte between.
API void gpuemu_register_linked(void (*callback)(void**), void* wrapper) {
    static void** linked = add_module("");
    std::string& ptx = modules()[module_of(linked)].ptx;
    if (!ptx.empty()) ptx.push_back('\0');
    ptx += ptx_of(wrapper);
    callback(linked);
}
API void __cudaRegisterFatBinaryEnd(void**) {}
API void __cudaUnregisterFatBinary(void**) {}
API char __cudaInitModule(void**) { return 1; }
API void __cudaRegisterFunction(void** module, const char* host, char*, const char* name, int, uint3*, uint3*, dim3*,
                                dim3*, int*) {
    Function function;
    function.module = module_of(module);
    function.name = name;
    functions()[host] = function;
}
API void __cudaRegisterVar(void** module, char* host, char*, const char* name, int, size_t size, int, int) {
    variables()[host] = Variable{module_of(module), name, size};
}
API void __cudaRegisterManagedVar(void** module, void** host, char*, const char* name, int, size_t size, int, int) {
    Variable& variable = variables()[host] = Variable{module_of(module), name, size};
    if (getenv("GPUEMU_RUNTIME")) *host = address_of(variable);
}

API unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, void* stream) {
    configurations.push_back({grid, block, shared, static_cast<cudaStream_t>(stream)});
    return 0;
}
API cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared, void* stream) {
    // A kernel is called through a pointer as a function of the host: nvcc's code for it then launches nothing.
    if (configurations.empty())
        return reject(nullptr, dim3(0), dim3(0), false, cudaErrorMissingConfiguration,
                      "a kernel is called as a function, without <<<...>>>, which launches nothing");
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
// What nvcc makes of `kernel<<<...>>>(...)`.
API cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments, size_t shared,
                                   cudaStream_t stream) {
    return launch(kernel, grid, block, arguments, shared, stream, false, NO_CLUSTER, false);
}
API cudaError_t cudaLaunchKernel(const void* host, dim3 grid, dim3 block, void** arguments, size_t shared,
                                 cudaStream_t stream) {
    return launch(host, grid, block, arguments, shared, stream, false);
}
API cudaError_t cudaLaunchCooperativeKernel(const void* host, dim3 grid, dim3 block, void** arguments, size_t shared,
                                            cudaStream_t stream) {
    return launch(host, grid, block, arguments, shared, stream, true);
}
API cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* host, void** arguments) {
    bool cooperative = false;
    for (unsigned i = 0; i < config->numAttrs; i++)
        if (config->attrs[i].id == cudaLaunchAttributeCooperative)
            cooperative = config->attrs[i].val.cooperative != 0;
    return launch(host, config->gridDim, config->blockDim, arguments, config->dynamicSmemBytes, config->stream,
                  cooperative, cluster_of(*config));
}
API cudaError_t cudaFuncSetAttribute(const void* host, cudaFuncAttribute attribute, int value) {
    Function* function = function_of(host);
    if (!function) return result(cudaErrorInvalidDeviceFunction);
    if (attribute == cudaFuncAttributeMaxDynamicSharedMemorySize) {
        if (value < 0 || function->shared + size_t(value) > most_shared()) return result(cudaErrorInvalidValue);
        function->most_shared = value + int(function->shared);
        if (function->most_shared < (48 << 10)) function->most_shared = 48 << 10;
    }
    if (attribute == cudaFuncAttributeNonPortableClusterSizeAllowed) function->most_blocks = value ? MOST_BLOCKS : 8;
    return cudaSuccess;
}

API cudaError_t cudaOccupancyMaxPotentialClusterSize(int* blocks, const void* host, const cudaLaunchConfig_t*) {
    Function* function = function_of(host);
    if (!function) return result(cudaErrorInvalidDeviceFunction);
    *blocks = architecture() < 90 ? 1 : int(function->most_blocks);
    return cudaSuccess;
}
API cudaError_t cudaOccupancyMaxActiveClusters(int* clusters, const void* host, const cudaLaunchConfig_t* config) {
    Function* function = function_of(host);
    if (!function) return result(cudaErrorInvalidDeviceFunction);
    dim3 size = cluster_of(*config), block = config->blockDim;
    if (!is_cluster(size)) size = is_cluster(function->cluster) ? function->cluster : dim3(1, 1, 1);
    if (cluster_rejection(*function, size, size)) return result(cudaErrorInvalidClusterSize);
    int each, multiprocessors;
    cudaError_t error = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, host, int(block.x * block.y * block.z),
                                                                      config->dynamicSmemBytes);
    if (error != cudaSuccess) return error;
    cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, 0);
    *clusters = each * multiprocessors / int(size.x * size.y * size.z);
    return cudaSuccess;
}
