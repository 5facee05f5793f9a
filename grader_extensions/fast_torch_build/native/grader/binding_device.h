// The same names for the pass that compiles kernels for the device: nothing runs here, but every template that is bound must be made there too.
#pragma once

#include <cstddef>
#include <exception>
#include <stdexcept>
#include <type_traits>

struct _object;
using PyObject = _object;

namespace pybind11 {

struct handle {
    handle() = default;
    handle(PyObject* ptr);
    PyObject* ptr() const;
    bool is_none() const;
    explicit operator bool() const;
};
struct object : handle {
    object();
    object(const object& other);
    ~object();
    object& operator=(const object& other);
};
struct none : object {};
struct gil_scoped_release {
    gil_scoped_release();
    ~gil_scoped_release();
};
struct gil_scoped_acquire {
    gil_scoped_acquire();
    ~gil_scoped_acquire();
};

struct builtin_exception : std::runtime_error {
    using std::runtime_error::runtime_error;
};
#define GRADER_BUILTIN_EXCEPTION(name, type)     \
    struct name : builtin_exception {            \
        using builtin_exception::builtin_exception; \
        name();                                  \
    };
GRADER_BUILTIN_EXCEPTIONS(GRADER_BUILTIN_EXCEPTION)
struct error_already_set : std::exception {
    error_already_set();
    void restore() const;
};

struct arg {
    constexpr explicit arg(const char* = nullptr) {}
    template <class T>
    arg operator=(T&&) const { return *this; }
};
struct arg_v : arg {
    template <class T>
    arg_v(const char*, T&&, const char* = nullptr);
};
inline namespace literals {
constexpr arg operator""_a(const char* name, size_t) { return arg(name); }
}  // namespace literals

struct attribute {
    template <class T>
    void operator=(T&&) {}
};
class module_ : public object {
   public:
    attribute attr(const char* name) const;
    attribute doc() const;
    template <class Callable, class... Extra>
    module_& def(const char*, Callable&&, const Extra&...) { return *this; }
};
using module = module_;

}  // namespace pybind11

namespace py = pybind11;

#define GRADER_MODULE(name, variable)                                                       \
    static void PYBIND11_CONCAT(pybind11_init_, name)(::pybind11::module_&);                \
    extern "C" PyObject* PyInit_##name() {                                                  \
        return reinterpret_cast<PyObject*>(PYBIND11_CONCAT(pybind11_init_, name));          \
    }                                                                                       \
    void PYBIND11_CONCAT(pybind11_init_, name)([[maybe_unused]] ::pybind11::module_ & variable)
