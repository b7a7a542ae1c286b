// Launches of kernels.
#include <algorithm>
#include <cstring>
#include <vector>

#include "graphs.h"
#include "modules.h"
#include "proved_launches.h"

using namespace gpuemu;

namespace {

constexpr unsigned MOST_BLOCKS = 16;  // of a cluster, on a GPU whose limit is not that of all GPUs

struct Configuration {
    dim3 grid, block;
    size_t shared;
    cudaStream_t stream;
};

// Bytes per block, with cudaFuncSetAttribute.
size_t most_shared() { return size_t(architecture() >= 90 && architecture() < 120 ? 227 : 163) << 10; }

struct OfThread {
    std::vector<Configuration> configurations;  // of the calls `kernel<<<...>>>(...)` whose arguments are evaluated
    ProvedLaunches proved;
};

// It is never deleted: the destructors of a program's objects may launch kernels after those of this thread's.
OfThread& of_thread() {
    // The library is loaded with the program, or its few bytes fit into what the loader keeps for such variables.
    static thread_local OfThread* all __attribute__((tls_model("initial-exec"))) = nullptr;
    if (!all) all = new OfThread;
    return *all;
}

bool is_cluster(dim3 size) { return size.x || size.y || size.z; }

// What a launch asks for, or the kernel requires.
dim3 cluster_of(const Call& call, const Function& function) {
    return is_cluster(call.cluster) ? call.cluster : function.cluster;
}

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

// Why a GPU rejects a launch: the error of the call, and the reason, null if it does not.
struct Rejection {
    cudaError_t error;
    const char* reason;
};

Rejection rejection(const Function& function, dim3 grid, dim3 block, size_t shared) {
    uint64_t threads = uint64_t(block.x) * block.y * block.z;
    if (!grid.x || !grid.y || !grid.z || !threads)
        return {cudaErrorInvalidConfiguration, "the grid or the block is empty"};
    if (threads > function.most_threads || block.x > 1024 || block.y > 1024 || block.z > 64)
        return {cudaErrorInvalidConfiguration, "the block has more threads than the kernel or a GPU allows"};
    if (grid.x > 0x7fffffff || grid.y > 65535 || grid.z > 65535)
        return {cudaErrorInvalidConfiguration, "the grid has more blocks than a GPU allows"};
    if (function.shared + shared > size_t(function.most_shared) || function.shared + shared > most_shared())
        return {cudaErrorInvalidValue, "it asks for more shared memory than was set with cudaFuncSetAttribute"};
    return {cudaSuccess, nullptr};
}

// The reason for which a GPU rejects a launch whose blocks wait for each other. How many fit because of their registers
// is not known.
const char* cooperative_rejection(const Call& call) {
    int each = 0;
    cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, call.host, int(call.block.x * call.block.y * call.block.z),
                                                  call.shared);
    uint64_t blocks = uint64_t(call.grid.x) * call.grid.y * call.grid.z;
    return blocks > uint64_t(each) * multiprocessors() ? "a cooperative grid has more blocks than fit on the device at once"
                                                     : nullptr;
}

// A launch with the block of its parameters.
struct Launch {
    Call call;
    Function* function;
    std::vector<char> parameters;
    mutable std::vector<void*> arguments{};  // what `kernelParams` of a node points to

    std::vector<void*>& addresses() const {
        arguments.clear();
        for (const Parameter& one : function->parameters)
            arguments.push_back(const_cast<char*>(&parameters[one.offset]));
        return arguments;
    }

    // As a graph makes it, on the stream on which the graph is launched.
    cudaError_t operator()(cudaStream_t stream) const {
        Launch made = *this;
        made.call.stream = stream;
        if (!of_thread().proved.skip(made.call, made.addresses().data())) made.make();
        return cudaSuccess;
    }

    void make() const {
        auto answer = gpuemu::call(message::LaunchKernel{{function->id, call.grid, call.block, cluster_of(call, *function),
                                                    call.shared, stream_number(call.stream),
                                                    Bytes(parameters.data(), function->bytes)}});
        end_watch();
        watch(answer.watched);
        // A launch returns before the kernel has run: its failure is that of a later call.
        if (answer.error) launch_failed(static_cast<cudaError_t>(answer.error));
        else if (answer.contents) of_thread().proved.add(call, *function, parameters, answer.contents);
    }
};

// Report a launch that a GPU rejects. `returned`: the program gets the error from the call, where `<<<...>>>` discards
// it. `function` is null if no kernel is known.
cudaError_t reject(const Function* function, dim3 grid, dim3 block, bool returned, cudaError_t error,
                   const char* reason) {
    call(message::RejectedLaunch{function ? function->id : 0, grid, block, returned, reason});
    launch_rejected(error);
    return error;
}

