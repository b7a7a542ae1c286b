// The part of this library for the device of a framework: operators that it executes itself.
#include "frameworks.h"

#include "core.h"

using namespace gpuemu;

namespace {

std::vector<message::MemoryRows> rows_of(const gpuemuRows* rows, size_t count) {
    std::vector<message::MemoryRows> result;
    for (size_t i = 0; i < count; i++)
        result.push_back({rows[i].address, rows[i].pitch, rows[i].width, rows[i].rows});
    return result;
}

}  // namespace

API cudaError_t gpuemuExecuted(const gpuemuOperator* operation) {
    connect_once();
    end_watch();
    auto answer = call(message::ExecuteOperator{
        operation->name, stream_number(operation->stream), rows_of(operation->reads, operation->read_count),
        rows_of(operation->writes, operation->write_count),
        std::vector<uint64_t>(operation->sizes, operation->sizes + operation->result_count)});
    for (size_t i = 0; i < operation->result_count; i++)
        operation->results[i] = reinterpret_cast<void*>(answer.results[i]);
    watch(answer.watched);
    return result(answer.error);
}

API void gpuemuFree(void* pointer, cudaStream_t stream) {
    end_watch();
    // A reference is dropped somewhere below the line: the calls in between do not matter, and cost more than the message.
    CallStack calls{{}, SourceLine::current()};
    if (!calls.line.number) calls = CallStack::here();
    post(message::DropMemory{pointer, stream_number(stream), calls});
}

API void gpuemuUnsupported(const char* what) { call(message::Unsupported{what}); }

API void gpuemuSkipLaunches(int skip) {
    connect_once();
    call(message::SkipLaunches{skip != 0, false});
}

API void gpuemuFollowLaunches(int follow) {
    connect_once();
    call(message::SkipLaunches{follow != 0, follow != 0});
}
