// The part of pybind11 that torch extensions use, for a fraction of its compile time.  What is not carried does not compile; what is, behaves alike.
#pragma once

#include <ATen/core/Tensor.h>
#include <cstdint>

// What both passes of a compiler have: `py::overload_cast`, policies, the names of exceptions, and the module's macro.
namespace pybind11 {
namespace detail {
template <class... Arguments>
struct overload_cast_impl {
    template <class Result>
    constexpr auto operator()(Result (*function)(Arguments...)) const noexcept {
        return function;
    }
};
}  // namespace detail
template <class... Arguments>
static constexpr detail::overload_cast_impl<Arguments...> overload_cast{};

// Every value that is carried is copied or moved, so that no policy can make a difference.
enum class return_value_policy : uint8_t { automatic, automatic_reference, take_ownership, copy, move, reference, reference_internal };
}  // namespace pybind11

// Each of pybind11's builtin exceptions, and Python's of this name, which only the pass for the host knows.
#define GRADER_BUILTIN_EXCEPTIONS(EXCEPTION)           \
    EXCEPTION(stop_iteration, PyExc_StopIteration)     \
    EXCEPTION(index_error, PyExc_IndexError)           \
    EXCEPTION(key_error, PyExc_KeyError)               \
    EXCEPTION(value_error, PyExc_ValueError)           \
    EXCEPTION(type_error, PyExc_TypeError)             \
    EXCEPTION(buffer_error, PyExc_BufferError)         \
    EXCEPTION(import_error, PyExc_ImportError)         \
    EXCEPTION(attribute_error, PyExc_AttributeError)   \
    EXCEPTION(cast_error, PyExc_RuntimeError)

#define PYBIND11_CONCAT(first, second) first##second
// One step more, so that a name that is a macro, as TORCH_EXTENSION_NAME is, counts as what it stands for.
#define PYBIND11_MODULE(name, variable) GRADER_MODULE(name, variable)

#ifdef __CUDA_ARCH__
#include "binding_device.h"
#else
#include "binding_containers.h"
#include "binding_module.h"
#endif
