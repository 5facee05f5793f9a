// Conversion of vectors, optionals, pairs and tuples of what is carried, as in pybind11/stl.h and pybind11/cast.h.
#pragma once

#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "binding_rules.h"

namespace pybind11 __attribute__((visibility("hidden"))) {
namespace detail {

template <class Value>
struct type_caster<std::vector<Value>> {
    static_assert(!std::is_pointer_v<Value>, "pointers are not carried");
    bool load(handle source, bool convert) {
        object sequence = as_sequence(source, convert);
        if (!sequence) return false;
        value.clear();
        value.reserve(length(sequence));
        return load_elements(sequence, convert, &value, take_element);
    }
    static handle cast(const std::vector<Value>& source, return_value_policy, handle) {
        object list = owned(PyList_New(static_cast<Py_ssize_t>(source.size())));
        Py_ssize_t index = 0;
        for (auto&& element : source) {
            handle made = make_caster<Value>::cast(element, return_value_policy::automatic, handle());
            if (!made) return handle();
            PyList_SET_ITEM(list.ptr(), index++, made.ptr());
        }
        return list.release();
    }
    static constexpr descr parts[] = {make_caster<Value>::name};
    PYBIND11_TYPE_CASTER(std::vector<Value>, (descr{"@collections.abc.Sequence@list@[%]", parts}));

   private:
    static bool take_element(void* container, handle element, bool convert) {
        make_caster<Value> caster;
        if (!caster.load(element, convert)) return false;
        static_cast<std::vector<Value>*>(container)->push_back(cast_op<Value&&>(std::move(caster)));
        return true;
    }
};

template <class Value>
struct type_caster<std::optional<Value>> {
    bool load(handle source, bool convert) {
        if (!source) return false;
        if (source.is_none()) return true;
        make_caster<Value> caster;
        if (!caster.load(source, convert)) return false;
        value.emplace(cast_op<Value&&>(std::move(caster)));
        return true;
    }
    static handle cast(const std::optional<Value>& source, return_value_policy policy, handle parent) {
        if (!source) return handle(Py_None).inc_ref();
        return make_caster<Value>::cast(*source, policy, parent);
    }
    static_assert(!std::is_pointer_v<Value>, "pointers are not carried");
    static constexpr descr parts[] = {make_caster<Value>::name};
    PYBIND11_TYPE_CASTER(std::optional<Value>, (descr{"% | None", parts}));
};

/// The tuple of some objects; the null handle, where one of them is none.
inline handle pack(object* entries, size_t count) {
    for (size_t i = 0; i < count; ++i) {
        if (!entries[i]) return handle();
    }
    object tuple = owned(PyTuple_New(static_cast<Py_ssize_t>(count)));
    for (size_t i = 0; i < count; ++i) PyTuple_SET_ITEM(tuple.ptr(), static_cast<Py_ssize_t>(i), entries[i].release().ptr());
    return tuple.release();
}
/// `tuple[%, %]`
template <size_t Size>
struct tuple_text {
    char text[3 * Size + 16] = {'t', 'u', 'p', 'l', 'e', '['};
    constexpr tuple_text() {
        size_t at = 6;
        for (size_t i = 0; i < Size; ++i) {
            if (i > 0) text[at++] = ',', text[at++] = ' ';
            text[at++] = '%';
        }
        text[at] = ']';
    }
};
template <size_t Size>
inline constexpr tuple_text<Size> tuple_text_of{};

template <class Tuple, class Indices, class... Values>
struct tuple_caster;
template <class Tuple, size_t... Is, class... Values>
struct tuple_caster<Tuple, std::index_sequence<Is...>, Values...> {
    static_assert(!(std::is_pointer_v<Values> || ...), "pointers are not carried");
    bool load(handle source, bool convert) {
        if (PySequence_Check(source.ptr()) == 0 || length(source) != sizeof...(Is)) return false;
        return (... && std::get<Is>(casters).load(element(source, Is), convert));
    }
    static handle cast(const Tuple& source, return_value_policy policy, handle parent) {
        object entries[] = {reinterpret_steal<object>(make_caster<Values>::cast(std::get<Is>(source), policy, parent))...};
        return pack(entries, sizeof...(Is));
    }
    static constexpr descr parts[] = {make_caster<Values>::name...};
    static constexpr descr name = {tuple_text_of<sizeof...(Is)>.text, parts};
    template <class T>
    using cast_op_type = Tuple;
    explicit operator Tuple()&& { return Tuple(cast_op<Values>(std::move(std::get<Is>(casters)))...); }

   private:
    std::tuple<make_caster<Values>...> casters;
};
template <class First, class Second>
struct type_caster<std::pair<First, Second>> : tuple_caster<std::pair<First, Second>, std::index_sequence<0, 1>, First, Second> {};
template <class First, class... Rest>
struct type_caster<std::tuple<First, Rest...>>
    : tuple_caster<std::tuple<First, Rest...>, std::make_index_sequence<1 + sizeof...(Rest)>, First, Rest...> {};

}  // namespace detail
}  // namespace pybind11
