// One function for each thing that a binding can do; compiled with the light headers and with torch's own, and called alike.
#include <array>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <tuple>
#include <vector>

using at::Tensor;
using namespace py::literals;

static Tensor twice(const Tensor& x) { return x.defined() ? Tensor(x) : Tensor(); }
static bool defined(Tensor x) { return x.defined(); }
static Tensor undefined() { return Tensor(); }
static void nothing(Tensor) {}
static int noexcept_add(int a, int b) noexcept { return a + b; }
static int count_of(const std::vector<Tensor>& xs) { return static_cast<int>(xs.size()); }
static const Tensor& same(Tensor& x) { return x; }
static std::string overloaded(double) { return "double"; }
static std::string overloaded(int) { return "int"; }
static std::string overloaded(const Tensor&) { return "tensor"; }
static std::string overloaded(int, std::optional<Tensor>) { return "int, optional tensor"; }
template <class T>
static T identity(T value) {
    return value;
}
struct Functor {
    int offset;
    int operator()(int x) const { return x + offset; }
};
struct Static {
    static long add(long a, long b) { return a + b; }
};
struct MyError : std::runtime_error {
    using std::runtime_error::runtime_error;
};
struct Odd {};

static void fail(int kind) {
    switch (kind) {
        case 0: TORCH_CHECK(false, "check ", 3);
        case 1: TORCH_CHECK_INDEX(false, "index");
        case 2: TORCH_CHECK_VALUE(false, "value");
        case 3: TORCH_CHECK_TYPE(false, "type");
        case 4: TORCH_CHECK_NOT_IMPLEMENTED(false, "not there");
        case 5: throw c10::Error("plain", nullptr);
        case 6: throw c10::OutOfMemoryError({__func__, "file", 1}, "memory");
        case 7: throw c10::LinAlgError({__func__, "file", 1}, "singular");
        case 8: throw torch::TypeError("torch's");
        case 9: PyErr_SetString(PyExc_KeyError, "kk"); throw python_error();
        case 10: {
            PyErr_SetString(PyExc_KeyError, "kk");
            python_error error;
            error.persist();
            throw error;
        }
        case 11: PyErr_SetString(PyExc_KeyError, "kk"); throw py::error_already_set();
        case 12: throw std::bad_alloc();
        case 13: throw std::domain_error("domain");
        case 14: throw 3;
        case 15: throw py::stop_iteration("stop");
        case 16: throw std::invalid_argument("argument");
        case 17: PyErr_SetString(PyExc_KeyError, "kk"); throw std::runtime_error("runtime");
        case 18: throw std::length_error("length");
        case 19: TORCH_CHECK(false);
        case 20: throw std::out_of_range("range");
        case 21: throw py::cast_error("cast");
        case 22: throw std::overflow_error("overflow");
        case 23: throw py::key_error("key");
        case 24: throw std::underflow_error("underflow");
        case 25: throw std::range_error("range");
        case 26: throw MyError("mine");
        case 27: throw Odd();
        case 28: C10_THROW_ERROR(SyntaxError, "syntax");
        case 29: throw py::index_error("index");
        case 30: throw py::type_error();
        case 31: throw std::runtime_error("bad \xff utf8");
        case 32:
            try {
                throw std::domain_error("inner");
            } catch (...) {
                std::throw_with_nested(std::runtime_error("outer"));
            }
        case 33: PyErr_SetString(PyExc_KeyError, "kk"); throw py::value_error("value");
        case 34: throw py::attribute_error("attribute");
        case 35: throw py::import_error("import");
        case 36: throw py::buffer_error("buffer");
        case 37: throw std::string("text");
        case 38:
            try {
                PyErr_SetString(PyExc_KeyError, "kk");
                throw py::error_already_set();
            } catch (const std::exception& error) {
                throw std::runtime_error(error.what());
            }
        default: return;
    }
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
    m.doc() = "A module.";
    m.attr("number") = 3;
    m.attr("text") = "text";
    m.attr("both") = std::make_pair(1, 2.5);
    m.attr("nothing") = py::none();
    m.def("twice", &twice, "Doc.", py::arg("x"));
    m.def("defined", &defined);
    m.def("undefined", &undefined);
    m.def("nothing_", &nothing);
    m.def("noexcept_add", &noexcept_add, py::arg("a"), py::arg("b") = 4);
    m.def("count_of", &count_of, py::arg("xs") = std::vector<Tensor>());
    m.def("same", &same);
    m.def("fail", &fail, "kind"_a);
    m.def("static_add", &Static::add);
    m.def("functor", Functor{5}, "x"_a = 1);
    int offset = 7;
    auto big = std::make_shared<std::array<int, 64>>();
    (*big)[3] = 9;
    m.def("lambda", [](int x) { return x + 1; });
    m.def("captured", [offset, big](int x) { return x + offset + (*big)[3]; }, "Adds.", py::arg("x"));
    m.def("mutable_", [offset](int x) mutable { return offset += x; });
    m.def("overloaded", static_cast<std::string (*)(double)>(&overloaded), "First.");
    m.def("overloaded", static_cast<std::string (*)(int)>(&overloaded), py::arg("n"));
    m.def("overloaded", static_cast<std::string (*)(const Tensor&)>(&overloaded), "Third.", py::arg("x"));
    m.def("overloaded", static_cast<std::string (*)(int, std::optional<Tensor>)>(&overloaded), py::arg("n"), py::arg("x") = py::none());
    m.def("prefer", [](std::vector<double> v) { return v.size(); });
    m.def("prefer", [](std::vector<int64_t> v) { return static_cast<int64_t>(v.size()) + 100; });
    m.def("int_", &identity<int>);
    m.def("uint", &identity<unsigned>);
    m.def("short_", &identity<short>);
    m.def("uchar", &identity<unsigned char>);
    m.def("schar", &identity<signed char>);
    m.def("long_", &identity<int64_t>);
    m.def("ulong", &identity<uint64_t>);
    m.def("longlong", &identity<long long>);
    m.def("size", &identity<size_t>);
    m.def("float_", &identity<float>);
    m.def("double_", &identity<double>);
    m.def("bool_", &identity<bool>);
    m.def("string", &identity<std::string>);
    m.def("view", [](std::string_view x) { return std::string(x); });
    m.def("chars", [](const char* x) { return x; });
    m.def("string_ref", [](const std::string& x) { return x.size(); });
    m.def("bad_text", []() { return std::string("\xff"); });
    m.def("ints", &identity<std::vector<int64_t>>);
    m.def("nested", &identity<std::vector<std::vector<int>>>);
    m.def("floats", &identity<std::vector<float>>);
    m.def("bools", &identity<std::vector<bool>>);
    m.def("strings", &identity<std::vector<std::string>>);
    m.def("tensors", &identity<std::vector<Tensor>>);
    m.def("optional_int", &identity<std::optional<int>>, py::arg("x") = std::nullopt);
    m.def("optional_tensor", &identity<c10::optional<Tensor>>, py::arg("x") = c10::nullopt);
    m.def("optional_ref", [](const std::optional<Tensor>& x) { return x.has_value(); }, py::arg("x") = Tensor());
    m.def("pair", &identity<std::pair<int, std::string>>);
    m.def("tuple", &identity<std::tuple<Tensor, int, std::optional<double>>>);
    m.def("tuple_ref", [](const std::tuple<int, int>& x) { return std::get<0>(x) + std::get<1>(x); });
    m.def("tie", [](Tensor& x, Tensor& y) { return std::tuple<Tensor&, Tensor&>(x, y); });
    m.def("moved", [](Tensor&& x, std::vector<int>&& v) { return std::make_pair(std::move(x), std::move(v)); });
    m.def("size_list", [](at::IntArrayRef x) { return x.vec(); }, py::arg("x") = std::vector<int64_t>{1, 2});
    m.def("sizes", [](const Tensor& x) { return x.sizes(); });
    m.def("added", [](const Tensor& x) { return x.add(1); });
    m.def("caught", [](const Tensor& x) {
        try {
            return x.add(1).dim() > 0 ? std::string("added") : std::string("one");
        } catch (const std::exception& error) {
            return std::string(error.what()).substr(0, 12);
        }
    });
    m.def("device", [](at::Device x) { return x; });
    m.def("dtype", [](at::ScalarType x) { return x; }, py::arg("x") = at::kFloat);
    m.def("scalar", [](const at::Scalar& x) { return x.toDouble(); });
    m.def("object", [](py::object x) { return x; });
    m.def("unnamed", [](int a, int b) { return a - b; }, py::arg(), py::arg("b"));
    m.def("policy", &twice, py::return_value_policy::move);
    m.def("policy_ref", &same, py::return_value_policy::reference);
    m.def(
        "defaults",
        [](double a, bool b, std::string c, std::vector<int64_t> d, std::optional<Tensor> e, std::pair<int, float> f) {
            return std::make_tuple(a, b, c, d, e, f);
        },
        "Many.\n\nLines.", py::arg("a") = 1e-05, py::arg("b") = true, py::arg("c") = "it's  a\ntext", py::arg("d") = std::vector<int64_t>{1, 2},
        py::arg("e") = std::nullopt, py::arg("f") = std::make_pair(1, 0.5f));
    m.def("release", [](int x) {
        py::gil_scoped_release release;
        int result = 0;
        std::thread([&] {
            py::gil_scoped_acquire acquire;
            result = x + (PyGILState_Check() != 0 ? 1 : 0);
        }).join();
        return result;
    });
}
