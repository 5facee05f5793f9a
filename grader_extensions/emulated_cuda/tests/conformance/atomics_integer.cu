// Every integer atomic, from many blocks at once.
#include <cstdio>
__global__ void all(int* i, unsigned* u, unsigned long long* l) {
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    atomicAdd(&i[0], t);
    atomicSub(&i[1], 2);
    atomicMin(&i[2], 500 - t);
    atomicMax(&i[3], t % 777);
    atomicAdd(&u[0], 3u);
    atomicInc(&u[1], 9u);
    atomicDec(&u[2], 6u);
    atomicAnd(&u[3], ~(1u << t % 5));
    atomicOr(&u[4], 1u << t % 11);
    atomicXor(&u[5], (unsigned)t);
    atomicMax(&u[6], (unsigned)t * 5u);
    atomicAdd(&l[0], 1ull << 33);
    atomicMax(&l[1], (unsigned long long)t << 20);
    atomicAdd_block(&l[2], 1ull);
}
int main() {
    int hi[4] = {0, 0, 0, 0}, *i;
    unsigned hu[7] = {0, 0, 3, ~0u, 0, 0, 0}, *u;
    unsigned long long hl[3] = {0, 0, 0}, *l;
    cudaMalloc(&i, sizeof hi), cudaMalloc(&u, sizeof hu), cudaMalloc(&l, sizeof hl);
    cudaMemcpy(i, hi, sizeof hi, cudaMemcpyHostToDevice);
    cudaMemcpy(u, hu, sizeof hu, cudaMemcpyHostToDevice);
    cudaMemcpy(l, hl, sizeof hl, cudaMemcpyHostToDevice);
    all<<<10, 100>>>(i, u, l);
    cudaMemcpy(hi, i, sizeof hi, cudaMemcpyDeviceToHost);
    cudaMemcpy(hu, u, sizeof hu, cudaMemcpyDeviceToHost);
    cudaMemcpy(hl, l, sizeof hl, cudaMemcpyDeviceToHost);
    for (int x : hi) printf("%d ", x);
    for (unsigned x : hu) printf("%u ", x);
    printf("%llu %llu\n", hl[0], hl[1]);
}
