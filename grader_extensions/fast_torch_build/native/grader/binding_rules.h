// pybind11's caster protocol, and its rules for numbers, bool, texts and sequences, once for all types of a kind.
#pragma once

#include <limits>
#include <optional>
#include <string>
#include <string_view>

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

// torch's casters and exceptions, which build on the protocol, and its pybind11's names of numbers.
#include <grader/variable.h>

namespace pybind11 __attribute__((visibility("hidden"))) {
namespace detail {

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
template <class Wide>
bool load_integer(handle source, bool convert, Wide low, Wide high, Wide& value) {
    if (!is_integer(source, convert)) return false;
    if constexpr (std::is_signed_v<Wide>) value = PyLong_AsLong(source.ptr());
    else value = PyLong_AsUnsignedLong(source.ptr());
    if (value == Wide(-1) && PyErr_Occurred() != nullptr) return load_integer(converted(source, convert, PyNumber_Long), false, low, high, value);
    return low <= value && value <= high;
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
    return owned(PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), nullptr)).release();
}

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

/// What `std::vector` accepts: `source` itself, or a tuple of what it iterates over; empty: neither.
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
    return owned(PySequence_Tuple(object_));
}
inline size_t length(handle sequence) {
    Py_ssize_t size = PySequence_Size(sequence.ptr());
    if (size == -1) throw_python_error();
    return static_cast<size_t>(size);
}

/// Takes one element into a container; false: it is of another type.
using Take = bool (*)(void* container, handle element, bool convert);
inline bool load_elements(handle sequence, bool convert, void* container, Take take) {
    object iterator = owned(PyObject_GetIter(sequence.ptr()));
    while (auto element = reinterpret_steal<object>(PyIter_Next(iterator.ptr()))) {
        if (!take(container, element, convert)) return false;
    }
    if (PyErr_Occurred() != nullptr) throw_python_error();
    return true;
}
inline object element(handle sequence, size_t index) {
    return owned(PySequence_GetItem(sequence.ptr(), static_cast<Py_ssize_t>(index)));
}

}  // namespace detail
}  // namespace pybind11
