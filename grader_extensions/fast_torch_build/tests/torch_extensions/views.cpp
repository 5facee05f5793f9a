// extension: headers=light
// call: forward(float32[4, 6, 2])
// call: picked(float32[5, 4], int64[3] % 5)
// call: parts(float32[6, 4])
// Views of every kind: their strides are part of the answer.
#include <torch/extension.h>

std::vector<torch::Tensor> forward(torch::Tensor x) {
    const auto sizes = x.sizes().vec();
    return {
        x.view({4, 12}),
        x.view(-1),
        x.reshape({-1, 2}),
        x.transpose(0, 1),
        x.permute({2, 0, 1}),
        x.permute({2, 0, 1}).contiguous(),
        x.unsqueeze(0),
        x.unsqueeze(-1).squeeze(-1),
        x.slice(/*dim=*/1, /*start=*/1, /*end=*/5, /*step=*/2),
        x.slice(0, 2),
        x.select(1, 3),
        x.narrow(0, 1, 2),
        x.flatten(),
        x.flatten(1),
        x[0],
        x[1][2],
        x.select(2, 0).t(),
        x.unsqueeze(1).expand({4, 3, 6, 2}),
        x.view({sizes[0], sizes[1] * sizes[2]}),
        x.reshape(sizes).movedim(0, 1),
        x.flip({0}),
        x.repeat({1, 2, 1}),
    };
}

std::vector<torch::Tensor> picked(torch::Tensor x, torch::Tensor index) {
    return {x.index_select(0, index), torch::index_select(x, 0, index), x.gather(0, index.unsqueeze(1).expand({index.size(0), x.size(1)})),
            x.masked_fill(x > 0, -1.0), x.t().contiguous()};
}

std::vector<torch::Tensor> parts(torch::Tensor x) {
    auto pieces = x.chunk(3, 0);
    auto halves = x.split(2, /*dim=*/1);
    auto stacked = torch::stack({pieces[0], pieces[2]}, 0);
    pieces.push_back(stacked);
    pieces.insert(pieces.end(), halves.begin(), halves.end());
    for (auto& row : x.unbind(0)) pieces.push_back(row);
    return pieces;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
    m.def("forward", &forward);
    m.def("picked", &picked);
    m.def("parts", &parts);
}
