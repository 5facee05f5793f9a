// A call from Python: finds the overload that takes the arguments, and says what C++ threw.
#pragma once

#include <cxxabi.h>

#include "binding_rules.h"

// A bound function: its arguments, their defaults, its signature and documentation.
namespace pybind11 __attribute__((visibility("hidden"))) {

struct arg_v;

/// The name of an argument.
struct arg {
    constexpr explicit arg(const char* name = nullptr) : name(name) {}
    template <class T>
    arg_v operator=(T&& value) const;

    const char* name;
};

/// An argument with a default.
struct arg_v : arg {
    template <class T>
    arg_v(const arg& base, T&& value, const char* text = nullptr)
        : arg(base), value(reinterpret_steal<object>(detail::to_python(std::forward<T>(value)))), text(text) { PyErr_Clear(); }
    template <class T>
    arg_v(const char* name, T&& value, const char* text = nullptr) : arg_v(arg(name), std::forward<T>(value), text) {}

    object value;
    const char* text;
};
template <class T>
arg_v arg::operator=(T&& value) const { return {*this, std::forward<T>(value)}; }

inline namespace literals {
constexpr arg operator""_a(const char* name, size_t) { return arg(name); }
}  // namespace literals

namespace detail {

/// More than these do not compile, so that a call needs no allocation.
constexpr size_t argument_limit = 64;

struct argument_record {
    text name;
    text shown;
    object value;
    bool named = false;
};

struct function_record;
struct function_call {
    const function_record* function;
    bool convert;
    PyObject* values[argument_limit];
};

/// One overload.
struct function_record {
    text name;
    text doc;
    text signature;
    argument_record* arguments = nullptr;
    size_t annotated = 0;
    size_t count = 0;
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
using record_owner = std::unique_ptr<function_record, void (*)(function_record*)>;

GRADER_COLD void add_argument(function_record& function, const arg& argument, handle value, const char* shown) {
    bool named = argument.name != nullptr;
    argument_record& record = function.arguments[function.annotated++];
    if (named) add(record.name, argument.name);
    record.value = reinterpret_borrow<object>(value);
    record.named = named;
    if (shown != nullptr) {
        add(record.shown, shown);
    } else if (value) {
        object repr = owned(PyObject_Repr(value.ptr()));
        const char* data = PyUnicode_AsUTF8(repr.ptr());
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
inline void annotate(function_record&, return_value_policy) {}

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
        if (argument != nullptr && argument->named) add(to, argument->name.c_str());
        else add(to, "arg"), add(to, i);
        add(to, ": ");
        add_type(to, types[i], false);
        if (argument != nullptr && argument->value) add(to, " = "), add_squashed(to, argument->shown);
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

/// Given by a record's `call` where it does not take the arguments.
inline PyObject* next_overload() { return reinterpret_cast<PyObject*>(1); }

GRADER_COLD void raise_from(PyObject* type, const char* message) {
    PyObject *kind, *cause, *value, *trace;
    PyErr_Fetch(&kind, &cause, &trace);
    PyErr_NormalizeException(&kind, &cause, &trace);
    if (trace != nullptr) {
        PyException_SetTraceback(cause, trace);
        Py_DECREF(trace);
    }
    Py_DECREF(kind);
    PyErr_SetString(type, message);
    PyErr_Fetch(&kind, &value, &trace);
    PyErr_NormalizeException(&kind, &value, &trace);
    Py_INCREF(cause);
    PyException_SetCause(value, cause);
    PyException_SetContext(value, cause);
    PyErr_Restore(kind, value, trace);
}
GRADER_COLD void raise(PyObject* type, const char* message) {
    if (PyErr_Occurred() != nullptr) raise_from(type, message);
    else PyErr_SetString(type, message);
}

/// Looked up by dynamic_cast: a handler for each type would cost the compiler more than all the rest of a call.
GRADER_COLD PyObject* type_of(const std::exception& error) {
    if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) return PyExc_MemoryError;
    if (dynamic_cast<const std::out_of_range*>(&error) != nullptr) return PyExc_IndexError;
    if (dynamic_cast<const std::overflow_error*>(&error) != nullptr) return PyExc_OverflowError;
    bool value = dynamic_cast<const std::domain_error*>(&error) != nullptr || dynamic_cast<const std::invalid_argument*>(&error) != nullptr ||
                 dynamic_cast<const std::length_error*>(&error) != nullptr || dynamic_cast<const std::range_error*>(&error) != nullptr;
    return value ? PyExc_ValueError : PyExc_RuntimeError;
}

/// pybind11's own translation, for what torch has not taken. What an exception was nested in comes first, and is its cause.
GRADER_COLD void translate(const std::exception_ptr& thrown) {
    auto translate_inner = [&thrown](const std::nested_exception* outer) {
        if (outer != nullptr && outer->nested_ptr() != nullptr && outer->nested_ptr() != thrown) translate(outer->nested_ptr());
    };
    try {
        std::rethrow_exception(thrown);
    } catch (const std::exception& error) {
        translate_inner(dynamic_cast<const std::nested_exception*>(&error));
        if (auto* python = dynamic_cast<const error_already_set*>(&error)) python->restore();
        else if (auto* builtin = dynamic_cast<const builtin_exception*>(&error)) builtin->set_error();
        else raise(type_of(error), error.what());
    } catch (const std::nested_exception& error) {
        translate_inner(&error);
        raise(PyExc_RuntimeError, "Caught an unknown nested exception!");
    } catch (...) {
        raise(PyExc_RuntimeError, "Caught an unknown exception!");
    }
}

/// torch registers a translator with pybind11, for all modules: it takes its own exceptions, and leaves the others to pybind11.
GRADER_COLD void raise_current() {
    std::exception_ptr thrown = std::current_exception();
    try {
        std::rethrow_exception(thrown);
    } catch (const std::exception& error) {
        if (dynamic_cast<const c10::Error*>(&error) != nullptr || dynamic_cast<const torch::PyTorchError*>(&error) != nullptr ||
            dynamic_cast<const python_error*>(&error) != nullptr)
            return torch::translate_exception_to_python(thrown);
    } catch (...) {
    }
    translate(thrown);
}

/// The arguments as the caller gave them.
struct given {
    PyObject* const* values;
    size_t positional;
    PyObject* names;
    size_t named;

    /// Where a keyword stands, or `named`.
    size_t find(const text& name) const {
        for (size_t i = 0; i < named; ++i) {
            const char* keyword = PyUnicode_AsUTF8(PyTuple_GET_ITEM(names, i));
            if (keyword == nullptr) PyErr_Clear();
            else if (std::strcmp(name.c_str(), keyword) == 0) return i;
        }
        return named;
    }
};

/// Put the arguments where the function has its parameters; false: they are too many, too few, or other ones.
inline bool arrange(const function_record& function, const given& given, function_call& call) {
    if (given.positional > function.count) return false;
    if (given.positional < function.count && function.annotated < function.count) return false;
    call.function = &function;
    size_t used = 0;
    for (size_t at = 0; at < function.count; ++at) {
        const argument_record* argument = function.argument(at);
        const size_t keyword = argument != nullptr && argument->named ? given.find(argument->name) : given.named;
        const bool by_keyword = keyword < given.named;
        if (at < given.positional) {
            if (by_keyword) return false;
            call.values[at] = given.values[at];
        } else {
            call.values[at] = by_keyword ? given.values[given.positional + keyword] : argument->value.ptr();
            if (call.values[at] == nullptr) return false;
            used += by_keyword;
        }
    }
    return used == given.named;
}

GRADER_COLD void raise_incompatible(const function_record& first, const given& given) {
    text message;
    add(message, first.name.c_str());
    add(message, "(): incompatible function arguments. The following argument types are supported:\n");
    size_t index = 0;
    for (const function_record* function = &first; function != nullptr; function = function->next) {
        add(message, "    ");
        add(message, ++index);
        for (const char* piece : {". ", function->signature.c_str(), "\n"}) add(message, piece);
    }
    add(message, "\nInvoked with: ");
    for (size_t i = 0; i < given.positional + given.named; ++i) {
        if (i == given.positional) add(message, i > 0 ? "; kwargs: " : "kwargs: ");
        else if (i > 0) add(message, ", ");
        if (i >= given.positional) add(message, PyObject_Str, PyTuple_GET_ITEM(given.names, i - given.positional)), add(message, "=");
        if (!add(message, PyObject_Repr, given.values[i])) add(message, "<repr raised Error>");
    }
    raise(PyExc_TypeError, message.c_str());
}
GRADER_COLD void raise_unconvertible(const function_record& function) {
    text message;
    add(message, "Unable to convert function return value to a Python type! The signature was\n\t");
    add(message, function.signature.c_str());
    raise(PyExc_TypeError, message.c_str());
}

inline const char* const record_name = "grader.function_record";

/// Two passes where there are overloads: without conversion first, so that the exact one is preferred.
inline PyObject* dispatch(PyObject* self, PyObject* const* values, Py_ssize_t positional, PyObject* names) {
    auto* first = static_cast<function_record*>(PyCapsule_GetPointer(self, record_name));
    const given given{values, static_cast<size_t>(positional), names, names == nullptr ? 0 : static_cast<size_t>(PyTuple_GET_SIZE(names))};
    PyObject* result = next_overload();
    const function_record* function = nullptr;
    try {
        const bool overloaded = first->next != nullptr;
        function_call call;
        for (bool converting : {false, true}) {
            for (function = first; function != nullptr; function = function->next) {
                if (!arrange(*function, given, call)) continue;
                call.convert = converting || !overloaded;
                result = function->call(call).ptr();
                if (result != next_overload()) break;
            }
            if (!overloaded || result != next_overload()) break;
        }
        if (result == next_overload()) {
            raise_incompatible(*first, given);
            return nullptr;
        }
    } catch (abi::__forced_unwind&) {
        throw;
    } catch (...) {
        raise_current();
        return nullptr;
    }
    if (result == nullptr) raise_unconvertible(*function);
    return result;
}

}  // namespace detail
}  // namespace pybind11
