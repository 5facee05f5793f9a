// extension: headers=full
// call: forward(float32[4], 3)
// A class bound to Python has no short form: py::class_ is pybind11's own.
#include <torch/extension.h>

class Accumulator {
  public:
    explicit Accumulator(torch::Tensor start) : total_(start.clone()) {}
    void add(const torch::Tensor& x) { total_ += x; }
    torch::Tensor total() const { return total_; }

  private:
    torch::Tensor total_;
};

torch::Tensor forward(torch::Tensor x, int times) {
    Accumulator accumulator(x);
    for (int i = 0; i < times; ++i) accumulator.add(x);
    return accumulator.total();
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
    py::class_<Accumulator>(m, "Accumulator").def(py::init<torch::Tensor>()).def("add", &Accumulator::add).def("total", &Accumulator::total);
    m.def("forward", &forward);
}
