// Functions of double, and overloads by type.
#include <cstdio>
__global__ void compute(double* out) {
    double values[] = {rsqrt(4.0), exp(1.0), log2(10.0), fma(2.0, 3.0, 4.0), erfc(0.3), tgamma(4.5), cbrt(2.0), norm3d(1, 2, 2),
                       max(1, 2) + 0.5, min(1.5f, 2.5f), max(2u, 7u) * 1.0, abs(-4.5), sqrt(2.0f), pow(2.0, 10.0), __dadd_rn(0.1, 0.2), sinpi(0.5)};
    for (int i = 0; i < 16; ++i) out[i] = values[i];
}
int main() {
    double h[16], *out;
    cudaMalloc(&out, sizeof h);
    compute<<<1, 1>>>(out);
    cudaMemcpy(h, out, sizeof h, cudaMemcpyDeviceToHost);
    for (int i = 0; i < 16; ++i) printf("%.6f%c", h[i], i % 8 == 7 ? '\n' : ' ');
}
