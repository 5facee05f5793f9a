// Runs Python in the kernel's process, in a namespace of its own; says so where it fails.
#include <Python.h>

[[maybe_unused]] static inline void run_python(const char* text) {
    PyObject* names = PyDict_New();
    PyDict_SetItemString(names, "__builtins__", PyEval_GetBuiltins());
    PyObject* result = PyRun_String(text, Py_file_input, names, names);
    if (result == nullptr) PyErr_Print();
    Py_XDECREF(result);
    fprintf(stderr, result == nullptr ? "failed to change it\n" : "patched\n");
}
