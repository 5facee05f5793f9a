// A bound function: its arguments, their defaults, its signature and documentation.
#pragma once

#include "binding_caster.h"

namespace pybind11 __attribute__((visibility("hidden"))) {

struct arg_v;

/// The name of an argument.
struct arg {
    constexpr explicit arg(const char* name = nullptr) : name(name) {}
    template <class T>
    arg_v operator=(T&& value) const;
    arg& noconvert(bool flag = true) {
        convert = !flag;
        return *this;
    }
    arg& none(bool flag = true) {
        none_allowed = flag;
        return *this;
    }

    const char* name;
    bool convert = true;
    bool none_allowed = true;
};

/// An argument with a default.
struct arg_v : arg {
    template <class T>
    arg_v(const arg& base, T&& value, const char* text = nullptr)
        : arg(base), value(reinterpret_steal<object>(detail::to_python(std::forward<T>(value)))), text(text) {
        PyErr_Clear();
    }
    template <class T>
    arg_v(const char* name, T&& value, const char* text = nullptr) : arg_v(arg(name), std::forward<T>(value), text) {}
    arg_v& noconvert(bool flag = true) {
        arg::noconvert(flag);
        return *this;
    }
    arg_v& none(bool flag = true) {
        arg::none(flag);
        return *this;
    }

    object value;
    const char* text;
};
template <class T>
arg_v arg::operator=(T&& value) const {
    return {*this, std::forward<T>(value)};
}

inline namespace literals {
constexpr arg operator""_a(const char* name, size_t) { return arg(name); }
}  // namespace literals

struct kw_only {};
struct pos_only {};
template <class... Guards>
struct call_guard;

namespace detail {

/// More than these do not compile, so that a call needs no allocation.
constexpr size_t argument_limit = 64;

struct argument_record {
    text name;
    text shown;
    object value;
    bool named = false;
    bool convert = true;
    bool none_allowed = true;
};

struct function_call;

/// One overload.
struct function_record {
    text name;
    text doc;
    text signature;
    argument_record* arguments = nullptr;
    size_t annotated = 0;
    size_t count = 0;
    size_t positional = 0;
    size_t positional_only = 0;
    handle (*call)(function_call& call) = nullptr;
    void* function = nullptr;
    void (*destroy)(void* function) = nullptr;
    function_record* next = nullptr;
    handle scope;
    PyMethodDef def = {};

