// The bytes of messages: what messages.h, which is generated, writes requests and reads answers with.
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace gpuemu {

// Bytes that the caller has.
struct Bytes {
    const void* data = nullptr;
    size_t size = 0;
    Bytes() = default;
    Bytes(const void* from, size_t count) : data(from), size(count) {}
    Bytes(const std::string& text) : data(text.data()), size(text.size()) {}
    Bytes(const char* text) : data(text), size(strlen(text)) {}
};

// The line of the language that calls a framework, 0 if there is none (frameworks.h).
struct SourceLine {
    uint64_t number = 0;
    std::string path;
    static SourceLine current();
};

// The return addresses on the stack, each as a file and an offset in it: a position-independent program is loaded
// anywhere. A node of a graph has those of the call that added it, which `Use` puts in place of the current ones.
struct CallStack {
    std::vector<std::pair<uint64_t, std::string>> frames;
    SourceLine line;
    static CallStack current();
    // The same of other addresses in code.
    static CallStack of(const std::vector<uint64_t>& addresses);
    static CallStack here();
    struct Use {
        explicit Use(const CallStack& stack);
        ~Use();
        const CallStack* before;
    };
};

// A request: an operation (u32), the number of the bytes that follow (u32), and these bytes.
struct Writer {
    std::vector<char> bytes;
    explicit Writer(uint32_t operation) : bytes(8) { memcpy(&bytes[0], &operation, 4); }
    void raw(const void* from, size_t size) {
        bytes.insert(bytes.end(), static_cast<const char*>(from), static_cast<const char*>(from) + size);
    }
};

inline void put(Writer& to, uint64_t value) { to.raw(&value, 8); }
inline void put(Writer& to, int64_t value) { to.raw(&value, 8); }
inline void put(Writer& to, double value) { to.raw(&value, 8); }
inline void put(Writer& to, bool value) { put(to, uint64_t(value)); }
inline void put(Writer& to, const void* address) { put(to, reinterpret_cast<uint64_t>(address)); }
inline void put(Writer& to, dim3 size) {
    for (unsigned value : {size.x, size.y, size.z}) put(to, uint64_t(value));
}
inline void put(Writer& to, Bytes bytes) {
    put(to, uint64_t(bytes.size));
    to.raw(bytes.data, bytes.size);
}
inline void put(Writer& to, const CallStack& stack) {
    put(to, stack.line.number);
    put(to, Bytes(stack.line.path));
    for (const auto& [offset, file] : stack.frames) {
        put(to, offset);
        put(to, Bytes(file));
    }
}
template <class Enum>
std::enable_if_t<std::is_enum<Enum>::value> put(Writer& to, Enum value) {
    put(to, uint64_t(value));
}
template <class T>
void put(Writer& to, const std::vector<T>& values) {
    put(to, uint64_t(values.size()));
    for (const T& value : values) put(to, value);
}

// An answer, which gpuemu has written for the declaration that it is read by.
struct Reader {
    const char* at;
    void raw(void* to, size_t size) {
        memcpy(to, at, size);
        at += size;
    }
};

inline void get(Reader& from, uint64_t& value) { from.raw(&value, 8); }
inline void get(Reader& from, void*& address) { from.raw(&address, 8); }
inline void get(Reader& from, const void*& address) { from.raw(&address, 8); }
inline uint64_t next(Reader& from) {
    uint64_t value;
    get(from, value);
    return value;
}
inline void get(Reader& from, bool& value) { value = next(from) != 0; }
inline void get(Reader& from, dim3& size) {
    for (unsigned* part : {&size.x, &size.y, &size.z}) *part = unsigned(next(from));
}
inline void get(Reader& from, std::string& bytes) {
    bytes.resize(next(from));
    from.raw(&bytes[0], bytes.size());
}
template <class Enum>
std::enable_if_t<std::is_enum<Enum>::value> get(Reader& from, Enum& value) {
    value = Enum(next(from));
}
template <class T>
void get(Reader& from, std::vector<T>& values) {
    values.resize(next(from));
    for (T& value : values) get(from, value);
}

namespace message {
struct Unanswered;
}

// Send a request; return the bytes of the answer.
std::vector<char> exchange(std::vector<char>& request);
// Send a request that has no answer.
void post(std::vector<char>& request);

template <class Request>
typename Request::Answer call(const Request& request) {
    Writer to(Request::OPERATION);
    put(to, request);
    std::vector<char> body = exchange(to.bytes);
    Reader from{body.data()};
    typename Request::Answer answer;
    get(from, answer);
    return answer;
}

template <class Request>
void post(const Request& request) {
    static_assert(std::is_same<typename Request::Answer, message::Unanswered>::value, "its answer would not be read");
    Writer to(Request::OPERATION);
    put(to, request);
    post(to.bytes);
}

}  // namespace gpuemu
