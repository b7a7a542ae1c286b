// What the device's Python part asks of libtorch_python: it is not linked with, as the functions differ between versions.
#include <ATen/core/Generator.h>
#include <ATen/cuda/CUDAGeneratorImpl.h>
#include <dlfcn.h>

#include "device.h"

typedef struct _object PyObject;

// The default generator as an object of Python, null if libtorch_python does not have the function that makes it.
API PyObject* gpuemu_torch_default_generator() {
    void* library = dlopen("libtorch_python.so", RTLD_LAZY | RTLD_NOLOAD);
    void* wrap = library ? dlsym(library, "_Z17THPGenerator_WrapRKN2at9GeneratorE") : nullptr;
    if (!wrap) return nullptr;
    return reinterpret_cast<PyObject* (*)(const at::Generator&)>(wrap)(at::cuda::detail::getDefaultCUDAGenerator());
}

// In a forked process: PyTorch initialises the device again when it is used, which its Python part refuses.
API void gpuemu_torch_forked() {
    gpuemu_torch::is_forked = true;
    void* library = dlopen("libtorch_python.so", RTLD_LAZY | RTLD_NOLOAD);
    void* require = library ? dlsym(library, "_ZN5torch5utils24set_requires_device_initEN3c1010DeviceTypeEb") : nullptr;
    if (require) reinterpret_cast<void (*)(c10::DeviceType, bool)>(require)(c10::DeviceType::CUDA, true);
}
