// pybind11's caster protocol: how one type is converted between C++ and Python, and what a signature calls it.
#pragma once

#include "python_error.h"

namespace pybind11 __attribute__((visibility("hidden"))) {
namespace detail {

/// How a signature names a type. In the text, `%` stands for the next part, and `@a@b@` for a where it is an argument and b where it is a result.
struct descr {
    const char* text;
    const descr* parts;
};
constexpr descr _(const char* text) { return {text, nullptr}; }
constexpr descr const_name(const char* text) { return {text, nullptr}; }

/// Left undefined: a type that is not carried here does not compile, and torch's own headers are used.
template <class T, class = void>
struct type_caster;

template <class T>
using bare_t = std::remove_cv_t<std::remove_pointer_t<std::remove_cv_t<std::remove_extent_t<std::remove_reference_t<T>>>>>;
template <class T>
using make_caster = type_caster<bare_t<T>>;

/// What a caster that holds a value gives for a parameter of type T.
template <class T>
using movable_cast_op_type = std::conditional_t<std::is_pointer_v<std::remove_reference_t<T>>, bare_t<T>*,
                                                std::conditional_t<std::is_rvalue_reference_v<T>, bare_t<T>&&, bare_t<T>&>>;
template <class T>
typename make_caster<T>::template cast_op_type<T&&> cast_op(make_caster<T>&& caster) {
    using Result = typename make_caster<T>::template cast_op_type<T&&>;
    return std::move(caster).operator Result();
}

#define PYBIND11_TYPE_CASTER(type, py_name)                    \
   protected:                                                  \
    type value;                                                \
                                                               \
   public:                                                     \
    static constexpr ::pybind11::detail::descr name = py_name; \
    operator type*() { return &value; }                        \
    operator type&() { return value; }                         \
    operator type&&()&& { return std::move(value); }           \
    template <class T_>                                        \
    using cast_op_type = ::pybind11::detail::movable_cast_op_type<T_>

/// The object for a value. Pointers are refused: pybind11 would own or copy what they point to, by its policies.
template <class T>
handle to_python(T&& value) {
    using Bare = bare_t<T>;
    using Whole = std::remove_cv_t<std::remove_reference_t<T>>;
    static_assert(std::is_same_v<Bare, char> || !(std::is_pointer_v<Whole> || std::is_array_v<Whole>), "pointers are not carried");
    return type_caster<Bare>::cast(std::forward<T>(value), return_value_policy::automatic, handle());
}

}  // namespace detail
}  // namespace pybind11
