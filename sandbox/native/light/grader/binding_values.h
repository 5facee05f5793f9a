// Conversion of numbers, texts, bool and None; what is accepted is in `binding_rules.h`.
#pragma once

#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include "binding_caster.h"

// torch's casters and exceptions, which build on the protocol, and its pybind11's names of numbers.
#include <grader/variable.h>

namespace pybind11 __attribute__((visibility("hidden"))) {
namespace detail {

inline bool load_integer(handle source, bool convert, long low, long high, long& value);
inline bool load_integer(handle source, bool convert, unsigned long low, unsigned long high, unsigned long& value);
inline bool load_float(handle source, bool convert, double& value);
inline bool load_bool(handle source, bool convert, bool& value);
inline bool load_text(handle source, std::string_view& text);
inline handle text_to_python(std::string_view text);

template <class T>
constexpr bool is_number = std::is_arithmetic_v<T> && !std::is_same_v<T, bool> && !std::is_same_v<T, char> && !std::is_same_v<T, wchar_t> &&
                           !std::is_same_v<T, char16_t> && !std::is_same_v<T, char32_t> && sizeof(T) <= sizeof(long);

template <class T>
struct type_caster<T, std::enable_if_t<is_number<T> && std::is_integral_v<T>>> {
    using Wide = std::conditional_t<std::is_signed_v<T>, long, unsigned long>;
    bool load(handle source, bool convert) {
        Wide wide;
        if (!load_integer(source, convert, Wide(std::numeric_limits<T>::min()), Wide(std::numeric_limits<T>::max()), wide)) return false;
        value = static_cast<T>(wide);
        return true;
    }
    static handle cast(T source, return_value_policy, handle) {
        if constexpr (std::is_signed_v<T>) return PyLong_FromLong(source);
        else return PyLong_FromUnsignedLong(source);
    }
    PYBIND11_TYPE_CASTER(T, _(GRADER_INTEGER_NAME));
};

template <class T>
struct type_caster<T, std::enable_if_t<is_number<T> && std::is_floating_point_v<T>>> {
    bool load(handle source, bool convert) {
        double wide;
        if (!load_float(source, convert, wide)) return false;
        value = static_cast<T>(wide);
        return true;
    }
    static handle cast(T source, return_value_policy, handle) { return PyFloat_FromDouble(source); }
    PYBIND11_TYPE_CASTER(T, _(GRADER_FLOAT_NAME));
};

template <>
struct type_caster<bool> {
    bool load(handle source, bool convert) { return load_bool(source, convert, value); }
    static handle cast(bool source, return_value_policy, handle) { return handle(source ? Py_True : Py_False).inc_ref(); }
    PYBIND11_TYPE_CASTER(bool, _("bool"));
};

template <class T>
struct text_caster {
    bool load(handle source, bool) {
        std::string_view text;
        if (!load_text(source, text)) return false;
        value = T(text);
        return true;
    }
    static handle cast(const T& source, return_value_policy, handle) { return text_to_python(source); }
    PYBIND11_TYPE_CASTER(T, _("str"));
};
template <>
struct type_caster<std::string> : text_caster<std::string> {};
template <>
struct type_caster<std::string_view> : text_caster<std::string_view> {};

/// `const char*`, which None may stand for; one char is not carried.
template <>
struct type_caster<char> {
    static constexpr descr name = _("str");
    template <class T>
    using cast_op_type = std::enable_if_t<std::is_pointer_v<std::remove_reference_t<T>>, const char*>;
    bool load(handle source, bool convert) {
        if (source.is_none()) return convert;
        text.emplace();
        std::string_view view;
        if (!load_text(source, view)) return false;
        *text = view;
        return true;
    }
    static handle cast(const char* source, return_value_policy, handle) {
        if (source == nullptr) return handle(Py_None).inc_ref();
        return text_to_python(source);
    }
    operator const char*() { return text ? text->c_str() : nullptr; }

   private:
    std::optional<std::string> text;
};

/// What only ever is None.
template <class T>
struct none_caster {
    static handle cast(T, return_value_policy, handle) { return handle(Py_None).inc_ref(); }
    static constexpr descr name = _("None");
};
struct void_type {};
template <>
struct type_caster<void_type> : none_caster<void_type> {};
template <>
struct type_caster<std::nullptr_t> : none_caster<std::nullptr_t> {};
template <>
struct type_caster<std::nullopt_t> : none_caster<std::nullopt_t> {};
template <>
struct type_caster<none> : none_caster<const none&> {};

template <>
struct type_caster<object> {
    bool load(handle source, bool) {
        value = reinterpret_borrow<object>(source);
        return true;
    }
    static handle cast(const object& source, return_value_policy, handle) { return source.inc_ref(); }
    PYBIND11_TYPE_CASTER(object, _("object"));
};

}  // namespace detail
}  // namespace pybind11
