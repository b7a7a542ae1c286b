// CUDA's runtime API (version 13) for programs that `gpuemu run` starts.
//
// Device memory is a file that this process and gpuemu both map; this process maps it at one fixed address, so that a
// device pointer is an address of its own. Every allocation, copy and launch is a message to gpuemu (messages.h).
#include "core.h"

#include <execinfo.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <climits>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <unordered_map>

namespace gpuemu {
namespace {

constexpr int UNAVAILABLE = 98;  // exit status: gpuemu is gone, or did not start this program
constexpr const char* GONE = "the connection to `gpuemu run` has ended";

int connection = -1, socket_of_run = -1;
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
    uint64_t message;
    WaitScope scope;
    uint64_t number;
};
Synchronized last_synchronized{};  // `mutex` guards it

bool has_ended(WaitScope scope, uint64_t number) {
    std::lock_guard<std::recursive_mutex> guard(mutex);
    const Synchronized& last = last_synchronized;
    if (!last.message || last.message != messages) return false;
    return last.scope == WaitScope::DEVICE || (last.scope == scope && last.number == number);
}

// A program must not outlive the command that started it.
__attribute__((constructor)) void end_with_parent() {
    if (getenv("GPUEMU_RUNTIME")) prctl(PR_SET_PDEATHSIG, SIGKILL);
}

void receive(void* target, size_t size) {
    for (char* at = static_cast<char*>(target); size;) {
        ssize_t count = read(connection, at, size);
        if (count <= 0) give_up(GONE);
        at += count;
        size -= count;
    }
}

void transmit(const char* at, size_t size) {
    while (size) {
        ssize_t count = send(connection, at, size, MSG_NOSIGNAL);
        if (count <= 0) give_up(GONE);
        at += count;
        size -= count;
    }
}

// In device memory, where nothing is allocated.
SharedWords& shared_words() { return *reinterpret_cast<SharedWords*>(device_memory); }

// Map device memory at its address, and set `opened` to the socket; -1 if it is not open in this process, as in one that
// a program has started without its open files.
void map_memory(int* opened) {
    const char* settings = getenv("GPUEMU_RUNTIME");
    if (!settings) give_up("this program was built by `gpuemu nvcc`: start it with `gpuemu run`");
    int file, gpuemu;
    unsigned long long base, size;
    if (sscanf(settings, "%d:%d:%llx:%llx:%d", opened, &file, &base, &size, &gpuemu) != 5)
        give_up("GPUEMU_RUNTIME is wrong");
    std::string path = "/proc/" + std::to_string(gpuemu) + "/fd/" + std::to_string(file);
    struct stat of_run, own;
    if (stat(path.c_str(), &of_run) == 0 &&
        (fstat(file, &own) != 0 || own.st_dev != of_run.st_dev || own.st_ino != of_run.st_ino)) {
        *opened = -1;
        file = open(path.c_str(), O_RDWR | O_CLOEXEC);
    }
    void* wanted = reinterpret_cast<void*>(base);
    void* mapped = mmap(wanted, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED_NOREPLACE | MAP_NORESERVE, file, 0);
    if (mapped != wanted) give_up("device memory cannot be mapped");
    device_memory = static_cast<char*>(mapped);
    device_bytes = size;
}

[[noreturn]] void refuse() {
    shared_words().refused = 1;
    give_up("CUDA calls of a second process, or of a forked one, are not supported: they are not carried out");
}

// Processes that were forked share one connection: only one of them may use it, until it has ended.
void claim() {
    uint64_t own = uint64_t(getpid()), other = 0;
    while (!shared_words().owner.compare_exchange_strong(other, own))
        if (other == own) break;
        else if (kill(pid_t(other), 0) == 0) refuse();
}

// It is never destroyed: destructors of the program's objects may make calls after those of this library.
const std::string& executable() {
    static const std::string& path = *[] {
        char name[PATH_MAX];
        ssize_t size = readlink("/proc/self/exe", name, sizeof name);
        return new std::string(name, size < 0 ? 0 : size);
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

// Put a number that changes when an object is loaded or unloaded.
int count_objects(dl_phdr_info* object, size_t, void* data) {
    *static_cast<unsigned long long*>(data) = object->dlpi_adds + object->dlpi_subs;
    return 1;
}

// As `has_connection`, without a system call; maybe false where that is true.
bool owns_connection() { return in_owner && *in_owner; }

void checked() {
    if (unchecked_launch) call(message::ErrorsChecked{});
    unchecked_launch = false;
}

}  // namespace

void connect_once() {
    if (connection >= 0) {
        // CUDA does not work in a process that was forked after its first call either.
        if (getpid() != owner) refuse();
        return;
    }
    if (!device_memory) map_memory(&socket_of_run);
    if (socket_of_run < 0) refuse();
    connection = socket_of_run;
    owner = getpid();
    void* page = mmap(nullptr, sizeof *in_owner, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    // An older kernel than Linux 4.14 lacks it: then launches that repeat are messages.
    if (page != MAP_FAILED && madvise(page, sizeof *in_owner, MADV_WIPEONFORK) == 0) {
        in_owner = static_cast<int*>(page);
        *in_owner = 1;
    }
    claim();
}

CallStack CallStack::here() { return replayed ? *replayed : current(); }

CallStack CallStack::current() {
    void* frames[32];
    int count = backtrace(frames, 32);
    std::vector<uint64_t> addresses;
    // A return address is behind the call.
    for (int i = 0; i < count; i++) addresses.push_back(reinterpret_cast<uint64_t>(frames[i]) - 1);
    CallStack stack = of(addresses);
    stack.line = SourceLine::current();
    return stack;
}

CallStack CallStack::of(const std::vector<uint64_t>& addresses) {
    // The same calls are made again and again, and all objects are asked for an address that is not known.
    static std::mutex& guard = *new std::mutex;
    static auto& places = *new std::unordered_map<uint64_t, std::pair<uint64_t, std::string>>;
    static unsigned long long objects = 0;
    std::lock_guard<std::mutex> lock(guard);
    unsigned long long current = 0;
    dl_iterate_phdr(count_objects, &current);
    if (current != objects) places.clear();
    objects = current;
    CallStack stack, unknown;
    for (uint64_t address : addresses)
        if (!places.count(address)) unknown.frames.push_back({address, ""});
    std::vector<uint64_t> asked;
    for (const auto& frame : unknown.frames) asked.push_back(frame.first);
    // dladdr would also search for a symbol, which takes longer than all the rest of a message.
    if (!asked.empty()) dl_iterate_phdr(note_file, &unknown);
    for (size_t i = 0; i < asked.size(); i++) places[asked[i]] = unknown.frames[i];
    for (uint64_t address : addresses) stack.frames.push_back(places[address]);
    return stack;
}

CallStack::Use::Use(const CallStack& stack) : before(replayed) { replayed = &stack; }
CallStack::Use::~Use() { replayed = before; }

namespace {

// One read is enough for most answers.
constexpr size_t MOST_AT_ONCE = 4096;

std::vector<char> next_answer() {
    char begin[MOST_AT_ONCE];
    ssize_t count = read(connection, begin, sizeof begin);
    if (count <= 0) give_up(GONE);
    uint32_t size;
    if (size_t(count) < sizeof size) {
        receive(begin + count, sizeof size - count);
        count = sizeof size;
    }
    memcpy(&size, begin, sizeof size);
    std::vector<char> answer(begin + sizeof size, begin + count);
    answer.resize(size);
    receive(answer.data() + count - sizeof size, size - (count - sizeof size));
    return answer;
}

void send_request(std::vector<char>& request) {
    connect_once();
    messages++;
    uint32_t size = uint32_t(request.size() - 8);
    memcpy(&request[4], &size, 4);
    transmit(request.data(), request.size());
}

}  // namespace

std::vector<char> exchange(std::vector<char>& request) {
    std::lock_guard<std::recursive_mutex> guard(mutex);
    send_request(request);
    return next_answer();
}

void post(std::vector<char>& request) {
    std::lock_guard<std::recursive_mutex> guard(mutex);
    send_request(request);
}

bool has_connection() { return connection >= 0 && getpid() == owner; }

uint64_t memory_contents() {
    return owns_connection() ? shared_words().contents.load() : 0;
}

void count_repeat() { shared_words().repeats++; }

void count_library_call() {
    connect_once();
    shared_words().library_calls++;
}

size_t total_memory() {
    std::lock_guard<std::recursive_mutex> guard(mutex);
    if (!device_memory) map_memory(&socket_of_run);
    return shared_words().total;
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
    call(message::Unsupported{what});
    return result(cudaErrorNotSupported);
}

void launch_failed(cudaError_t error) { last_error = launch_error = error; }

void launch_rejected(cudaError_t error) {
    last_error = error;
    unchecked_launch = true;
}

namespace {

template <class Request>
cudaError_t wait(const Request& request) {
    if (!owns_connection() || !has_ended(request.scope, request.number)) {
        uint64_t before = messages;
        auto answer = call(request);
        if (!answer.ended) return cudaErrorNotReady;
        end_watch();
        watch(answer.watched);
        std::lock_guard<std::recursive_mutex> guard(mutex);
        // Another thread's message in between has a higher number.
        last_synchronized = {before + 1, request.scope, request.number};
    }
    cudaError_t error = launch_error;
    launch_error = cudaSuccess;
    return error;
}

}  // namespace

cudaError_t synchronize(WaitScope scope, uint64_t number) { return wait(message::Synchronize{scope, number}); }
cudaError_t query(WaitScope scope, uint64_t number) { return wait(message::Query{scope, number}); }

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
