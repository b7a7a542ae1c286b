// Capture of streams to graphs.
#include <algorithm>

#include "graph_nodes.h"

namespace gpuemu {
namespace {

// Whether all that was captured comes before what would be captured next on the stream of the origin.
bool has_joined(const Graph& graph) {
    std::set<Node*> before;
    std::vector<Node*> open = graph.origin->last;
    while (!open.empty()) {
        Node* node = open.back();
        open.pop_back();
        if (before.insert(node).second) open.insert(open.end(), node->needs.begin(), node->needs.end());
    }
    return before.size() == graph.nodes.size();
}

// The error of a capture that makes no graph. The program gets it from the call.
cudaError_t lost(cudaError_t error, const char* reason) {
    call(message::CaptureLost{reason});
    return result(error);
}

}  // namespace

bool refused_in_capture(cudaStream_t stream) {
    if (!capturing(stream)) return false;
    handle(stream)->capture->invalid = true;
    return true;
}

bool captured(cudaStream_t stream, cudaGraphNodeType type, Work work) {
    if (!capturing(stream)) return false;
    Node* node = handle(stream)->capture->add(type, std::move(work), handle(stream)->last);
    handle(stream)->last = {node};
    return true;
}

bool event_captured(cudaStream_t stream, cudaEvent_t event) {
    bool is = capturing(stream);
    handle(event)->capture = is ? handle(stream)->capture : nullptr;
    handle(event)->last = is ? handle(stream)->last : std::vector<Node*>{};
    return is;
}

bool wait_captured(cudaStream_t stream, cudaEvent_t event) {
    if (!handle(event)->capture || reinterpret_cast<uint64_t>(stream) <= 2) return false;
    Handle* own = handle(stream);
    if (own->capture != handle(event)->capture) own->last.clear();
    own->capture = handle(event)->capture;
    for (Node* one : handle(event)->last)
        if (std::find(own->last.begin(), own->last.end(), one) == own->last.end()) own->last.push_back(one);
    return true;
}

}  // namespace gpuemu

using namespace gpuemu;

// ---- Capture

API cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
    if (reinterpret_cast<uint64_t>(stream) <= 2) return result(cudaErrorStreamCaptureUnsupported);
    if (handle(stream)->capture) return result(cudaErrorIllegalState);
    handle(stream)->capture = new Graph;
    handle(stream)->capture->origin = handle(stream);
    handle(stream)->last.clear();
    return cudaSuccess;
}
API cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
    if (reinterpret_cast<uint64_t>(stream) <= 2 || !handle(stream)->capture) return result(cudaErrorIllegalState);
    Graph* made = handle(stream)->capture;
    *graph = nullptr;
    if (made->origin != handle(stream)) return result(cudaErrorStreamCaptureUnmatched);
    bool joined = has_joined(*made);
    end_captures(made);
    if (made->invalid) return lost(cudaErrorStreamCaptureInvalidated, "a call in between is not allowed in a capture");
    if (!joined) return lost(cudaErrorStreamCaptureUnjoined, "another stream has not been joined to this one");
    *graph = reinterpret_cast<cudaGraph_t>(made);
    return cudaSuccess;
}
API cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
    bool is = capturing(stream);
    *status = is ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
    if (is && handle(stream)->capture->invalid) *status = cudaStreamCaptureStatusInvalidated;
    return cudaSuccess;
}
API cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus* status, unsigned long long* id,
                                         cudaGraph_t* graph, const cudaGraphNode_t** needs,
                                         const cudaGraphEdgeData** edges, size_t* count) {
    cudaStreamIsCapturing(stream, status);
    if (*status == cudaStreamCaptureStatusNone) return cudaSuccess;
    if (id) *id = reinterpret_cast<uint64_t>(handle(stream)->capture);
    if (graph) *graph = reinterpret_cast<cudaGraph_t>(handle(stream)->capture);
    if (needs) *needs = reinterpret_cast<const cudaGraphNode_t*>(handle(stream)->last.data());
    if (edges) *edges = nullptr;
    if (count) *count = handle(stream)->last.size();
    return cudaSuccess;
}
API cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
    static thread_local cudaStreamCaptureMode current = cudaStreamCaptureModeGlobal;
    std::swap(*mode, current);
    return cudaSuccess;
}
