// Lengths of vectors and their reciprocals; modified Bessel functions.
#include <cstdio>
__global__ void norms(double* out) {
    double d[5] = {1, -2, 3e200, 4, 5e200};
    float f[3] = {2e30f, 3e30f, 6e30f};
    *out++ = norm(5, d), *out++ = rnorm(5, d), *out++ = normf(3, f), *out++ = rnormf(3, f);
    *out++ = norm3d(2, 3, 6), *out++ = rnorm3d(2, 3, 6), *out++ = norm3df(2, 3, 6), *out++ = rnorm3df(2, 3, 6);
    *out++ = norm4d(1, 1, 3, 5), *out++ = rnorm4d(1, 1, 3, 5), *out++ = norm4df(1, 1, 3, 5), *out++ = rnorm4df(1, 1, 3, 5);
    *out++ = cyl_bessel_i0(1.0), *out++ = cyl_bessel_i1(-2.0), *out++ = cyl_bessel_i0f(-10.0f), *out++ = cyl_bessel_i1f(0.5f);
    *out++ = cyl_bessel_i0(700.0), *out++ = cyl_bessel_i1(1e300), *out++ = cyl_bessel_i0(0.0), *out++ = cyl_bessel_i1(0.0);
}
int main() {
    double* out;
    cudaMallocManaged(&out, 20 * sizeof *out);
    norms<<<1, 1>>>(out);
    cudaDeviceSynchronize();
    for (int i = 0; i < 20; ++i) printf("%.5g%c", out[i], i % 4 == 3 ? '\n' : ' ');
}
