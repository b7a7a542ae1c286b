"""The device view: a source with everything that NVRTC cannot compile replaced by spaces.

Purpose
-------
NVRTC compiles device code alone: no host compiler behind it, no C library, no ``<<<...>>>`` in host functions. A .cu
file as nvcc accepts it contains ``main``, host helpers, launches and headers of host libraries, and NVRTC rejects all
of them. A check therefore compiles a *view* of the file.

A view has the lines and byte columns of its source: a removed character becomes a space, line breaks stay. Compiler
messages, ``.loc`` directives in PTX, and through them every finding of the emulator then refer to the user's file
without a source map. Text that stays is never rewritten. The only insertion is ``#include<cuda_fp16.h>`` and its like
over an omitted include of a library that would have included it (:func:`view._replacements`).

Construction
------------
The views of a file and its user headers are made together, since a helper in a header stays if a kernel in another
file calls it:

1. Comments and contents of literals are blanked for the analysis (:mod:`preprocessor.lexer`); the view itself keeps
   them.
2. User headers are read, except those that mention ``__CUDACC_RTC__``: they support NVRTC and are compiled as on disk.
3. ``#if`` branches that NVRTC certainly skips are excluded (:mod:`preprocessor.conditions`). Otherwise a helper for
   another platform would make device code out of host code, and the reverse.
4. Each file is split into items, and each item is classified (:mod:`syntax.items`, :mod:`syntax.declarations`).
5. Reachable items are marked (:mod:`reachability`, over the graph of :mod:`nodes`), the others are blanked.
   :mod:`file_scope` has the names of file scope that the former use.
6. Directives are selected (:mod:`directives`). Conditionals and definitions always stay, also within a blanked item:
   an ``#if`` may begin in one item and end in another. ``#line`` never stays. Includes stay if they name a user
   header, or a device header of CUDA that reachable code needs.

Reachability
------------
Roots are functions, types, variables and macro invocations with a device specifier (``__global__``, ``__device__``,
``__constant__``, ``__shared__``, ``__managed__``, directly or through a macro), types with such a member, and names in
template arguments of launches. From a reachable item, every identifier is followed to all declarations of that name.

An item without specifier is *host-only*, and never reachable, if it launches a kernel, names a host library, calls a
function of the runtime API or the C library without device counterpart (:mod:`host_only`), or, by a fixed point over
the reference graph, calls a host-only function or uses a host-only type. An item that is ``__host__ __device__`` and
host-only is not a root, but stays if device code names it: nvcc diagnoses exactly that use. The remaining helpers,
constants and aliases are compiled for the device (``--device-as-default-execution-space``), so a pure helper needs no
annotation. Host-only members are blanked alone: a parameter struct with a ``std::string`` accessor keeps its layout.

A kernel that was edited is compiled without the others of its file (:func:`view.of_kernels`): only the kernel itself is
then a root, and what only the others need is blanked with them.

Prototypes stay with their function, ``using`` declarations and static assertions if everything they name stays.

Known limits
------------
* Names carry neither scope nor overload. A host helper that shares its name with a device function stays, and it can
  fail to compile.
* Host-only detection is a list of names. Where an unannotated helper that device code mentions uses an unknown host
  library, it does not compile, and :func:`view.without_rejected` makes the views again with that helper as host code.
* A name that several ``#define`` directives define has all of their bodies; ``#include MACRO`` is not followed.
* At most 300 headers of 4 MiB are read, expansions end at 20,000 characters, and kernels are searched for in three
  levels of macros.
* Device code that needs a header of a library (``torch/extension.h``) does not compile; the missing header is reported
  as such rather than as the errors that follow from it.
"""
