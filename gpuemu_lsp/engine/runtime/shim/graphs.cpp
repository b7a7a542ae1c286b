// Graphs: nodes in the order of their dependencies, each on a stream that says what it waits for.
#include "graph_nodes.h"

#include <cstring>
#include <map>

namespace gpuemu {

namespace {

Graph* graph_of(cudaGraph_t graph) { return reinterpret_cast<Graph*>(graph); }
Graph* graph_of(cudaGraphExec_t graph) { return reinterpret_cast<Graph*>(graph); }
Node* node_of(cudaGraphNode_t node) { return reinterpret_cast<Node*>(node); }

uint64_t record(cudaStream_t stream) {
    uint64_t event = new_number();
    call(message::RecordEvent{event, stream_number(stream)});
    return event;
}

void wait(cudaStream_t stream, uint64_t event) {
    call(message::WaitForEvent{stream_number(stream), event});
}

cudaError_t run(const Graph& graph, cudaStream_t stream) {
    // A graph of branches has streams of its own, so that the order is the one of its edges alone.
    // A node continues the stream of a node that it needs, if nothing else has continued that one.
    std::map<Node*, cudaStream_t> streams;
    std::map<cudaStream_t, Node*> ends;
    std::map<Node*, uint64_t> ends_of;  // events
    std::vector<std::unique_ptr<Handle>> added;
    bool first = true;
    uint64_t start = record(stream);
    std::vector<Node*> nodes = graph.ordered();
    // All streams are there before the first node runs: in a program without streams no access is kept for later work.
    for (Node* node : nodes) {
        cudaStream_t own = nullptr;
        bool found = false;
        for (Node* need : node->needs)
            if (ends[streams[need]] == need) own = streams[need], found = true;
        if (!found && first) own = stream, found = true;
        if (!found) {
            added.emplace_back(new Handle{new_number()});
            call(message::CreateStream{added.back()->number, cudaStreamNonBlocking});
            own = reinterpret_cast<cudaStream_t>(added.back().get());
            wait(own, start);
        }
        first = false;
        streams[node] = own;
        ends[own] = node;
    }
    for (Node* node : nodes) {
        cudaStream_t own = streams[node];
        for (Node* need : node->needs)
            if (streams[need] != own) wait(own, ends_of[need]);
        CallStack::Use use(node->site);
        cudaError_t error = cudaSuccess;
        if (node->enabled && node->child) error = run(*node->child, own);
        if (node->enabled && node->work) error = node->work(own);
        if (error != cudaSuccess) return error;
        ends_of[node] = record(own);
    }
    for (auto& one : added) wait(stream, record(reinterpret_cast<cudaStream_t>(one.get())));
    return cudaSuccess;
}

cudaError_t add(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* needs, size_t count,
                cudaGraphNodeType type, Work work) {
    if (!node || !graph || (count && !needs)) return result(cudaErrorInvalidValue);
    std::vector<Node*> before;
    for (size_t i = 0; i < count; i++) before.push_back(node_of(needs[i]));
    *node = reinterpret_cast<cudaGraphNode_t>(graph_of(graph)->add(type, std::move(work), before));
    return cudaSuccess;
}

cudaError_t set_kernel(Node* node, const cudaKernelNodeParams* p) {
    if (p->extra) return unsupported("graph kernel nodes with `extra`");
    return result(prepared_launch(p->func, p->gridDim, p->blockDim, p->kernelParams, p->sharedMemBytes, &node->work));
}

Node* counterpart(cudaGraphExec_t graph, cudaGraphNode_t node) {
    Graph* own = graph_of(graph);
    size_t place = node_of(node)->place;
    return place < own->nodes.size() && own->nodes[place]->type == node_of(node)->type ? own->nodes[place].get() : nullptr;
}

Work plain_copy(void* to, const void* from, size_t size) {
    return [=](cudaStream_t stream) { return copy(to, from, size, stream, true); };
}

}  // namespace

}  // namespace gpuemu