cudaError_t prepare(const Call& call, void** arguments, bool returned, Launch* launch) {
    Function* function = function_of(call.host);
    auto [error, reason] = function ? rejection(*function, call.grid, call.block, call.shared)
                                    : Rejection{cudaErrorInvalidDeviceFunction, "the kernel is in no loaded module"};
    if (!reason) {
        reason = cluster_rejection(*function, call.grid, cluster_of(call, *function));
        error = cudaErrorInvalidClusterSize;
    }
    if (!reason && call.cooperative) {
        reason = cooperative_rejection(call);
        error = cudaErrorCooperativeLaunchTooLarge;
    }
    if (reason) return reject(function, call.grid, call.block, returned, error, reason);
    *launch = Launch{call, function, std::vector<char>(function->bytes + 1)};
    for (size_t i = 0; i < function->parameters.size(); i++)
        memcpy(&launch->parameters[function->parameters[i].offset], arguments[i], function->parameters[i].size);
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

// `returned`: see `reject`.
cudaError_t launch(const Call& call, void** arguments, bool returned = true) {
    if (!capturing(call.stream) && of_thread().proved.skip(call, arguments)) return cudaSuccess;
    Launch launch;
    cudaError_t error = prepare(call, arguments, returned, &launch);
    if (error != cudaSuccess) return error;
    if (!capturing(call.stream) || !captured(call.stream, cudaGraphNodeTypeKernel, launch)) launch.make();
    return error;
}

}  // namespace

namespace gpuemu {

cudaError_t prepared_launch(const void* host, dim3 grid, dim3 block, void** arguments, size_t shared, Work* work) {
    Launch launch;
    cudaError_t error = prepare({host, grid, block, shared, nullptr}, arguments, true, &launch);
    if (error == cudaSuccess) *work = launch;
    return error;
}

bool launch_of(const Work& work, cudaKernelNodeParams* p) {
    const Launch* launch = work.target<Launch>();
    if (!launch) return false;
    *p = {};
    p->func = const_cast<void*>(launch->call.host);
    p->gridDim = launch->call.grid;
    p->blockDim = launch->call.block;
    p->sharedMemBytes = unsigned(launch->call.shared);
    p->kernelParams = launch->addresses().data();
    return true;
}

}  // namespace gpuemu

API unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, void* stream) {
    of_thread().configurations.push_back({grid, block, shared, static_cast<cudaStream_t>(stream)});
    return 0;
}
API cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared, void* stream) {
    // A kernel is called through a pointer as a function of the host: nvcc's code for it then launches nothing.
    auto& configurations = of_thread().configurations;
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
    return launch({kernel, grid, block, shared, stream}, arguments, false);
}
API cudaError_t cudaLaunchKernel(const void* host, dim3 grid, dim3 block, void** arguments, size_t shared,
                                 cudaStream_t stream) {
    return launch({host, grid, block, shared, stream}, arguments);
}
API cudaError_t cudaLaunchCooperativeKernel(const void* host, dim3 grid, dim3 block, void** arguments, size_t shared,
                                            cudaStream_t stream) {
    return launch({host, grid, block, shared, stream, true}, arguments);
}
API cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* host, void** arguments) {
    bool cooperative = false;
    for (unsigned i = 0; i < config->numAttrs; i++)
        if (config->attrs[i].id == cudaLaunchAttributeCooperative)
            cooperative = config->attrs[i].val.cooperative != 0;
    return launch({host, config->gridDim, config->blockDim, config->dynamicSmemBytes, config->stream, cooperative,
                   cluster_of(*config)},
                  arguments);
}
API cudaError_t cudaFuncSetAttribute(const void* host, cudaFuncAttribute attribute, int value) {
    Function* function = function_of(host);
    if (!function) return result(cudaErrorInvalidDeviceFunction);
    // Programs ask for what is newer, and do without it where it is refused: Triton for more shared memory.
    if (attribute > cudaFuncAttributeClusterSchedulingPolicyPreference) return result(cudaErrorInvalidValue);
    function->settings++;
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
    int each;
    // CuTe DSL asks for 128 threads of a kernel that is compiled for one: the limit of the kernel does not count here.
    uint64_t threads = std::min<uint64_t>(uint64_t(block.x) * block.y * block.z, function->most_threads);
    cudaError_t error =
        cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, host, int(threads), config->dynamicSmemBytes);
    if (error != cudaSuccess) return error;
    *clusters = each * multiprocessors() / int(size.x * size.y * size.z);
    return cudaSuccess;
}
