// Stands for torch's header of this name.
#pragma once
#include <cmath>

namespace c10::cuda::compat {
using std::abs; using std::ceil; using std::copysign; using std::exp; using std::floor; using std::log; using std::log1p;
using std::max; using std::min; using std::pow; using std::sin; using std::cos; using std::sqrt; using std::tan; using std::tanh; using std::isnan;
inline float rsqrt(float x) { return 1.0f / std::sqrt(x); }
inline double rsqrt(double x) { return 1.0 / std::sqrt(x); }
}  // namespace c10::cuda::compat