using namespace gpuemu;

// ---- Graphs and their nodes

API cudaError_t cudaGraphCreate(cudaGraph_t* graph, unsigned) {
    *graph = reinterpret_cast<cudaGraph_t>(new Graph);
    return cudaSuccess;
}
API cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
    delete graph_of(graph);
    return cudaSuccess;
}
API cudaError_t cudaGraphClone(cudaGraph_t* made, cudaGraph_t graph) {
    *made = reinterpret_cast<cudaGraph_t>(graph_of(graph)->copy());
    return cudaSuccess;
}
API cudaError_t cudaGraphNodeFindInClone(cudaGraphNode_t* found, cudaGraphNode_t node, cudaGraph_t clone) {
    size_t place = node_of(node)->place;
    if (place >= graph_of(clone)->nodes.size()) return result(cudaErrorInvalidValue);
    *found = reinterpret_cast<cudaGraphNode_t>(graph_of(clone)->nodes[place].get());
    return cudaSuccess;
}
API cudaError_t cudaGraphAddEmptyNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* needs,
                                      size_t count) {
    return add(node, graph, needs, count, cudaGraphNodeTypeEmpty, nullptr);
}
API cudaError_t cudaGraphAddKernelNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* needs,
                                       size_t count, const cudaKernelNodeParams* p) {
    cudaError_t error = add(node, graph, needs, count, cudaGraphNodeTypeKernel, nullptr);
    return error != cudaSuccess ? error : set_kernel(node_of(*node), p);
}
API cudaError_t cudaGraphKernelNodeSetParams(cudaGraphNode_t node, const cudaKernelNodeParams* p) {
    return set_kernel(node_of(node), p);
}
API cudaError_t cudaGraphKernelNodeGetParams(cudaGraphNode_t node, cudaKernelNodeParams* p) {
    return launch_of(node_of(node)->work, p) ? cudaSuccess : result(cudaErrorInvalidValue);
}
API cudaError_t cudaGraphAddMemcpyNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* needs,
                                       size_t count, const cudaMemcpy3DParms* p) {
    return add(node, graph, needs, count, cudaGraphNodeTypeMemcpy, volume_copy(*p));
}
API cudaError_t cudaGraphAddMemcpyNode1D(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* needs,
                                         size_t count, void* to, const void* from, size_t size, cudaMemcpyKind) {
    return add(node, graph, needs, count, cudaGraphNodeTypeMemcpy, plain_copy(to, from, size));
}
API cudaError_t cudaGraphAddMemsetNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* needs,
                                       size_t count, const cudaMemsetParams* p) {
    return add(node, graph, needs, count, cudaGraphNodeTypeMemset, fill(*p));
}
API cudaError_t cudaGraphAddHostNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* needs,
                                     size_t count, const cudaHostNodeParams* p) {
    cudaHostNodeParams own = *p;
    return add(node, graph, needs, count, cudaGraphNodeTypeHost,
               [own](cudaStream_t stream) { return cudaLaunchHostFunc(stream, own.fn, own.userData); });
}
API cudaError_t cudaGraphAddChildGraphNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* needs,
                                           size_t count, cudaGraph_t child) {
    cudaError_t error = add(node, graph, needs, count, cudaGraphNodeTypeGraph, nullptr);
    if (error == cudaSuccess) node_of(*node)->child = graph_of(child)->copy();
    return error;
}
API cudaError_t cudaGraphAddEventRecordNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* needs,
                                            size_t count, cudaEvent_t event) {
    return add(node, graph, needs, count, cudaGraphNodeTypeEventRecord,
               [event](cudaStream_t stream) { return cudaEventRecord(event, stream); });
}
API cudaError_t cudaGraphAddEventWaitNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* needs,
                                          size_t count, cudaEvent_t event) {
    return add(node, graph, needs, count, cudaGraphNodeTypeWaitEvent,
               [event](cudaStream_t stream) { return cudaStreamWaitEvent(stream, event, 0); });
}
// The memory is allocated when the node is added: its address is the same in every launch.
API cudaError_t cudaGraphAddMemAllocNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* needs,
                                         size_t count, cudaMemAllocNodeParams* p) {
    if (cudaError_t error = cudaMalloc(&p->dptr, p->bytesize)) return error;
    return add(node, graph, needs, count, cudaGraphNodeTypeMemAlloc, allocation_again(p->dptr));
}
API cudaError_t cudaGraphAddMemFreeNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* needs,
                                        size_t count, void*) {
    return add(node, graph, needs, count, cudaGraphNodeTypeMemFree, nullptr);
}
API cudaError_t cudaGraphAddNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* needs,
                                 const cudaGraphEdgeData*, size_t count, cudaGraphNodeParams* p) {
    switch (p->type) {
        case cudaGraphNodeTypeKernel: {
            cudaKernelNodeParams kernel{};
            kernel.func = p->kernel.func;
            kernel.gridDim = p->kernel.gridDim;
            kernel.blockDim = p->kernel.blockDim;
            kernel.sharedMemBytes = p->kernel.sharedMemBytes;
            kernel.kernelParams = p->kernel.kernelParams;
            kernel.extra = p->kernel.extra;
            return cudaGraphAddKernelNode(node, graph, needs, count, &kernel);
        }
        case cudaGraphNodeTypeMemcpy: return cudaGraphAddMemcpyNode(node, graph, needs, count, &p->memcpy.copyParams);
        case cudaGraphNodeTypeMemset: {
            const auto& m = p->memset;
            cudaMemsetParams own{m.dst, m.pitch, m.value, m.elementSize, m.width, m.height};
            return cudaGraphAddMemsetNode(node, graph, needs, count, &own);
        }
        case cudaGraphNodeTypeHost: {
            cudaHostNodeParams own{p->host.fn, p->host.userData};
            return cudaGraphAddHostNode(node, graph, needs, count, &own);
        }
        case cudaGraphNodeTypeGraph: return cudaGraphAddChildGraphNode(node, graph, needs, count, p->graph.graph);
        case cudaGraphNodeTypeEmpty: return cudaGraphAddEmptyNode(node, graph, needs, count);
        case cudaGraphNodeTypeEventRecord:
            return cudaGraphAddEventRecordNode(node, graph, needs, count, p->eventRecord.event);
        case cudaGraphNodeTypeWaitEvent: return cudaGraphAddEventWaitNode(node, graph, needs, count, p->eventWait.event);
        case cudaGraphNodeTypeMemAlloc: {
            if (cudaError_t error = cudaMalloc(&p->alloc.dptr, p->alloc.bytesize)) return error;
            return add(node, graph, needs, count, p->type, allocation_again(p->alloc.dptr));
        }
        case cudaGraphNodeTypeMemFree: return cudaGraphAddMemFreeNode(node, graph, needs, count, p->free.dptr);
        default: return unsupported("cudaGraphAddNode with a node of this type");
    }
}
API cudaError_t cudaGraphAddDependencies(cudaGraph_t, const cudaGraphNode_t* from, const cudaGraphNode_t* to,
                                         const cudaGraphEdgeData*, size_t count) {
    for (size_t i = 0; i < count; i++) node_of(to[i])->needs.push_back(node_of(from[i]));
    return cudaSuccess;
}
API cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count) {
    size_t all = graph_of(graph)->nodes.size();
    for (size_t i = 0; nodes && i < all && i < *count; i++)
        nodes[i] = reinterpret_cast<cudaGraphNode_t>(graph_of(graph)->nodes[i].get());
    if (!nodes || *count > all) *count = all;
    return cudaSuccess;
}
API cudaError_t cudaGraphGetRootNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count) {
    size_t found = 0;
    for (auto& one : graph_of(graph)->nodes)
        if (one->needs.empty()) {
            if (nodes && found < *count) nodes[found] = reinterpret_cast<cudaGraphNode_t>(one.get());
            found++;
        }
    if (!nodes || *count > found) *count = found;
    return cudaSuccess;
}
API cudaError_t cudaGraphNodeGetType(cudaGraphNode_t node, cudaGraphNodeType* type) {
    *type = node_of(node)->type;
    return cudaSuccess;
}

