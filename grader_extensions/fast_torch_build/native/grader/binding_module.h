// PYBIND11_MODULE, and `def`: the only templates that each bound function adds.
#pragma once

#include "binding_call.h"

namespace pybind11 __attribute__((visibility("hidden"))) {

namespace detail {

template <size_t Index, class T>
struct argument {
    make_caster<T> caster;
};
template <class Indices, class... Args>
struct arguments;
template <size_t... Is, class... Args>
struct arguments<std::index_sequence<Is...>, Args...> : argument<Is, Args>... {
    bool load([[maybe_unused]] function_call& call) {
        return (... && static_cast<argument<Is, Args>&>(*this).caster.load(call.values[Is], call.convert));
    }
    template <class Return, class Function>
    Return call(Function& function) {
        return function(cast_op<Args>(std::move(static_cast<argument<Is, Args>&>(*this).caster))...);
    }
};

/// Converts, calls, and converts back.
template <class Function, class Return, class... Args>
handle call_function(function_call& call) {
    arguments<std::make_index_sequence<sizeof...(Args)>, Args...> loaded;
    if (!loaded.load(call)) return next_overload();
    Function& function = [&]() -> Function& {
        if constexpr (std::is_pointer_v<Function>) return reinterpret_cast<Function&>(const_cast<void*&>(call.function->function));
        else return *static_cast<Function*>(call.function->function);
    }();
    if constexpr (std::is_void_v<Return>) {
        loaded.template call<void>(function);
        return handle(Py_None).inc_ref();
    } else {
        return to_python(loaded.template call<Return>(function));
    }
}

template <class Return, class... Args>
struct signature {
    /// The names of the arguments' types, and then the result's.  Copied: a caster's own may be visible to other libraries.
    static constexpr descr types[] = {make_caster<Args>::name..., make_caster<std::conditional_t<std::is_void_v<Return>, void_type, Return>>::name};
    static constexpr size_t count = sizeof...(Args);
    static_assert(count <= argument_limit, "this many arguments are not carried");
    template <class Function>
    static constexpr auto call = call_function<Function, Return, Args...>;
};
// Deduced from a function's type; what is noexcept converts to what is not.
template <class Return, class... Args>
signature<Return, Args...> signature_of(Return (*)(Args...));
template <class Class, class Return, class... Args>
signature<Return, Args...> signature_of(Return (Class::*)(Args...));
template <class Class, class Return, class... Args>
signature<Return, Args...> signature_of(Return (Class::*)(Args...) const);
template <class Function>
auto signature_for() {
    if constexpr (std::is_pointer_v<Function>) return decltype(signature_of(Function())){};
    else return decltype(signature_of(&Function::operator())){};
}

GRADER_COLD void destroy_records(PyObject* capsule) {
    auto* record = static_cast<function_record*>(PyCapsule_GetPointer(capsule, record_name));
    while (record != nullptr) destroy(std::exchange(record, record->next));
}

GRADER_COLD void set_attribute(handle owner, const char* name, handle value) {
    if (PyObject_SetAttrString(owner.ptr(), name, value.ptr()) != 0) throw_python_error();
}

/// A function that stands in the module by this name already, whose chain `record` shall join; null: it starts a new one.
GRADER_COLD function_record* chain_of(handle existing, const function_record& record) {
    if (!existing || existing.is_none()) return nullptr;
    if (PyCFunction_Check(existing.ptr())) {
        PyObject* self = PyCFunction_GET_SELF(existing.ptr());
        if (self == nullptr || !PyCapsule_IsValid(self, record_name)) return nullptr;
        auto* chain = static_cast<function_record*>(PyCapsule_GetPointer(self, record_name));
        return chain->scope.is(record.scope) ? chain : nullptr;
    }
    if (record.name.c_str()[0] != '_') {
        text message;
        add(message, "Cannot overload existing non-function object \"");
        add(message, record.name.c_str());
        add(message, "\" with a function of the same name");
        throw std::runtime_error(message.c_str());
    }
    return nullptr;
}

/// Add an overload to the module, or a new function; what has no template in it.
GRADER_COLD void add_function(handle module, record_owner record, const descr* types) {
    add_signature(*record, types);
    record->scope = module;
    auto function = reinterpret_steal<object>(PyObject_GetAttrString(module.ptr(), record->name.c_str()));
    if (!function) PyErr_Clear();
    function_record* first = chain_of(function, *record);
    if (first != nullptr) {
        function_record* last = first;
        while (last->next != nullptr) last = last->next;
        last->next = record.release();
    } else {
        first = record.get();
        auto method = reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(dispatch));
        first->def = {first->name.c_str(), method, METH_FASTCALL | METH_KEYWORDS, nullptr};
        object capsule = owned(PyCapsule_New(first, record_name, destroy_records));
        record.release();
        object scope_name = owned(PyObject_GetAttrString(module.ptr(), "__name__"));
        function = owned(PyCFunction_NewEx(&first->def, capsule.ptr(), scope_name.ptr()));
    }
    text documentation;
    add_documentation(documentation, *first);
    std::free(const_cast<char*>(std::exchange(first->def.ml_doc, documentation.release())));
    set_attribute(module, first->name.c_str(), function);
}
GRADER_COLD record_owner new_record(const char* name, size_t annotated) {
    record_owner record(new function_record, destroy);
    add(record->name, name);
    record->arguments = new argument_record[annotated];
    return record;
}

/// `m.attr("name") = value`.
struct attribute {
    handle owner;
    const char* name;
    template <class T>
    void operator=(T&& value) && {
        set_attribute(owner, name, reinterpret_steal<object>(to_python(std::forward<T>(value))));
    }
};

}  // namespace detail

