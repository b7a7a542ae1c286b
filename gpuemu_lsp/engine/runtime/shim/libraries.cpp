// CUDA's libraries of code, which are modules that belong to no context: each is one of them here, and its kernels are
// functions of it.
#include <cuda.h>

#include "modules.h"

using namespace gpuemu;

namespace {

CUmodule module_of(CUlibrary library) { return reinterpret_cast<CUmodule>(library); }
CUfunction as_function(CUkernel kernel) { return reinterpret_cast<CUfunction>(kernel); }

// The driver's errors have the numbers of the runtime's.
cudaError_t runtime(CUresult error) { return result(static_cast<cudaError_t>(error)); }

}  // namespace

API CUresult cuLibraryLoadData(CUlibrary* library, const void* code, CUjit_option*, void**, unsigned, CUlibraryOption*,
                               void**, unsigned) {
    return cuModuleLoadData(reinterpret_cast<CUmodule*>(library), code);
}
API CUresult cuLibraryLoadFromFile(CUlibrary* library, const char* path, CUjit_option*, void**, unsigned,
                                   CUlibraryOption*, void**, unsigned) {
    return cuModuleLoad(reinterpret_cast<CUmodule*>(library), path);
}
API CUresult cuLibraryUnload(CUlibrary library) { return cuModuleUnload(module_of(library)); }
API CUresult cuLibraryGetModule(CUmodule* module, CUlibrary library) {
    *module = module_of(library);
    return CUDA_SUCCESS;
}
API CUresult cuLibraryGetKernel(CUkernel* kernel, CUlibrary library, const char* name) {
    return cuModuleGetFunction(reinterpret_cast<CUfunction*>(kernel), module_of(library), name);
}
API CUresult cuLibraryGetKernelCount(unsigned* count, CUlibrary library) {
    *count = unsigned(kernels_in(number(module_of(library))).size());
    return CUDA_SUCCESS;
}
API CUresult cuLibraryEnumerateKernels(CUkernel* kernels, unsigned count, CUlibrary library) {
    for (const std::string& name : kernels_in(number(module_of(library)))) {
        if (!count--) break;
        if (CUresult error = cuLibraryGetKernel(kernels++, library, name.c_str())) return error;
    }
    return CUDA_SUCCESS;
}
API CUresult cuLibraryGetGlobal(CUdeviceptr* address, size_t* bytes, CUlibrary library, const char* name) {
    return cuModuleGetGlobal(address, bytes, module_of(library), name);
}
API CUresult cuKernelGetFunction(CUfunction* function, CUkernel kernel) {
    *function = as_function(kernel);
    return CUDA_SUCCESS;
}
API CUresult cuKernelGetAttribute(int* value, CUfunction_attribute attribute, CUkernel kernel, CUdevice) {
    return cuFuncGetAttribute(value, attribute, as_function(kernel));
}
API CUresult cuKernelSetAttribute(CUfunction_attribute attribute, int value, CUkernel kernel, CUdevice) {
    return cuFuncSetAttribute(as_function(kernel), attribute, value);
}
API CUresult cuKernelSetCacheConfig(CUkernel, CUfunc_cache, CUdevice) { return CUDA_SUCCESS; }

API cudaError_t cudaLibraryLoadData(cudaLibrary_t* library, const void* code, cudaJitOption*, void**, unsigned,
                                    cudaLibraryOption*, void**, unsigned) {
    return runtime(cuModuleLoadData(reinterpret_cast<CUmodule*>(library), code));
}
API cudaError_t cudaLibraryLoadFromFile(cudaLibrary_t* library, const char* path, cudaJitOption*, void**, unsigned,
                                        cudaLibraryOption*, void**, unsigned) {
    return runtime(cuModuleLoad(reinterpret_cast<CUmodule*>(library), path));
}
API cudaError_t cudaLibraryUnload(cudaLibrary_t library) { return runtime(cuModuleUnload(module_of(library))); }
API cudaError_t cudaLibraryGetKernel(cudaKernel_t* kernel, cudaLibrary_t library, const char* name) {
    return runtime(cuModuleGetFunction(reinterpret_cast<CUfunction*>(kernel), module_of(library), name));
}
API cudaError_t cudaLibraryGetGlobal(void** address, size_t* bytes, cudaLibrary_t library, const char* name) {
    return runtime(cuModuleGetGlobal(reinterpret_cast<CUdeviceptr*>(address), bytes, module_of(library), name));
}
API cudaError_t cudaKernelSetAttributeForDevice(cudaKernel_t kernel, cudaFuncAttribute attribute, int value, int) {
    return cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel), attribute, value);
}
