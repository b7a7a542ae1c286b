"""Signs that a piece of unmarked code can only run on the host."""

from __future__ import annotations

import re

_API = re.compile(
    r"""(?x)
    cuda(?:Malloc|Free|Memcpy(?!Kind|HostTo|DeviceTo|Default)|Memset|MemGet|MemPrefetch|MemAdvise|MemPool|Launch|Get|Set
        |Stream(?!_t$)|Event(?!_t$)|Device(?:Get|Set|Sync|Reset|Can|Enable|Disable|Prop)|Func|Host|Graph|Occupancy|Peek
        |Thread|Profiler|Create|Destroy|Bind|Unbind|Ipc|Import|Export|Choose|Driver|Runtime)\w*
    | (?:cublas|cudnn|cusparse|cusolver|cufft|nccl|nvtx|nvml|npp|nvrtc|nvshmem|hip|rocblas)[A-Z_]\w*
    | curand(?:Generate|Create|Destroy|Set|Generator)\w* | cu(?:Mem|Module|Launch|Ctx|Device|Init|Stream|Event|Get)[A-Z]\w*
    | (?:MPI|NCCL|PyObject|Py|TORCH|AT_|PYBIND11|TF|OMP)_\w+ | omp_\w+ | _mm\d*_\w+ | pthread_\w+
    | FILE | f(?:open|close|read|write|printf|puts|gets|scanf|seek|tell|flush|eof) | s?scanf | v?sn?printf | puts | putchar
    | perror | errno | stderr | stdout | stdin | getenv | setenv | system | exit | _exit | abort | atexit | ato[ifl]l? | strto\w+
    | s?rand(?:_r|om)? | drand48 | time | clock_gettime | clock_t | gettimeofday | timeval | timespec | u?sleep | nanosleep | qsort
    | calloc | realloc | posix_memalign | aligned_alloc | _aligned_malloc | strcmp | strncmp | strdup | strstr | getopt\w*
    | argc | argv | mmap | dlopen | dlsym | try | catch | throw | dynamic_cast | typeid
    | QueryPerformance\w+ | LARGE_INTEGER | DWORD | HANDLE | GetTickCount\w*
    | torch | at | c10 | pybind11 | cv | boost | Eigen | tensorflow | paddle | jax | xla | caffe2 | glog | gflags | spdlog | fmt
    """
)
_NAMESPACES = frozenset(
    [
        "torch",
        "at",
        "c10",
        "pybind11",
        "cv",
        "boost",
        "Eigen",
        "tensorflow",
        "paddle",
        "jax",
        "xla",
        "caffe2",
        "glog",
        "gflags",
        "spdlog",
        "fmt",
    ]
)
_STANDARD = re.compile(
    r"""(?x)\b(?:std\s*::\s*)(?:
    vector | (?:w|u8|u16|u32)?string(?:_view|stream)? | (?:unordered_)?(?:multi)?(?:map|set) | deque | list | forward_list
    | queue | stack | priority_queue | bitset | cout | cerr | clog | cin | endl | flush | \w*stream(?:buf)? | thread | \w*mutex
    | \w*_lock | lock_guard | future | promise | async | condition_variable\w* | chrono | random_device | mt19937\w*
    | default_random_engine | minstd_rand0? | \w+_distribution | function | (?:shared|unique|weak)_ptr | make_(?:shared|unique)
    | \w*_error | \w*exception\w* | invalid_argument | out_of_range | bad_\w+ | (?:stable_|partial_|is_)?sort | generate(?:_n)?
    | iota | accumulate | transform | shuffle | for_each | to_string | sto\w+ | filesystem | regex | any | optional | variant | bind
    | setw | setprecision | setfill | fixed | scientific | hex | boolalpha | getline | exit | terminate | abort | rand | srand
    | time | clock | getenv | system | malloc | calloc | free | this_thread | locale | type_index | execution | format
    )\b"""
)
_UNQUALIFIED = re.compile(
    r"(?<![\w:.])(?:cout|cerr|endl|vector\s*<|string\s+\w|ifstream|ofstream|stringstream|unordered_map\s*<)"
)


def is_host_only(code: str, uses: frozenset[str]) -> bool:
    """Say whether code with these identifiers cannot be meant for the device.

    ``code`` is the text without comments; ``uses`` its identifiers with what macros among them stand for.
    """
    if "<<<" in code or _STANDARD.search(code) or _UNQUALIFIED.search(code):
        return True
    for word in uses:
        if _API.fullmatch(word):
            if word not in _NAMESPACES or re.search(rf"\b{word}\s*::", code):
                return True
    return False
