// Accesses of the host to memory that it shares with the device, before it has waited for the work that uses it.
#include <sys/mman.h>
#include <ucontext.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <mutex>

#include "core.h"

namespace gpuemu {
namespace {

constexpr uint64_t PAGE = 4096;

struct Range {
    uint64_t low, high;
};

std::mutex guard;
std::vector<Range> watched;
struct sigaction before;

bool contains(const Range& range, uint64_t address) { return range.low <= address && address < range.high; }

#if defined(__x86_64__)
uint64_t counter(void* context) { return static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_RIP]; }
bool writes(void* context) { return static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_ERR] & 2; }
#elif defined(__aarch64__)
uint64_t counter(void* context) { return static_cast<ucontext_t*>(context)->uc_mcontext.pc; }
bool writes(void*) { return true; }  // not given here: such accesses are not reported
#endif

// Whether an access is one of this library, as in a copy while another thread's work is watched: the first function
// below the signal handler is then ours, or below one of the C library that it has called.
bool is_own(const CallStack& stack) {
    const std::string own = CallStack::of({reinterpret_cast<uint64_t>(is_own)}).frames[0].second;
    size_t at = 0;
    while (at < stack.frames.size() && stack.frames[at].second == own) at++;
    while (at < stack.frames.size() && stack.frames[at].second.find("/libc.so") != std::string::npos) at++;
    return at < stack.frames.size() && stack.frames[at].second == own;
}

// Everything is accessible again before gpuemu is asked, and stays so until the next work.
void on_fault(int number, siginfo_t* info, void* context) {
    uint64_t address = reinterpret_cast<uint64_t>(info->si_addr);
    bool ours = false;
    int saved = errno;
    {
        std::lock_guard<std::mutex> lock(guard);
        for (const Range& range : watched) ours = ours || contains(range, address);
    }
    if (ours) {
        end_watch();
        if (!has_connection()) return;
        CallStack stack = CallStack::current();
        if (is_own(stack)) return void(errno = saved);
        // Others are return addresses, after a call; this one is that of the access.
        const auto access = CallStack::of({counter(context)}).frames[0];
        for (auto& [offset, file] : stack.frames)
            if (offset + 1 == access.first && file == access.second) offset++;
        CallStack::Use use(stack);
        call(message::AccessByHost{info->si_addr, writes(context)});
        errno = saved;
        return;
    }
    if (before.sa_flags & SA_SIGINFO && before.sa_sigaction) return before.sa_sigaction(number, info, context);
    if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) return before.sa_handler(number);
    // Not an access that we watch: it happens again, and ends the program.
    signal(SIGSEGV, SIG_DFL);
}

// The program may have set a handler of its own since the last time: it gets the faults that are not ours.
void install() {
    struct sigaction current {};
    sigaction(SIGSEGV, nullptr, &current);
    if (current.sa_flags & SA_SIGINFO && current.sa_sigaction == on_fault) return;
    before = current;
    struct sigaction action {};
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO | SA_NODEFER;
    sigaction(SIGSEGV, &action, nullptr);
}

}  // namespace

void watch(const std::vector<message::WatchedPages>& pages) {
    if (pages.empty()) return;
    std::lock_guard<std::mutex> lock(guard);
    install();
    for (const auto& part : pages) {
        int allowed = part.readable ? PROT_READ : PROT_NONE;
        uint64_t address = reinterpret_cast<uint64_t>(part.address);
        Range range{address / PAGE * PAGE, (address + part.size + PAGE - 1) / PAGE * PAGE};
        if (!mprotect(reinterpret_cast<void*>(range.low), range.high - range.low, allowed)) watched.push_back(range);
    }
}

void end_watch() {
    std::lock_guard<std::mutex> lock(guard);
    for (const Range& range : watched)
        mprotect(reinterpret_cast<void*>(range.low), range.high - range.low, PROT_READ | PROT_WRITE);
    watched.clear();
}

}  // namespace gpuemu
