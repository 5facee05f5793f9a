// Torch's header of this name, without the list of tensors, which would bring the interpreter's values.
#pragma once
#include <ATen/core/Tensor.h>
#include <c10/core/DeviceGuard.h>

namespace at {
inline std::optional<Device> device_of(const Tensor& tensor) {
    return tensor.defined() ? std::optional<Device>(tensor.device()) : std::nullopt;
}
inline std::optional<Device> device_of(const std::optional<Tensor>& tensor) { return tensor.has_value() ? device_of(*tensor) : std::nullopt; }
}  // namespace at