// ---- Launches of graphs

API cudaError_t cudaGraphInstantiate(cudaGraphExec_t* made, cudaGraph_t graph, unsigned long long) {
    if (!graph || graph_of(graph)->ordered().size() < graph_of(graph)->nodes.size())
        return result(cudaErrorInvalidValue);
    *made = reinterpret_cast<cudaGraphExec_t>(graph_of(graph)->copy());
    return cudaSuccess;
}
API cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* made, cudaGraph_t graph, unsigned long long flags) {
    return cudaGraphInstantiate(made, graph, flags);
}
API cudaError_t cudaGraphInstantiateWithParams(cudaGraphExec_t* made, cudaGraph_t graph, cudaGraphInstantiateParams* p) {
    p->result_out = cudaGraphInstantiateSuccess;
    return cudaGraphInstantiate(made, graph, p->flags);
}
API cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) {
    delete graph_of(graph);
    return cudaSuccess;
}
API cudaError_t cudaGraphUpload(cudaGraphExec_t, cudaStream_t) { return cudaSuccess; }
API cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream) {
    if (!graph) return result(cudaErrorInvalidValue);
    Graph* own = graph_of(graph)->copy();
    if (captured(stream, cudaGraphNodeTypeGraph, [own](cudaStream_t s) { return run(*own, s); })) return cudaSuccess;
    cudaError_t error = run(*own, stream);
    delete own;
    return result(error);
}
API cudaError_t cudaGraphExecUpdate(cudaGraphExec_t graph, cudaGraph_t from, cudaGraphExecUpdateResultInfo* info) {
    Graph *own = graph_of(graph), *other = graph_of(from);
    bool same = own->nodes.size() == other->nodes.size();
    for (size_t i = 0; same && i < own->nodes.size(); i++) same = own->nodes[i]->type == other->nodes[i]->type;
    if (info) memset(info, 0, sizeof *info);
    if (info) info->result = same ? cudaGraphExecUpdateSuccess : cudaGraphExecUpdateErrorTopologyChanged;
    if (!same) return result(cudaErrorGraphExecUpdateFailure);
    Graph* copy = other->copy();
    own->nodes.swap(copy->nodes);
    for (auto& one : own->nodes) one->graph = own;
    delete copy;
    return cudaSuccess;
}
API cudaError_t cudaGraphExecKernelNodeSetParams(cudaGraphExec_t graph, cudaGraphNode_t node,
                                                 const cudaKernelNodeParams* p) {
    Node* own = counterpart(graph, node);
    return own ? set_kernel(own, p) : result(cudaErrorInvalidValue);
}
API cudaError_t cudaGraphExecMemcpyNodeSetParams1D(cudaGraphExec_t graph, cudaGraphNode_t node, void* to,
                                                   const void* from, size_t size, cudaMemcpyKind) {
    Node* own = counterpart(graph, node);
    if (own) own->work = plain_copy(to, from, size);
    return own ? cudaSuccess : result(cudaErrorInvalidValue);
}
API cudaError_t cudaGraphNodeSetEnabled(cudaGraphExec_t graph, cudaGraphNode_t node, unsigned enabled) {
    Node* own = counterpart(graph, node);
    if (own) own->enabled = enabled != 0;
    return own ? cudaSuccess : result(cudaErrorInvalidValue);
}
API cudaError_t cudaDeviceGraphMemTrim(int) { return cudaSuccess; }
