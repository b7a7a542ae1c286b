// The lines of the Python program, for the reports of calls. The functions of Python are declared here, as its headers may
// not be installed, and weakly: a program in another language does not have them.
#include <climits>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "core.h"

#define WEAK __attribute__((weak))

extern "C" {
typedef struct _object PyObject;
typedef struct _ts PyThreadState;
typedef struct _is PyInterpreterState;
typedef struct _frame PyFrameObject;
typedef struct PyCodeObject PyCodeObject;
WEAK int Py_IsInitialized();
WEAK int PyGILState_Ensure();
WEAK void PyGILState_Release(int);
WEAK PyThreadState* PyThreadState_Get();
WEAK PyThreadState* PyThreadState_Next(PyThreadState*);
WEAK PyInterpreterState* PyInterpreterState_Get();
WEAK PyThreadState* PyInterpreterState_ThreadHead(PyInterpreterState*);
WEAK PyFrameObject* PyThreadState_GetFrame(PyThreadState*);
WEAK PyFrameObject* PyFrame_GetBack(PyFrameObject*);
WEAK PyCodeObject* PyFrame_GetCode(PyFrameObject*);
WEAK int PyFrame_GetLineNumber(PyFrameObject*);
WEAK PyObject* PyObject_GetAttrString(PyObject*, const char*);
WEAK const char* PyUnicode_AsUTF8(PyObject*);
WEAK void PyErr_Fetch(PyObject**, PyObject**, PyObject**);
WEAK void PyErr_Restore(PyObject*, PyObject*, PyObject*);
WEAK void Py_IncRef(PyObject*);
WEAK void Py_DecRef(PyObject*);
}

namespace gpuemu {
namespace {

// Python's own, and those of packages that are not the program's. Never destroyed: others are added while threads run.
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
    if (!Py_IsInitialized || !Py_IsInitialized()) return 0;
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

// No line is looked for before a folder has been given.
SourceLine SourceLine::current() {
    char path[PATH_MAX];
    uint64_t number = ignored_folders().empty() ? 0 : current_line(path, sizeof path);
    return {number, number ? path : ""};
}

}  // namespace gpuemu

// Report lines of Python from the first call on, but for those in folders that are given.
API void gpuemuIgnoreLines(const char* folder) { gpuemu::ignored_folders().push_back(folder); }