    const argument_record* argument(size_t at) const { return at < annotated ? &arguments[at] : nullptr; }
};
GRADER_COLD void destroy(function_record* record) {
    if (record->destroy != nullptr) record->destroy(record->function);
    std::free(const_cast<char*>(record->def.ml_doc));
    delete[] record->arguments;
    delete record;
}
/// Owns a record until it joins a function.
struct record_owner {
    function_record* record;
    record_owner(function_record* record) : record(record) {}
    record_owner(record_owner&& other) : record(other.release()) {}
    ~record_owner() {
        if (record != nullptr) detail::destroy(record);
    }
    function_record& operator*() const { return *record; }
    function_record* operator->() const { return record; }
    function_record* release() { return std::exchange(record, nullptr); }
};

struct function_call {
    const function_record* function;
    uint64_t convert;
    PyObject* values[argument_limit];
};

GRADER_COLD void add_argument(function_record& function, const arg& argument, handle value, const char* shown) {
    bool named = argument.name != nullptr;
    if (function.annotated > function.positional && (!named || argument.name[0] == 0))
        throw std::runtime_error("arg(): cannot specify an unnamed argument after a kw_only() annotation or args() argument");
    argument_record& record = function.arguments[function.annotated++];
    if (named) add(record.name, argument.name);
    record.value = reinterpret_borrow<object>(value);
    record.named = named;
    record.convert = argument.convert;
    record.none_allowed = argument.none_allowed;
    if (shown != nullptr) {
        add(record.shown, shown);
    } else if (value) {
        auto repr = reinterpret_steal<object>(PyObject_Repr(value.ptr()));
        const char* data = repr ? PyUnicode_AsUTF8(repr.ptr()) : nullptr;
        if (data == nullptr) throw_python_error();
        add(record.shown, data);
    }
}

// What may stand behind the function in `def`; anything else does not compile.
GRADER_COLD void annotate(function_record& function, const arg& argument) { add_argument(function, argument, handle(), nullptr); }
GRADER_COLD void annotate(function_record& function, const arg_v& argument) {
    if (!argument.value) throw std::runtime_error("arg(): could not convert default argument into a Python object (type not registered yet?).");
    add_argument(function, argument, argument.value, argument.text);
}
GRADER_COLD void annotate(function_record& function, const char* doc) {
    function.doc.size = 0;
    add(function.doc, doc == nullptr ? "" : doc);
}
inline void annotate(function_record& function, kw_only) { function.positional = function.annotated; }
inline void annotate(function_record& function, pos_only) { function.positional_only = function.annotated; }
inline void annotate(function_record&, return_value_policy) {}
template <class... Guards>
void annotate(function_record&, call_guard<Guards...>) {}

/// One line, with single spaces; the text of a str stays as it is.
GRADER_COLD void add_squashed(text& to, const text& from) {
    if (from.size >= 2 && from.data[0] == '\'' && from.data[from.size - 1] == '\'') return add(to, from.c_str());
    bool space = false, begun = false;
    for (const char* at = from.c_str(); *at != 0; ++at) {
        if (std::strchr(" \t\n\r\f\v", *at) != nullptr) {
            space = true;
            continue;
        }
        if (space && begun) add(to, " ");
        add(to, at, 1);
        space = false;
        begun = true;
    }
}

GRADER_COLD void add_type(text& to, const descr& type, bool result) {
    const descr* part = type.parts;
    int side = 0;  // 1: between the first two @, 2: between the last two
    for (const char* at = type.text; *at != 0; ++at) {
        if (*at == '@') side = (side + 1) % 3;
        else if (side != 0 && (side == 2) != result) continue;
        else if (*at == '%') add_type(to, *part++, result);
        else add(to, at, 1);
    }
}

/// `(x: torch.Tensor, n: int = 3) -> torch.Tensor`; the result's type stands behind the arguments'.
GRADER_COLD void add_signature(function_record& function, const descr* types) {
    text& to = function.signature;
    add(to, "(");
    for (size_t i = 0; i < function.count; ++i) {
        const argument_record* argument = function.argument(i);
        if (i > 0) add(to, ", ");
        if (i == function.positional) add(to, "*, ");
        if (argument != nullptr && argument->named) add(to, argument->name.c_str());
        else add(to, "arg"), add(to, i);
        add(to, ": ");
        add_type(to, types[i], argument != nullptr && !argument->convert);
        if (argument != nullptr && argument->value) add(to, " = "), add_squashed(to, argument->shown);
        if (function.positional_only > 0 && i + 1 == function.positional_only) add(to, ", /");
    }
    add(to, ") -> ");
    add_type(to, types[function.count], true);
}

/// The text of `__doc__`: each overload's signature and what was said about it.
GRADER_COLD void add_documentation(text& to, const function_record& first) {
    bool overloaded = first.next != nullptr;
    if (overloaded) add(to, first.name.c_str()), add(to, "(*args, **kwargs)\nOverloaded function.\n\n");
    size_t index = 0;
    for (const function_record* function = &first; function != nullptr; function = function->next) {
        if (index++ > 0) add(to, "\n");
        if (overloaded) add(to, index), add(to, ". ");
        for (const char* piece : {function->name.c_str(), function->signature.c_str(), "\n"}) add(to, piece);
        if (function->doc.size > 0) add(to, "\n"), add(to, function->doc.c_str()), add(to, "\n");
    }
}

}  // namespace detail
}  // namespace pybind11
