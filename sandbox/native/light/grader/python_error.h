// Python's errors as C++ exceptions, and C++ exceptions as Python's errors, in the order in which torch and pybind11 look at them.
#pragma once

#include <exception>
#include <memory>
#include <stdexcept>

#include "python_text.h"

namespace pybind11 __attribute__((visibility("hidden"))) {

// Hidden, unlike pybind11's: types are distinguished by name anyway, and no other library's functions may replace these.

/// C++ names of Python's builtin exceptions.
class builtin_exception : public std::runtime_error {
   public:
    using std::runtime_error::runtime_error;
    virtual void set_error() const = 0;
};
#define GRADER_BUILTIN_EXCEPTION(name, type)                                            \
    class name : public builtin_exception {      \
       public:                                                                          \
        using builtin_exception::builtin_exception;                                     \
        name() : name("") {}                                                            \
        void set_error() const override { PyErr_SetString(type, what()); }              \
    };
GRADER_BUILTIN_EXCEPTION(stop_iteration, PyExc_StopIteration)
GRADER_BUILTIN_EXCEPTION(index_error, PyExc_IndexError)
GRADER_BUILTIN_EXCEPTION(key_error, PyExc_KeyError)
GRADER_BUILTIN_EXCEPTION(value_error, PyExc_ValueError)
GRADER_BUILTIN_EXCEPTION(type_error, PyExc_TypeError)
GRADER_BUILTIN_EXCEPTION(buffer_error, PyExc_BufferError)
GRADER_BUILTIN_EXCEPTION(import_error, PyExc_ImportError)
GRADER_BUILTIN_EXCEPTION(attribute_error, PyExc_AttributeError)
GRADER_BUILTIN_EXCEPTION(cast_error, PyExc_RuntimeError)
#undef GRADER_BUILTIN_EXCEPTION

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

}  // namespace pybind11
