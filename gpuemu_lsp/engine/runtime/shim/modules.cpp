// What nvcc's code registers of a program: its modules, kernels and variables.
#include "modules.h"

#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <unordered_map>

namespace gpuemu {
namespace {

struct Module {
    std::string ptx;
    bool loaded = false;
};
struct Variable {
    uint64_t module;
    std::string name;
    size_t size;
    char* address = nullptr;
};

std::recursive_mutex loading;

// Registration runs in static constructors, maybe before those of this library: hence functions.
std::vector<Module>& modules() {
    static auto& all = *new std::vector<Module>;
    return all;
}
std::unordered_map<const void*, Function>& functions() {
    static auto& all = *new std::unordered_map<const void*, Function>;
    return all;
}
std::unordered_map<const void*, Variable>& variables() {
    static auto& all = *new std::unordered_map<const void*, Variable>;
    return all;
}

// Variables to which the host has a pointer, and where that is.
std::vector<std::pair<void**, Variable*>>& managed() {
    static auto& all = *new std::vector<std::pair<void**, Variable*>>;
    return all;
}

void load(uint64_t number) {
    std::lock_guard<std::recursive_mutex> guard(loading);
    Module& module = modules()[number];
    if (!module.loaded) call(message::LoadModule{number, module.ptx});
    module.loaded = true;
}

uint64_t module_of(void** handle) { return *reinterpret_cast<uint64_t*>(handle); }

char* address_of(Variable& variable) {
    std::lock_guard<std::recursive_mutex> guard(loading);
    if (!variable.address) {
        load(variable.module);
        variable.address = static_cast<char*>(call(message::FindVariable{variable.module, variable.name}).address);
    }
    return variable.address;
}

// What nvcc puts into a program around a fat binary.
struct Wrapper {
    uint32_t magic, version;
    const char* binary;
    void* file;
};
constexpr uint32_t WRAPPER_MAGIC = 0x466243b1, BINARY_MAGIC = 0xba55ed50;

// The PTX in a fat binary.
std::string ptx_in(const char* binary) {
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

std::string ptx_of(void* wrapper) { return ptx_in(static_cast<Wrapper*>(wrapper)->binary); }

void** add_module(const std::string& ptx) {
    std::lock_guard<std::recursive_mutex> guard(loading);
    modules().push_back(Module{ptx});
    return reinterpret_cast<void**>(new uint64_t(modules().size() - 1));
}

}  // namespace

Function* function_of(const void* host) {
    std::lock_guard<std::recursive_mutex> guard(loading);
    auto found = functions().find(host);
    if (found == functions().end()) return nullptr;
    Function& function = found->second;
    if (!function.known) {
        load(function.module);
        auto answer = call(message::FindKernel{function.module, function.name});
        function.known = true;
        function.id = answer.kernel;
        function.bytes = answer.parameter_bytes;
        function.shared = answer.shared_bytes;
        function.local = answer.local_bytes;
        function.most_threads = answer.most_threads;
        function.cluster = answer.cluster;
        function.parameters = answer.parameters;
    }
    return function.id ? &function : nullptr;
}

int architecture() {
    static const char* given = getenv("GPUEMU_ARCHITECTURE");
    int found = given ? atoi(given) : 80;
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

void unload_modules() {
    std::lock_guard<std::recursive_mutex> guard(loading);
    for (Module& module : modules()) module.loaded = false;
    for (auto& one : functions()) {
        Function& function = one.second;
        function.known = false;
        function.parameters.clear();
        function.most_shared = 48 << 10;
        function.most_blocks = 8;
        function.settings++;
    }
    for (auto& one : variables()) one.second.address = nullptr;
    for (auto& [host, variable] : managed()) *host = address_of(*variable);
}

bool add_image(const void* image, uint64_t* module) {
    uint32_t magic;
    memcpy(&magic, image, sizeof magic);
    const char* text = static_cast<const char*>(image);
    if (magic == WRAPPER_MAGIC) text = static_cast<const Wrapper*>(image)->binary;
    std::string ptx = magic == WRAPPER_MAGIC || magic == BINARY_MAGIC ? ptx_in(text) : text;
    if (ptx.find(".version") == std::string::npos) return false;
    *module = module_of(add_module(ptx));
    return true;
}

const void* kernel_in(uint64_t module, const char* name) {
    std::lock_guard<std::recursive_mutex> guard(loading);
    for (const auto& [host, function] : functions())
        if (function.module == module && function.name == name) return host;
    const void* host = new char;
    functions()[host] = Function{module, name};
    if (function_of(host)) return host;
    functions().erase(host);
    delete static_cast<const char*>(host);
    return nullptr;
}

std::vector<std::string> kernels_in(uint64_t module) {
    static const char ENTRY[] = ".entry ";
    std::vector<std::string> names;
    std::lock_guard<std::recursive_mutex> guard(loading);
    const std::string& ptx = modules()[module].ptx;
    for (size_t at = 0; (at = ptx.find(ENTRY, at)) != std::string::npos;) {
        at += sizeof ENTRY - 1;
        names.push_back(ptx.substr(at, ptx.find_first_of("( \t\n", at) - at));
    }
    return names;
}

bool variable_in(uint64_t module, const char* name, char** address, size_t* size) {
    load(module);
    auto answer = call(message::FindVariable{module, name});
    *address = static_cast<char*>(answer.address);
    *size = answer.size;
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

using namespace gpuemu;

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
    managed().push_back({host, &variable});
    if (getenv("GPUEMU_RUNTIME")) *host = address_of(variable);
}
