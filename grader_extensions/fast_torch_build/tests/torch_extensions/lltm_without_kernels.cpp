// extension: headers=light
// call: forward(float32[16, 8], float32[12, 12], float32[1, 12], float32[16, 4], float32[16, 4])
// call: backward(float32[16, 4], float32[16, 4], float32[16, 4], float32[16, 12])
// The same cell of the tutorial with ATen alone: no kernel, no CUDA.
#include <torch/extension.h>

#include <iostream>
#include <vector>

torch::Tensor d_sigmoid(torch::Tensor z) {
  auto s = torch::sigmoid(z);
  return (1 - s) * s;
}

torch::Tensor d_tanh(torch::Tensor z) {
  return 1 - z.tanh().pow(2);
}

torch::Tensor d_elu(torch::Tensor z, torch::Scalar alpha = 1.0) {
  auto e = z.exp();
  auto mask = (alpha * (e - 1)) < 0;
  return (z > 0).type_as(z) + mask.type_as(z) * (alpha * e);
}

std::vector<at::Tensor> lltm_forward(
    torch::Tensor input,
    torch::Tensor weights,
    torch::Tensor bias,
    torch::Tensor old_h,
    torch::Tensor old_cell) {
  auto X = torch::cat({old_h, input}, /*dim=*/1);

  auto gate_weights = torch::addmm(bias, X, weights.transpose(0, 1));
  auto gates = gate_weights.chunk(3, /*dim=*/1);

  auto input_gate = torch::sigmoid(gates[0]);
  auto output_gate = torch::sigmoid(gates[1]);
  auto candidate_cell = torch::elu(gates[2], /*alpha=*/1.0);

  auto new_cell = old_cell + candidate_cell * input_gate;
  auto new_h = torch::tanh(new_cell) * output_gate;

  return {new_h,
          new_cell,
          input_gate,
          output_gate,
          candidate_cell,
          X,
          gate_weights};
}

std::vector<torch::Tensor> lltm_backward(torch::Tensor grad_h, torch::Tensor grad_cell, torch::Tensor new_cell, torch::Tensor gate_weights) {
  auto gates = gate_weights.chunk(3, /*dim=*/1);
  auto d_output_gate = torch::tanh(new_cell) * grad_h;
  auto d_new_cell = d_tanh(new_cell) * grad_h + grad_cell;
  auto d_candidate_cell = d_new_cell * d_elu(gates[2]);
  d_output_gate *= d_sigmoid(gates[1]);
  auto d_gates = torch::cat({d_new_cell, d_output_gate, d_candidate_cell}, /*dim=*/1);
  auto d_bias = d_gates.sum(/*dim=*/0, /*keepdim=*/true);
  return {d_gates, d_bias};
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("forward", &lltm_forward, "LLTM forward");
  m.def("backward", &lltm_backward, "LLTM backward");
}
