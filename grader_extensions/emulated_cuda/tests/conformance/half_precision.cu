// fp16: conversions with every rounding, arithmetic, pairs, comparisons, functions.
#include <cuda_fp16.h>
#include <cstdio>
__global__ void compute(float* out, unsigned short* raw) {
    half a = __float2half(1.1f), b = __float2half_rn(2.3f), c = half(0.7f);
    out[0] = __half2float(__hadd(a, b)), out[1] = __half2float(__hmul(a, b)), out[2] = __half2float(__hfma(a, b, c));
    out[3] = __half2float(a - b), out[4] = __half2float(a / b), out[5] = (float)hexp(c), out[6] = (float)hsqrt(b), out[7] = (float)__hneg(a);
    half2 p = __floats2half2_rn(1.5f, -2.5f), q = __half2half2(b);
    half2 r = __hfma2(p, q, __float2half2_rn(0.25f));
    float2 f = __half22float2(__hadd2(r, p));
    out[8] = f.x, out[9] = f.y, out[10] = __low2float(r * q), out[11] = __high2float(h2exp(p));
    out[12] = __hgt(a, b), out[13] = __hlt(a, b), out[14] = a == a, out[15] = (float)__hmax(a, b);
    raw[0] = __half_as_ushort(__float2half_rz(1.0009f)), raw[1] = __half_as_ushort(__float2half_ru(1.0001f));
    raw[2] = __half_as_ushort(__float2half_rd(-1.0001f)), raw[3] = __half_as_ushort(__float2half(1e-7f)), raw[4] = __half_as_ushort(__float2half(65520.0f));
    raw[5] = __half_as_ushort(__int2half_rn(2049)), raw[6] = __half2int_rn(__float2half(2.5f)), raw[7] = __half_as_ushort(__ushort_as_half(0x3c01));
}
int main() {
    float h[16], *out;
    unsigned short hr[8], *raw;
    cudaMalloc(&out, sizeof h), cudaMalloc(&raw, sizeof hr);
    compute<<<1, 1>>>(out, raw);
    cudaMemcpy(h, out, sizeof h, cudaMemcpyDeviceToHost);
    cudaMemcpy(hr, raw, sizeof hr, cudaMemcpyDeviceToHost);
    for (float x : h) printf("%g ", x);
    for (unsigned x : hr) printf("%04x ", x);
    printf("\n");
}
