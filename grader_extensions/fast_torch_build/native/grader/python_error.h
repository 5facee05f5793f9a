// Python's errors as C++ exceptions, and C++ exceptions as Python's errors, in the order in which torch and pybind11 look at them.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <stdexcept>
#include <torch/csrc/python_headers.h>
#include <type_traits>
#include <utility>

// Handles of Python objects and the GIL, with pybind11's names and layout: torch's exported casters take and give them.
// Hidden as pybind11's own namespace is: two modules in one process must not share these.
namespace pybind11 __attribute__((visibility("hidden"))) {

using ssize_t = Py_ssize_t;
using size_t = std::size_t;

class handle {
   public:
    handle() = default;
    handle(PyObject* ptr) : m_ptr(ptr) {}
    PyObject* ptr() const { return m_ptr; }
    PyObject*& ptr() { return m_ptr; }
    const handle& inc_ref() const& {
        Py_XINCREF(m_ptr);
        return *this;
    }
    const handle& dec_ref() const& {
        Py_XDECREF(m_ptr);
        return *this;
    }
    explicit operator bool() const { return m_ptr != nullptr; }
    bool is_none() const { return m_ptr == Py_None; }
    bool is(handle other) const { return m_ptr == other.m_ptr; }

   protected:
    PyObject* m_ptr = nullptr;
};

/// A handle that owns its reference.
class object : public handle {
   public:
    struct borrowed_t {};
    struct stolen_t {};
    object() = default;
    object(handle other, borrowed_t) : handle(other) { inc_ref(); }
    object(handle other, stolen_t) : handle(other) {}
    object(const object& other) : handle(other) { inc_ref(); }
    object(object&& other) noexcept : handle(other) { other.m_ptr = nullptr; }
    ~object() { dec_ref(); }
    object& operator=(const object& other) { return *this = object(other); }
    object& operator=(object&& other) noexcept {
        // The old reference goes last: what it frees may run Python.
        handle old(m_ptr);
        m_ptr = std::exchange(other.m_ptr, nullptr);
        old.dec_ref();
        return *this;
    }
    handle release() { return std::exchange(m_ptr, nullptr); }
};

template <class T>
T reinterpret_borrow(handle source) { return {source, object::borrowed_t{}}; }
template <class T>
T reinterpret_steal(handle source) { return {source, object::stolen_t{}}; }

class none : public object {
   public:
    none() : object(Py_None, borrowed_t{}) {}
};

class gil_scoped_release {
   public:
    gil_scoped_release() : state(PyEval_SaveThread()) {}
    gil_scoped_release(const gil_scoped_release&) = delete;
    gil_scoped_release& operator=(const gil_scoped_release&) = delete;
    ~gil_scoped_release() { PyEval_RestoreThread(state); }

   private:
    PyThreadState* state;
};

class gil_scoped_acquire {
   public:
    gil_scoped_acquire() : state(PyGILState_Ensure()) {}
    gil_scoped_acquire(const gil_scoped_acquire&) = delete;
    gil_scoped_acquire& operator=(const gil_scoped_acquire&) = delete;
    ~gil_scoped_acquire() { PyGILState_Release(state); }

   private:
    PyGILState_STATE state;
};

}  // namespace pybind11

namespace py = pybind11;

// Text that grows, for signatures and messages: std::string, inlined wherever it is touched, would be most of what binding costs to compile.
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

// Hidden, unlike pybind11's: types are distinguished by name anyway, and no other library's functions may replace these.

/// C++ names of Python's builtin exceptions.
class builtin_exception : public std::runtime_error {
   public:
    using std::runtime_error::runtime_error;
    virtual void set_error() const = 0;
};
#define GRADER_BUILTIN_EXCEPTION(name, type)                                            \
    class name : public builtin_exception {                                             \
       public:                                                                          \
        using builtin_exception::builtin_exception;                                     \
        name() : name("") {}                                                            \
        void set_error() const override { PyErr_SetString(type, what()); }              \
    };
GRADER_BUILTIN_EXCEPTIONS(GRADER_BUILTIN_EXCEPTION)

namespace detail {

/// The head of pybind11's struct of this name, as far as it is read here: torch's libraries throw theirs through our frames.
struct error_fetch_and_normalize {
    PyObject *type = nullptr, *value = nullptr, *trace = nullptr;
    text message;
};
GRADER_COLD error_fetch_and_normalize* fetch_error() {
    auto* error = new error_fetch_and_normalize;
    PyErr_Fetch(&error->type, &error->value, &error->trace);
    if (error->type == nullptr) {
        delete error;
        throw std::runtime_error("Internal error: pybind11::error_already_set called while Python error indicator not set.");
    }
    PyErr_NormalizeException(&error->type, &error->value, &error->trace);
    add(error->message, reinterpret_cast<PyTypeObject*>(error->type)->tp_name);
    add(error->message, ": ");
    if (error->value == nullptr || !add(error->message, PyObject_Str, error->value)) add(error->message, "<MESSAGE UNAVAILABLE>");
    return error;
}
GRADER_COLD void drop_error(error_fetch_and_normalize* error) {
    gil_scoped_acquire gil;
    Py_XDECREF(error->type);
    Py_XDECREF(error->value);
    Py_XDECREF(error->trace);
    delete error;
}

}  // namespace detail

/// Python's current error, taken out of the interpreter; layout as pybind11's.
class error_already_set : public std::exception {
   public:
    __attribute__((cold, noinline, optimize("O0"))) error_already_set() : error(detail::fetch_error(), detail::drop_error) {}
    const char* what() const noexcept override { return error->message.c_str(); }
    __attribute__((cold, noinline, optimize("O0"))) void restore() const {
        Py_XINCREF(error->type);
        Py_XINCREF(error->value);
        Py_XINCREF(error->trace);
        PyErr_Restore(error->type, error->value, error->trace);
    }

   private:
    std::shared_ptr<detail::error_fetch_and_normalize> error;
};

/// Out of line, so that each place that can fail costs one call.
[[noreturn]] GRADER_COLD void throw_python_error() { throw error_already_set(); }
/// Own a new reference; throw Python's error where there is none.
inline object owned(PyObject* made) {
    if (made == nullptr) throw_python_error();
    return reinterpret_steal<object>(made);
}

}  // namespace pybind11
