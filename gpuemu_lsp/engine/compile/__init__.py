"""Compilation of a device view by NVRTC, through CuPy's binding; needs no GPU.

One request compiles one source for one architecture, to PTX (which the emulator runs) and to a cubin in the same call
(whose ptxas report has the true register and spill counts). The steps, in the order of :func:`compile_source`:

Options
    The user's ``compile_options`` are usually copied from an nvcc command line. Options of nvcc's driver and the host
    compiler are dropped, those of both compilers passed on, those that change the kind of output refused
    (:mod:`options`).
Include closure
    NVRTC reports neither the headers it read nor include chains. The user's headers are therefore found here, by the
    same search as the compiler's, for cache keys and for diagnostics in headers (:mod:`include_closure`).
One program per file
    The kernels of a file are entries of one program, so that one call serves the checks of them all. Their PTX is cut
    out of it. If another kernel's template does not compile, a kernel has a program of its own.
Header mirror
    NVRTC searches the including file's directory first, so a header with a device view cannot stay next to its file.
    The views are written to a private directory tree that repeats their absolute paths, each behind a ``#line`` that
    names the real file (:mod:`scratch`).
Preamble
    nvcc includes ``cuda_runtime.h`` and, through it, much of the C and C++ library before the first line of a file;
    NVRTC does not. A prelude declares the device-usable part of it (``shims/prelude.h``), headers of host libraries are
    empty stubs, and ``#line 1`` restores the user's numbering (:mod:`preamble`).
Precompiled headers
    Costly CUDA headers that the file includes unconditionally are moved into the preamble, which NVRTC precompiles per
    process: cooperative groups and CUB then take milliseconds instead of half a second.
Fallbacks
    A failed compilation is repeated where the cause may be ours: as C++20 if the text shows C++20 syntax and no
    standard is configured, as relocatable device code if a kernel launches kernels, without the prelude if the file
    defines the same names, and without name expressions that match no kernel.
Diagnostics
    The log is parsed (:mod:`messages`) and mapped to tokens of the user's files (:mod:`diagnostics`). Warnings that the
    view causes, such as an unused function whose callers are blanked host code, are dropped (:mod:`view_warnings`).
    Errors inside CUDA's headers move to the include, or to the user's line that instantiates the template.
Resources
    ``--ptxas-options=-v`` adds ptxas' resource report to the log (:mod:`ptxas`). A file with much code is
    compiled to PTX alone after an edit; the report of equal code is used again (:mod:`machine_code`).

Successful outputs are cached on disk. The key covers everything that determines the output: toolchain version and
include directories, preamble and stub headers, architecture, options, name expressions, and path and text of the source
and of every header in the closure. Failures are not cached, since a missing header may appear, nor are sources with a
computed include (``#include MACRO``), whose headers are not in the key. Diagnostics are derived from the cached log at
each request.

Modules other than those named: ``compiler`` (one request from options to artifact), ``program`` (one NVRTC program),
``cupy_cuda`` (CuPy's bindings of CUDA), ``toolchain`` (the installed NVRTC and CUDA's headers), ``cache`` (outputs
on disk), ``assembler`` (ptxas of CUDA's wheels), ``error_traits`` and ``fallback_causes`` (what NVRTC's errors are
about: the only places that know their wording), ``triton_backend`` (Triton's compiler, stopped at PTX),
``torch_devices`` (PyTorch's ``cuda`` as the CPU while a module is imported), and the records in ``model``.
"""
