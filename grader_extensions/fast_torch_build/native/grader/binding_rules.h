// Which Python objects a number, a bool, a text and a sequence accept: pybind11's rules, once for all types of a kind.
#pragma once

#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include "binding_caster.h"

// Conversion of numbers, texts, bool and None; what is accepted is in `binding_rules.h`.
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

/// What a number's `__int__` or `__float__` gives, where the conversion proper has failed and converting is allowed; empty: nothing.
inline object converted(handle source, bool convert, PyObject* (*conversion)(PyObject*)) {
    PyErr_Clear();
    if (!convert || PyNumber_Check(source.ptr()) == 0) return object();
    auto number = reinterpret_steal<object>(conversion(source.ptr()));
    PyErr_Clear();
    return number;
}

/// A float is no integer, not even when converting; what isn't in the range is none either.
inline bool is_integer(handle source, bool convert) {
    if (!source || PyFloat_Check(source.ptr())) return false;
    return convert || PyLong_Check(source.ptr()) || PyIndex_Check(source.ptr());
}
inline bool load_integer(handle source, bool convert, long low, long high, long& value) {
    if (!is_integer(source, convert)) return false;
    value = PyLong_AsLong(source.ptr());
    if (value == -1 && PyErr_Occurred() != nullptr) return load_integer(converted(source, convert, PyNumber_Long), false, low, high, value);
    return low <= value && value <= high;
}
inline bool load_integer(handle source, bool convert, unsigned long low, unsigned long high, unsigned long& value) {
    if (!is_integer(source, convert)) return false;
    value = PyLong_AsUnsignedLong(source.ptr());
    if (value == static_cast<unsigned long>(-1) && PyErr_Occurred() != nullptr)
        return load_integer(converted(source, convert, PyNumber_Long), false, low, high, value);
    return value <= high;
}

inline bool load_float(handle source, bool convert, double& value) {
    if (!source || !(convert || PyFloat_Check(source.ptr()))) return false;
    value = PyFloat_AsDouble(source.ptr());
    if (value == -1 && PyErr_Occurred() != nullptr) return load_float(converted(source, convert, PyNumber_Float), false, value);
    return true;
}

inline bool load_bool(handle source, bool convert, bool& value) {
    PyObject* object = source.ptr();
    if (object == Py_True || object == Py_False) {
        value = object == Py_True;
        return true;
    }
    PyTypeObject* type = Py_TYPE(object);
    // numpy's bool counts as one without converting; its name had an underscore once.
    if (!convert && std::strcmp(type->tp_name, "numpy.bool") != 0 && std::strcmp(type->tp_name, "numpy.bool_") != 0) return false;
    int truth = -1;
    if (source.is_none()) truth = 0;
    else if (type->tp_as_number != nullptr && type->tp_as_number->nb_bool != nullptr) truth = type->tp_as_number->nb_bool(object);
    if (truth != 0 && truth != 1) {
        PyErr_Clear();
        return false;
    }
    value = truth != 0;
    return true;
}

/// A str, or bytes as they are.
inline bool load_text(handle source, std::string_view& text) {
    PyObject* object = source.ptr();
    const char* data = nullptr;
    Py_ssize_t size = 0;
    if (PyUnicode_Check(object)) {
        data = PyUnicode_AsUTF8AndSize(object, &size);
        if (data == nullptr) PyErr_Clear();
    } else if (PyBytes_Check(object)) {
        data = PyBytes_AS_STRING(object);
        size = PyBytes_GET_SIZE(object);
    } else if (PyByteArray_Check(object)) {
        data = PyByteArray_AS_STRING(object);
        size = PyByteArray_GET_SIZE(object);
    }
    if (data == nullptr) return false;
    text = std::string_view(data, static_cast<size_t>(size));
    return true;
}
inline handle text_to_python(std::string_view text) {
    handle made = PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), nullptr);
    if (!made) throw_python_error();
    return made;
}

/// What `std::vector` and `std::array` accept: `source` itself, or a tuple of what it iterates over; empty: neither.
inline object as_sequence(handle source, bool convert) {
    PyObject* object_ = source.ptr();
    if (PySequence_Check(object_) != 0) {
        if (PyUnicode_Check(object_) || PyBytes_Check(object_)) return object();
        return reinterpret_borrow<object>(source);
    }
    bool iterable = PyGen_Check(object_) || PyAnySet_Check(object_);
    if (!PyType_Check(object_)) {
        const char* type = Py_TYPE(object_)->tp_name;
        for (const char* name : {"dict_keys", "dict_values", "dict_items", "map", "zip"}) iterable |= std::strcmp(type, name) == 0;
    }
    if (!iterable || !convert) return object();
    auto made = reinterpret_steal<object>(PySequence_Tuple(object_));
    if (!made) throw_python_error();
    return made;
}
inline size_t length(handle sequence) {
    Py_ssize_t size = PySequence_Size(sequence.ptr());
    if (size == -1) throw_python_error();
    return static_cast<size_t>(size);
}

/// Takes one element into a container; false: it is of another type.
using Take = bool (*)(void* container, handle element, bool convert);
inline bool load_elements(handle sequence, bool convert, void* container, Take take) {
    auto iterator = reinterpret_steal<object>(PyObject_GetIter(sequence.ptr()));
    if (!iterator) throw_python_error();
    while (auto element = reinterpret_steal<object>(PyIter_Next(iterator.ptr()))) {
        if (!take(container, element, convert)) return false;
    }
    if (PyErr_Occurred() != nullptr) throw_python_error();
    return true;
}
inline object element(handle sequence, size_t index) {
    auto found = reinterpret_steal<object>(PySequence_GetItem(sequence.ptr(), static_cast<Py_ssize_t>(index)));
    if (!found) throw_python_error();
    return found;
}

}  // namespace detail
}  // namespace pybind11
