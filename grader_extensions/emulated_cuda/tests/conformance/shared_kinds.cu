// Static shared scalars, structs, several names in one declaration, volatile, alignment, and one inside a device function.
#include <cstdio>
struct Pair {
    int key;
    float value;
};
__device__ int next_ticket(int by) {
    __shared__ int tickets[4];
    if (threadIdx.x < 4) tickets[threadIdx.x] = threadIdx.x * by;
    __syncthreads();
    return tickets[threadIdx.x % 4];
}
template <typename T, int N>
__global__ void kinds(float* out) {
    __shared__ T first;
    __shared__ Pair pairs[N];
    static __shared__ volatile int flag, count[2];
    __shared__ __align__(16) float quad[N * 4];
    __shared__ int cube[2][3][N];
    if (threadIdx.x == 0) first = T(2.5), flag = 7, count[0] = 3, count[1] = 4;
    pairs[threadIdx.x] = Pair{(int)threadIdx.x, threadIdx.x * 0.25f};
    reinterpret_cast<float4*>(quad)[threadIdx.x] = make_float4(1, 2, 3, threadIdx.x);
    for (int i = 0; i < 6; ++i) cube[i / 3][i % 3][threadIdx.x] = i;
    __syncthreads();
    Pair p = pairs[N - 1 - threadIdx.x];
    float sum = p.key + p.value + (float)first + flag + count[0] + count[1] + quad[threadIdx.x * 4 + 3] + cube[1][2][N - 1 - threadIdx.x];
    out[threadIdx.x] = sum + next_ticket(100) + sizeof(cube) / sizeof(int);
}
int main() {
    float h[16], *out;
    cudaMalloc(&out, sizeof h);
    kinds<double, 16><<<1, 16>>>(out);
    cudaMemcpy(h, out, sizeof h, cudaMemcpyDeviceToHost);
    for (float x : h) printf("%g ", x);
    printf("\n");
}
