// Handles of Python objects and the GIL, with pybind11's names and layout: torch's exported casters take and give them.
#pragma once

#include <torch/csrc/python_headers.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

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
T reinterpret_borrow(handle source) {
    return {source, object::borrowed_t{}};
}
template <class T>
T reinterpret_steal(handle source) {
    return {source, object::stolen_t{}};
}

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

// Every value that is carried is copied or moved, so that no policy can make a difference: see `refuse_pointer`.
enum class return_value_policy : uint8_t {
    automatic = 0,
    automatic_reference,
    take_ownership,
    copy,
    move,
    reference,
    reference_internal
};

}  // namespace pybind11

namespace py = pybind11;
