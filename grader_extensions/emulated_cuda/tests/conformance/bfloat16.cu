// bf16: conversions, arithmetic, pairs and functions.
#include <cuda_bf16.h>
#include <cstdio>
__global__ void compute(float* out) {
    __nv_bfloat16 a = __float2bfloat16(1.1f), b = __float2bfloat16(2.3f), c = __float2bfloat16_rn(-0.7f);
    out[0] = __bfloat162float(__hadd(a, b)), out[1] = __bfloat162float(a * b), out[2] = __bfloat162float(__hfma(a, b, c));
    __nv_bfloat162 p = __floats2bfloat162_rn(1.5f, -2.5f), q = __bfloat162bfloat162(b);
    float2 f = __bfloat1622float2(__hmul2(p, q));
    out[3] = f.x, out[4] = f.y, out[5] = (float)hexp(c), out[6] = __bfloat162float(__habs(c)), out[7] = __low2float(p + q);
    out[8] = __bfloat16_as_ushort(__float2bfloat16_rz(3.999f)), out[9] = __hlt(a, b), out[10] = (float)__hmin(a, c), out[11] = __bfloat162float(__float2bfloat16(1e30f));
}
int main() {
    float h[12], *out;
    cudaMalloc(&out, sizeof h);
    compute<<<1, 1>>>(out);
    cudaMemcpy(h, out, sizeof h, cudaMemcpyDeviceToHost);
    for (float x : h) printf("%g ", x);
    printf("\n");
}
