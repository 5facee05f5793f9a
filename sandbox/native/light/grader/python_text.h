// Text that grows, for signatures and messages: std::string, inlined wherever it is touched, would be most of what binding costs to compile.
#pragma once

#include <cstdlib>
#include <cstring>
#include <new>

#include "python_object.h"

// What runs once, or when something fails: not worth the compiler's time, and never compiled into its callers.
#define GRADER_COLD __attribute__((cold, noinline, optimize("O0"))) inline

namespace pybind11 __attribute__((visibility("hidden"))) {
namespace detail {

struct text {
    char* data = nullptr;
    size_t size = 0;

    text() = default;
    text(const text&) = delete;
    ~text() { std::free(data); }
    const char* c_str() const { return data == nullptr ? "" : data; }
    char* release() { return std::exchange(data, nullptr); }
};

GRADER_COLD void add(text& to, const char* from, size_t count) {
    auto* data = static_cast<char*>(std::realloc(to.data, to.size + count + 1));
    if (data == nullptr) throw std::bad_alloc();
    std::memcpy(data + to.size, from, count);
    to.data = data;
    to.size += count;
    data[to.size] = 0;
}
GRADER_COLD void add(text& to, const char* from) { add(to, from, std::strlen(from)); }
GRADER_COLD void add(text& to, size_t number) {
    if (number >= 10) add(to, number / 10);
    const char digit = static_cast<char>('0' + number % 10);
    add(to, &digit, 1);
}
/// Add what Python says of an object, by PyObject_Repr or PyObject_Str; false: it raised an error, which is cleared.
GRADER_COLD bool add(text& to, PyObject* (*conversion)(PyObject*), PyObject* object) {
    PyObject* said = conversion(object);
    Py_ssize_t size = 0;
    const char* data = said == nullptr ? nullptr : PyUnicode_AsUTF8AndSize(said, &size);
    if (data != nullptr) add(to, data, static_cast<size_t>(size));
    else PyErr_Clear();
    Py_XDECREF(said);
    return data != nullptr;
}

}  // namespace detail
}  // namespace pybind11
