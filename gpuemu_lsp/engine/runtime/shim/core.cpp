// CUDA's runtime API (version 13) for programs that `gpuemu run` starts.
//
// Device memory is a file that this process and gpuemu both map; this process maps it at one fixed address, so that a
// device pointer is an address of its own. Every allocation, copy and launch is a message to gpuemu, which answers
// with 64-bit words. A message is an operation (u32), the number of its bytes (u32), and these bytes.
#include "core.h"

#include <execinfo.h>
#include <link.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <climits>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>

namespace gpuemu {
namespace {

constexpr int UNAVAILABLE = 98;  // exit status: gpuemu is gone, or did not start this program

int connection = -1;
pid_t owner = 0;
int* in_owner = nullptr;  // 1 in the process that has made the connection; the system clears it in a forked one
char* device_memory = nullptr;
uint64_t device_bytes = 0;
std::recursive_mutex mutex;
thread_local const CallStack* replayed = nullptr;  // while a graph is launched
thread_local cudaError_t last_error = cudaSuccess;
cudaError_t launch_error = cudaSuccess;  // of a launch since the last synchronisation
std::atomic<uint64_t> messages = 0;      // that have been sent
bool unchecked_launch = false;           // gpuemu knows of a failed launch for which the program has not checked

[[noreturn]] void give_up(const char* reason) {
    fprintf(stderr, "gpuemu: %s\n", reason);
    _exit(UNAVAILABLE);
}

// A synchronisation and the number of its message. Until the next message there is nothing that it would wait for.
struct Synchronized {
    uint64_t number;
    Scope scope;
    uint64_t which;
};
Synchronized last_synchronized{};  // `mutex` guards it

bool has_ended(Scope scope, uint64_t which) {
    std::lock_guard<std::recursive_mutex> guard(mutex);
    const Synchronized& last = last_synchronized;
    if (!last.number || last.number != messages) return false;
    return last.scope == WHOLE_DEVICE || (last.scope == scope && last.which == which);
}

// A program must not outlive the command that started it.
__attribute__((constructor)) void end_with_parent() {
    if (getenv("GPUEMU_RUNTIME")) prctl(PR_SET_PDEATHSIG, SIGKILL);
}

void receive(void* target, size_t size) {
    for (char* at = static_cast<char*>(target); size;) {
        ssize_t count = read(connection, at, size);
        if (count <= 0) give_up("the connection to `gpuemu run` has ended");
        at += count;
        size -= count;
    }
}

void transmit(const char* at, size_t size) {
    while (size) {
        ssize_t count = send(connection, at, size, MSG_NOSIGNAL);
        if (count <= 0) give_up("the connection to `gpuemu run` has ended");
        at += count;
        size -= count;
    }
}

// The first words of device memory, where nothing is allocated: who has the connection, and whether others wanted it;
// and, for launches that are proved to do nothing, a number that gpuemu changes with the contents of memory, 0 if
// launches are not repeated, how many this process has not made, and the calls of libraries' functions.
struct Header {
    std::atomic<pid_t> owner;
    std::atomic<int32_t> refused;
    std::atomic<uint64_t> generation;
    std::atomic<uint64_t> repeats;
    std::atomic<uint64_t> library_calls;
};

[[noreturn]] void refuse() {
    reinterpret_cast<Header*>(device_memory)->refused = 1;
    give_up("CUDA calls of a second process, or of a forked one, are not supported: they are not carried out");
}

// Processes that were forked share one connection: only one of them may use it, until it has ended.
void claim() {
    Header* header = reinterpret_cast<Header*>(device_memory);
    pid_t other = 0;
    while (!header->owner.compare_exchange_strong(other, getpid()))
        if (other == getpid()) break;
        else if (kill(other, 0) == 0) refuse();
}

const std::string& executable() {
    static const std::string path = [] {
        char name[PATH_MAX];
        ssize_t size = readlink("/proc/self/exe", name, sizeof name);
        return std::string(name, size < 0 ? 0 : size);
    }();
    return path;
}

// Put the places in the file of an object for the addresses that are in it.
int note_file(dl_phdr_info* object, size_t, void* data) {
    for (auto& [address, file] : static_cast<CallStack*>(data)->frames)
        for (int i = 0; file.empty() && i < object->dlpi_phnum; i++) {
            const auto& segment = object->dlpi_phdr[i];
            uint64_t offset = address - object->dlpi_addr;
            if (segment.p_type != PT_LOAD || offset - segment.p_vaddr >= segment.p_memsz) continue;
            address = offset;
            file = *object->dlpi_name ? object->dlpi_name : executable();
        }
    return 0;
}

// As `has_connection`, without a system call; maybe false where that is true.
bool owns_connection() { return in_owner && *in_owner; }

void checked() {
    if (unchecked_launch) Message(CHECKED).call();
    unchecked_launch = false;
}

}  // namespace

void connect_once() {
    if (connection >= 0) {
        // CUDA does not work in a process that was forked after its first call either.
        if (getpid() != owner) refuse();
        return;
    }
    const char* settings = getenv("GPUEMU_RUNTIME");
    if (!settings) give_up("this program was built by `gpuemu nvcc`: start it with `gpuemu run`");
    int file;
    unsigned long long base, size;
    if (sscanf(settings, "%d:%d:%llx:%llx", &connection, &file, &base, &size) != 4) give_up("GPUEMU_RUNTIME is wrong");
    void* wanted = reinterpret_cast<void*>(base);
    void* mapped = mmap(wanted, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED_NOREPLACE | MAP_NORESERVE, file, 0);
    if (mapped != wanted) give_up("device memory cannot be mapped");
    device_memory = static_cast<char*>(mapped);
    device_bytes = size;
    owner = getpid();
    void* page = mmap(nullptr, sizeof *in_owner, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    // An older kernel than Linux 4.14 lacks it: then launches that repeat are messages.
    if (page != MAP_FAILED && madvise(page, sizeof *in_owner, MADV_WIPEONFORK) == 0) {
        in_owner = static_cast<int*>(page);
        *in_owner = 1;
    }
    claim();
}

Message::Message(Operation operation) : bytes_(8) { memcpy(&bytes_[0], &operation, 4); }

Message& Message::text(const char* value) { return data(value, strlen(value)); }

CallStack CallStack::here() { return replayed ? *replayed : current(); }

CallStack CallStack::current() {
    void* frames[32];
    int count = backtrace(frames, 32);
    std::vector<uint64_t> addresses;
    // A return address is behind the call.
    for (int i = 0; i < count; i++) addresses.push_back(reinterpret_cast<uint64_t>(frames[i]) - 1);
    return of(addresses);
}

CallStack CallStack::of(const std::vector<uint64_t>& addresses) {
    CallStack stack;
    for (uint64_t address : addresses) stack.frames.push_back({address, ""});
    // dladdr would also search for a symbol, which takes longer than all the rest of a message.
    dl_iterate_phdr(note_file, &stack);
    return stack;
}

CallStack::Use::Use(const CallStack& stack) : before(replayed) { replayed = &stack; }
CallStack::Use::~Use() { replayed = before; }

Message& Message::call_stack() {
    CallStack stack = CallStack::here();
    word(uint64_t(stack.frames.size()));
    for (const auto& [offset, file] : stack.frames) word(offset).text(file.c_str());
    return *this;
}

std::vector<uint64_t> Message::call() {
    std::lock_guard<std::recursive_mutex> guard(mutex);
    connect_once();
    messages++;
    uint32_t size = bytes_.size() - 8, count;
    memcpy(&bytes_[4], &size, 4);
    transmit(bytes_.data(), bytes_.size());
    receive(&count, 4);
    std::vector<uint64_t> words(count);
    if (count) receive(words.data(), 8 * count);
    return words;
}

Message& Message::raw(const void* from, size_t size) {
    bytes_.insert(bytes_.end(), static_cast<const char*>(from), static_cast<const char*>(from) + size);
    return *this;
}

bool has_connection() { return connection >= 0 && getpid() == owner; }

uint64_t memory_contents() {
    return owns_connection() ? reinterpret_cast<Header*>(device_memory)->generation.load() : 0;
}

void count_repeat() { reinterpret_cast<Header*>(device_memory)->repeats++; }

void count_library_call() {
    connect_once();
    reinterpret_cast<Header*>(device_memory)->library_calls++;
}

bool on_device(const void* address) {
    const char* at = static_cast<const char*>(address);
    return device_memory && at >= device_memory && at < device_memory + device_bytes;
}

cudaError_t result(cudaError_t error) {
    if (error != cudaSuccess) last_error = error;
    return error;
}

cudaError_t result(uint64_t error) { return result(static_cast<cudaError_t>(error)); }

cudaError_t unsupported(const char* what) {
    Message(UNSUPPORTED).text(what).call_stack().call();
    return result(cudaErrorNotSupported);
}

void launch_failed(cudaError_t error) {
    last_error = error;
    if (error == cudaErrorLaunchFailure) launch_error = error;
    else unchecked_launch = true;
}

namespace {

cudaError_t synchronize(Operation operation, Scope scope, uint64_t which) {
    if (!owns_connection() || !has_ended(scope, which)) {
        uint64_t before = messages;
        auto words = Message(operation).word(uint64_t(scope)).word(which).call();
        if (!words[0]) return cudaErrorNotReady;
        end_watch();
        watch(words, 1);
        std::lock_guard<std::recursive_mutex> guard(mutex);
        last_synchronized = {before + 1, scope, which};  // another thread's message in between has a higher number
    }
    cudaError_t error = launch_error;
    launch_error = cudaSuccess;
    return error;
}

}  // namespace

cudaError_t synchronize(Scope scope, uint64_t which) { return synchronize(SYNCHRONIZE, scope, which); }
cudaError_t query(Scope scope, uint64_t which) { return synchronize(QUERY, scope, which); }

}  // namespace gpuemu

API cudaError_t cudaGetLastError() {
    cudaError_t error = gpuemu::last_error;
    gpuemu::last_error = cudaSuccess;
    gpuemu::checked();
    return error;
}
API cudaError_t cudaPeekAtLastError() {
    gpuemu::checked();
    return gpuemu::last_error;
}
