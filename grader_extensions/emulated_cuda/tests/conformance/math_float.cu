// Functions of float that CUDA adds, to the digits that every implementation has.
#include <cstdio>
__global__ void compute(float* out) {
    float s, c;
    sincosf(0.5f, &s, &c);
    float values[] = {rsqrtf(4.0f), __expf(1.0f), __logf(10.0f), __fdividef(1.0f, 3.0f), __frcp_rn(7.0f), fmaf(2, 3, 4), __fmaf_rn(2, 3, 4),
                      erff(0.3f), tanhf(0.7f), exp2f(3.5f), __saturatef(1.5f), __saturatef(-2), s + c, cbrtf(27), rcbrtf(8), hypotf(3, 4),
                      log1pf(0.5f), expm1f(0.5f), powf(2, 0.5f), fminf(1, 2), fmaxf(1, NAN), floorf(-1.5f), roundf(2.5f), rintf(2.5f),
                      truncf(-1.7f), fabsf(-3), copysignf(2, -1), fmodf(7, 3), sinpif(0.25f), cospif(1), normcdff(1), erfinvf(0.5f), lgammaf(5.5f),
                      exp10f(0.5f), __powf(2, 3), __sinf(0.1f), __cosf(0.1f), sqrtf(2), __fsqrt_rn(2), atan2f(1, 2)};
    for (int i = 0; i < 40; ++i) out[i] = values[i];
}
int main() {
    float h[40], *out;
    cudaMalloc(&out, sizeof h);
    compute<<<1, 1>>>(out);
    cudaMemcpy(h, out, sizeof h, cudaMemcpyDeviceToHost);
    for (int i = 0; i < 40; ++i) printf("%.4f%c", h[i], i % 8 == 7 ? '\n' : ' ');
}