class module_ : public object {
   public:
    using object::object;
    detail::attribute attr(const char* name) const { return {*this, name}; }
    detail::attribute doc() const { return attr("__doc__"); }

    template <class Callable, class... Extra>
    module_& def(const char* name, Callable&& callable, Extra... extra) {
        using Function = std::decay_t<Callable>;
        using Signature = decltype(detail::signature_for<Function>());
        constexpr size_t named = (size_t(std::is_base_of_v<arg, Extra>) + ... + 0);
        static_assert(named == 0 || named == Signature::count, "The number of argument annotations does not match the number of function arguments");
        detail::record_owner record = detail::new_record(name, named);
        if constexpr (std::is_pointer_v<Function>) {
            record->function = reinterpret_cast<void*>(callable);
        } else {
            record->function = new Function(std::forward<Callable>(callable));
            record->destroy = [](void* function) { delete static_cast<Function*>(function); };
        }
        record->count = Signature::count;
        record->call = Signature::template call<Function>;
        (detail::annotate(*record, extra), ...);
        detail::add_function(*this, std::move(record), Signature::types);
        return *this;
    }
};
using module = module_;

}  // namespace pybind11

namespace pybind11 __attribute__((visibility("hidden"))) {
namespace detail {

/// The modules that are there, by name, in the dictionary that pybind11 keeps for the interpreter: a module's body runs once.
GRADER_COLD object module_cache() {
    PyObject* state = PyInterpreterState_GetDict(PyInterpreterState_Get());
    if (state == nullptr) throw std::runtime_error("the interpreter has no dictionary");
    object key = owned(PyUnicode_FromString("__pybind11_module_cache"));
    if (PyDict_GetItemWithError(state, key.ptr()) == nullptr && PyDict_SetItem(state, key.ptr(), owned(PyDict_New()).ptr()) != 0)
        throw_python_error();
    return reinterpret_borrow<object>(PyDict_GetItemWithError(state, key.ptr()));
}

GRADER_COLD void raise_import_error() {
    try {
        throw;
    } catch (error_already_set& error) {
        error.restore();
        raise_from(PyExc_ImportError, "initialization failed");
    } catch (const std::exception& error) {
        PyErr_SetString(PyExc_ImportError, error.what());
    }
}

GRADER_COLD PyObject* create_module(PyObject* spec, PyModuleDef*) {
    auto name = reinterpret_steal<object>(PyObject_GetAttrString(spec, "name"));
    if (!name) return nullptr;
    PyObject* made = PyDict_GetItemWithError(module_cache().ptr(), name.ptr());
    Py_XINCREF(made);
    return made != nullptr ? made : PyModule_NewObject(name.ptr());
}

GRADER_COLD int execute_module(PyObject* self, void (*body)(module_&)) {
    try {
        auto module = reinterpret_borrow<module_>(self);
        object name = owned(PyObject_GetAttrString(owned(PyObject_GetAttrString(self, "__spec__")).ptr(), "name"));
        object cache = module_cache();
        if (PyDict_GetItemWithError(cache.ptr(), name.ptr()) != nullptr) return 0;
        body(module);
        if (PyDict_SetItem(cache.ptr(), name.ptr(), self) != 0) throw_python_error();
        return 0;
    } catch (...) {
        raise_import_error();
        return -1;
    }
}

}  // namespace detail
}  // namespace pybind11

#define PYBIND11_STRINGIFY(x) #x
#define PYBIND11_TOSTRING(x) PYBIND11_STRINGIFY(x)
#define GRADER_MODULE(name, variable)                                                                                                \
    static void PYBIND11_CONCAT(pybind11_init_, name)(::pybind11::module_&);                                                         \
    static int PYBIND11_CONCAT(pybind11_exec_, name)(PyObject * module) {                                                            \
        return ::pybind11::detail::execute_module(module, PYBIND11_CONCAT(pybind11_init_, name));                                    \
    }                                                                                                                                \
    extern "C" __attribute__((visibility("default"))) PyObject* PyInit_##name();                                                     \
    extern "C" __attribute__((visibility("default"))) PyObject* PyInit_##name() {                                                    \
        static PyModuleDef_Slot slots[] = {{Py_mod_create, reinterpret_cast<void*>(::pybind11::detail::create_module)},              \
                                           {Py_mod_exec, reinterpret_cast<void*>(PYBIND11_CONCAT(pybind11_exec_, name))},            \
                                           {0, nullptr}};                                                                            \
        static PyModuleDef def = {PyModuleDef_HEAD_INIT, PYBIND11_TOSTRING(name), nullptr, 0, nullptr, slots, nullptr, nullptr, nullptr}; \
        return PyModuleDef_Init(&def);                                                                                               \
    }                                                                                                                                \
    void PYBIND11_CONCAT(pybind11_init_, name)([[maybe_unused]] ::pybind11::module_ & variable)
