// The lines of the Python program, for the reports of calls. The functions of Python are in the process already; they are
// declared here, as its headers may not be installed.
#include <ATen/core/Generator.h>
#include <ATen/cuda/CUDAGeneratorImpl.h>
#include <dlfcn.h>

#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "device.h"

extern "C" {
typedef struct _object PyObject;
typedef struct _ts PyThreadState;
typedef struct _is PyInterpreterState;
typedef struct _frame PyFrameObject;
typedef struct PyCodeObject PyCodeObject;
int Py_IsInitialized();
int PyGILState_Ensure();
void PyGILState_Release(int);
PyThreadState* PyThreadState_Get();
PyThreadState* PyThreadState_Next(PyThreadState*);
PyInterpreterState* PyInterpreterState_Get();
PyThreadState* PyInterpreterState_ThreadHead(PyInterpreterState*);
PyFrameObject* PyThreadState_GetFrame(PyThreadState*);
PyFrameObject* PyFrame_GetBack(PyFrameObject*);
PyCodeObject* PyFrame_GetCode(PyFrameObject*);
int PyFrame_GetLineNumber(PyFrameObject*);
PyObject* PyObject_GetAttrString(PyObject*, const char*);
const char* PyUnicode_AsUTF8(PyObject*);
void PyErr_Fetch(PyObject**, PyObject**, PyObject**);
void PyErr_Restore(PyObject*, PyObject*, PyObject*);
void Py_IncRef(PyObject*);
void Py_DecRef(PyObject*);
}

namespace gpuemu_torch {
namespace {

// Python's own, PyTorch's, Triton's, and that of the device's own Python part. Never destroyed: others are added while threads run.
std::vector<std::string>& ignored_folders() {
    static auto& all = *new std::vector<std::string>;
    return all;
}

bool is_program(const char* path) {
    if (*path != '/') return false;  // of importlib and of generated code
    for (const std::string& folder : ignored_folders())
        // In Python's own folder there may be that of packages.
        if (strncmp(path, folder.c_str(), folder.size()) == 0 && strncmp(path + folder.size(), "site-packages/", 14) != 0)
            return false;
    return true;
}

template <class T>
void drop(T* object) {
    Py_DecRef(reinterpret_cast<PyObject*>(object));
}

// The line of the innermost frame that is the program's, 0 if there is none. Takes the frame.
uint64_t line_of(PyFrameObject* frame, char* path, size_t size) {
    uint64_t line = 0;
    while (frame && !line) {
        PyCodeObject* code = PyFrame_GetCode(frame);
        PyObject* file = PyObject_GetAttrString(reinterpret_cast<PyObject*>(code), "co_filename");
        const char* name = file ? PyUnicode_AsUTF8(file) : nullptr;
        if (name && is_program(name)) {
            snprintf(path, size, "%s", name);
            line = uint64_t(PyFrame_GetLineNumber(frame));
        }
        if (file) Py_DecRef(file);
        drop(code);
        PyFrameObject* outer = line ? nullptr : PyFrame_GetBack(frame);
        drop(frame);
        frame = outer;
    }
    if (frame) drop(frame);
    return line;
}

// Autograd's threads run no line of Python: theirs is that of the main thread, which waits in backward().
uint64_t current_line(char* path, size_t size) {
    if (!Py_IsInitialized()) return 0;
    int state = PyGILState_Ensure();
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    uint64_t line = line_of(PyThreadState_GetFrame(PyThreadState_Get()), path, size);
    if (!line) {
        PyThreadState* thread = PyInterpreterState_ThreadHead(PyInterpreterState_Get());
        while (PyThreadState* next = thread ? PyThreadState_Next(thread) : nullptr) thread = next;
        if (thread) line = line_of(PyThreadState_GetFrame(thread), path, size);
    }
    PyErr_Restore(type, value, trace);
    PyGILState_Release(state);
    return line;
}

}  // namespace
}  // namespace gpuemu_torch

// ---- For the Python part

// Lines are reported from the first call on, but for those in folders that are given.
API void gpuemu_torch_ignore_lines(const char* folder) {
    gpuemu_torch::ignored_folders().push_back(folder);
    gpuemuSetLineSource(&gpuemu_torch::current_line);
}

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
