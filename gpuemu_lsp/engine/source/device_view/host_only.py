"""Detection of host-only code among functions, types and variables without execution space specifier."""

from __future__ import annotations

import re
from collections.abc import Set
from dataclasses import dataclass

_NAMES = re.compile(
    r"""(?x)
    (?:cublas|cudnn|cusparse|cusolver|cufft|nccl|nvtx|nvml|npp|nvrtc|nvshmem|rocblas)[A-Z_]\w*
    | hip(?!(?:Thread|Block|Grid)(?:Dim|Idx)_|(?:Float|Double)?Complex)[A-Z_]\w*
    | curand(?:Generate|Create|Destroy|Set|Generator)\w*
    | cu(?:Mem|Module|Launch|Ctx|Device|Init|Stream|Event|Get)[A-Z]\w*
    | (?:MPI|NCCL|Py|TORCH|AT|PYBIND11|TF|OMP)_\w+ | PyObject | omp_\w+ | _mm\d*_\w+ | pthread_\w+
    | FILE | stderr | stdout | stdin | errno | argc | argv | clock_t | timeval | timespec
    | LARGE_INTEGER | DWORD | HANDLE | QueryPerformance\w+ | GetTickCount\w* | cudaDeviceProp
    | try | catch | throw | dynamic_cast | typeid
    """
)
"""Types, variables, keywords and names with the prefix of a library: any mention counts."""

_CALLS = re.compile(
    r"""(?x)
    cuda(?:Malloc|Free|Memcpy|Memset|MemGet|MemPrefetch|MemAdvise|MemPool|Launch|Get|Set|Stream|Event|Device|Func|Host
        |Graph|Occupancy|Peek|Thread|Profiler|Create|Destroy|Bind|Unbind|Ipc|Import|Export|Choose|Driver|Runtime)\w*
    | f(?:open|close|read|write|printf|puts|gets|scanf|seek|tell|flush|eof) | s?scanf | v?sn?printf | puts | putchar
    | perror | getenv | setenv | system | exit | _exit | abort | atexit | ato[ifl]l? | strto\w+ | getopt\w* | qsort
    | s?rand(?:_r|om)? | drand48 | time | clock_gettime | gettimeofday | u?sleep | nanosleep | mmap | dlopen | dlsym
    | calloc | realloc | posix_memalign | aligned_alloc | _aligned_malloc | strn?cmp | strdup | strstr
    """
)
"""Functions whose names are also usual for variables (``time``, ``exit``): only a call counts."""

_LIBRARIES = re.compile(
    r"(?<![\w:])(?:(?:torch|at|c10)\s*::(?!\s*(?:Half|BFloat16|complex|acc_type|AccumulateType|opmath_type|OpMathType"
    r"|\w*TensorAccessor\w*|\w+PtrTraits|numeric_limits|PhiloxCudaState|ceil_div|round_up|_isnan|_isinf|detail::Array"
    r"|q?u?int\d+|cuda::(?:detail::(?:TensorInfo|IndexToOffset)|compat|philox))\b)"
    r"|(?:pybind11|py|cv|boost|Eigen|tensorflow|paddle|jax|xla|caffe2|spdlog|fmt|thrust::(?:device|host)_vector)\s*::)"
)
_STANDARD = re.compile(
    r"""(?x)\bstd\s*::\s*(?:
    vector | (?:w|u8|u16|u32)?string(?:_view|stream)? | (?:unordered_)?(?:multi)?(?:map|set) | deque | list
    | forward_list | queue | stack | priority_queue | bitset | cout | cerr | clog | cin | endl | flush
    | \w*stream(?:buf)? | thread | \w*mutex | \w*_lock | lock_guard | future | promise | async | condition_variable\w*
    | chrono | random_device | mt19937\w* | default_random_engine | minstd_rand0? | \w+_distribution | function
    | (?:shared|unique|weak)_ptr | make_(?:shared|unique) | \w*_error | \w*exception\w* | invalid_argument
    | out_of_range | bad_\w+ | (?:stable_|partial_|is_)?sort | generate(?:_n)? | iota | accumulate | transform | shuffle
    | for_each | to_string | sto\w+ | filesystem | regex | any | variant | bind | setw | setprecision | setfill | fixed
    | scientific | hex | boolalpha | getline | exit | terminate | abort | rand | srand | time | clock | getenv | system
    | calloc | this_thread | locale | type_index | execution | format
    )\b"""
)
_UNQUALIFIED = re.compile(
    r"(?<![\w:.])(?:(cout|cerr|endl|ifstream|ofstream|stringstream)\b|(vector|unordered_map|map|set)\s*<|(string)\s+\w)"
)


@dataclass(frozen=True, slots=True)
class HostMentions:
    """What some code mentions that only host code can: ``certain``, or one of ``names`` unless the user declares it."""

    certain: bool
    names: frozenset[str]

    def is_host_only(self, declared: Set[str]) -> bool:
        """Return whether the code can only be host code; ``declared`` are names that the user's files declare."""
        return self.certain or not self.names <= declared


def host_mentions(code: str, uses: Set[str], calls: Set[str]) -> HostMentions:
    """Return what some code mentions of the host.

    Parameters
    ----------
    code
        The text without comments.
    uses, calls
        Its identifiers, and those followed by an argument list, with the expansions of macros among them.
    """
    names = {word for word in uses if _NAMES.fullmatch(word)}
    names |= {word for word in calls if _CALLS.fullmatch(word)}
    names |= {word for match in _UNQUALIFIED.finditer(code) for word in match.groups() if word}
    certain = "<<<" in code or bool(_STANDARD.search(code) or _LIBRARIES.search(code))
    return HostMentions(certain, frozenset(names))
