// `py::overload_cast<Arguments...>(&function)`: picks one of a function's overloads.  For both passes of a compiler.
#pragma once

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
}  // namespace pybind11
