// atomicAdd of float2 and float4: each element by itself.
#include <cstdio>
__global__ void add(float2* pair, float4* four, float4* old) {
    atomicAdd(pair, make_float2(1.0f, threadIdx.x));
    atomicAdd_system(pair, make_float2(0.5f, 0.0f));
    atomicAdd(four, make_float4(1.0f, 2.0f, threadIdx.x, -0.25f));
    atomicAdd(&four->z, 1.0f);
    if (blockIdx.x == 0 && threadIdx.x == 0) *old = atomicAdd(four + 1, make_float4(5.0f, 6.0f, 7.0f, 8.0f));
}
int main() {
    float2* pair;
    float4 *four, h = {};
    cudaMallocManaged(&pair, sizeof *pair);
    cudaMallocManaged(&four, 3 * sizeof *four);
    *pair = {}, four[0] = h, four[1] = {1, 2, 3, 4}, four[2] = h;
    add<<<8, 64>>>(pair, four, four + 2);
    cudaDeviceSynchronize();
    printf("%g %g\n", pair->x, pair->y);
    for (int i = 0; i < 3; ++i) printf("%g %g %g %g\n", four[i].x, four[i].y, four[i].z, four[i].w);
}
