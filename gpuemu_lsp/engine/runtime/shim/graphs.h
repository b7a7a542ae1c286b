// Graphs of work, explicit and captured from streams.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core.h"

namespace gpuemu {

struct Node;
struct Graph;

using Work = std::function<cudaError_t(cudaStream_t)>;

// A stream or an event. While a stream is captured, `capture` is the graph, and `last` the nodes that its next one
// depends on; of an event, those that a stream which waits for it depends on.
struct Handle {
    uint64_t number;
    bool recorded = false;
    double time = 0;
    uint64_t flags = 0;
    Graph* capture = nullptr;
    std::vector<Node*> last;
};

inline Handle* handle(cudaStream_t stream) { return reinterpret_cast<Handle*>(stream); }
inline Handle* handle(cudaEvent_t event) { return reinterpret_cast<Handle*>(event); }
uint64_t new_number();

inline bool capturing(cudaStream_t stream) { return reinterpret_cast<uint64_t>(stream) > 2 && handle(stream)->capture; }
// Add work to the graph that a stream is captured to, and return true; false if it is not captured. `type` is the
// node's.
bool captured(cudaStream_t stream, cudaGraphNodeType type, Work work);
bool event_captured(cudaStream_t stream, cudaEvent_t event);
bool wait_captured(cudaStream_t stream, cudaEvent_t event);
// Whether a stream is captured, in which a call that asks for its state is an error that ends the capture.
bool refused_in_capture(cudaStream_t stream);
bool refused_in_capture();  // the same of all streams
// End the capture of every stream to a graph.
void end_captures(Graph* graph);

// A launch whose arguments are copied, so that it can be made later; an error if there is no such kernel.
cudaError_t prepared_launch(const void* host, dim3 grid, dim3 block, void** arguments, size_t shared, Work* work);
// The parameters of a launch, whose arguments it keeps; false if the work is none.
bool launch_of(const Work& work, cudaKernelNodeParams* parameters);
cudaError_t copy_rows(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width, size_t rows,
                      cudaStream_t stream, bool asynchronous, cudaMemcpyKind kind = cudaMemcpyDefault);
Work volume_copy(const cudaMemcpy3DParms& parameters);
Work fill(const cudaMemsetParams& parameters);
// Allocates memory that the program has freed since the last launch of a graph.
Work allocation_again(void* pointer);

}  // namespace gpuemu
