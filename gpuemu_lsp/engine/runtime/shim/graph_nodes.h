// What graphs consist of.
#pragma once

#include <algorithm>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "graphs.h"

namespace gpuemu {

struct Node {
    cudaGraphNodeType type;
    Work work;
    std::vector<Node*> needs;
    CallStack site;
    Graph* graph = nullptr;
    Graph* child = nullptr;
    bool enabled = true;
    size_t place = 0;  // in its graph; the same in copies of it
};

struct Graph {
    std::vector<std::unique_ptr<Node>> nodes;
    Handle* origin = nullptr;  // the stream where its capture began
    bool invalid = false;      // a call that a capture does not allow has ended it

    Node* add(cudaGraphNodeType type, Work work, const std::vector<Node*>& needs) {
        nodes.emplace_back(new Node{type, std::move(work), needs, CallStack::here()});
        nodes.back()->graph = this;
        nodes.back()->place = nodes.size() - 1;
        return nodes.back().get();
    }

    Graph* copy() const {
        Graph* made = new Graph;
        for (const auto& one : nodes) {
            made->nodes.emplace_back(new Node(*one));
            made->nodes.back()->graph = made;
        }
        for (auto& one : made->nodes)
            for (Node*& need : one->needs) need = made->nodes[need->place].get();
        return made;
    }

    // The nodes, each after those that it needs.
    std::vector<Node*> ordered() const {
        std::vector<Node*> result;
        std::set<Node*> done;
        while (result.size() < nodes.size()) {
            size_t before = result.size();
            for (const auto& one : nodes)
                if (!done.count(one.get()) &&
                    std::all_of(one->needs.begin(), one->needs.end(), [&](Node* need) { return done.count(need); })) {
                    result.push_back(one.get());
                    done.insert(one.get());
                }
            if (result.size() == before) break;  // a circle
        }
        return result;
    }
};

}  // namespace gpuemu
