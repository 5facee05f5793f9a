// cuda::barrier, cuda::pipeline and cuda::memcpy_async inside a block.
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cstdio>
#include <cuda/barrier>
#include <cuda/pipeline>
namespace cg = cooperative_groups;
using Barrier = cuda::barrier<cuda::thread_scope_block>;
__global__ void waits(int* out) {
    __shared__ Barrier bar;
    __shared__ int box[64];
    int t = threadIdx.x, sum = 0;
    if (t == 0) init(&bar, blockDim.x);
    __syncthreads();
    for (int round = 0; round < 5; ++round) {
        box[t] = t * 10 + round;
        bar.arrive_and_wait();
        sum += box[(t + 7) % 64];
        bar.arrive_and_wait();
    }
    out[t] = sum;
    box[t] = t + 1;
    Barrier::arrival_token token = bar.arrive();
    int own = t * t;
    bar.wait(std::move(token));
    out[64 + t] = own + box[63 - t];
    bar.wait(bar.arrive());
    out[64 + t] += box[t ^ 1];
}
// One warp produces, the others consume.
__global__ void produce(int* out) {
    __shared__ Barrier ready[2], filled[2];
    __shared__ int box[2][32];
    int t = threadIdx.x, sum = 0;
    if (t < 2) init(&ready[t], blockDim.x), init(&filled[t], blockDim.x);
    __syncthreads();
    if (t < 32) {
        for (int i = 0; i < 6; ++i) {
            ready[i % 2].arrive_and_wait();
            box[i % 2][t] = i * 100 + t;
            (void)filled[i % 2].arrive();
        }
    } else {
        (void)ready[0].arrive();
        (void)ready[1].arrive();
        for (int i = 0; i < 6; ++i) {
            filled[i % 2].arrive_and_wait();
            sum += box[i % 2][(t * 5) % 32];
            if (i < 4) (void)ready[i % 2].arrive();
        }
    }
    out[t] = sum;
}
__global__ void drop(int* out) {
    __shared__ Barrier bar;
    int t = threadIdx.x;
    if (t == 0) init(&bar, 48), out[0] = 0;
    __syncthreads();
    if (t >= 48) return;
    if (t >= 40) {
        bar.arrive_and_drop();
        return;
    }
    for (int i = 0; i < 3; ++i) bar.arrive_and_wait(), atomicAdd(out, t);
}
__global__ void copies(const int* in, int* out) {
    __shared__ Barrier bar;
    __shared__ alignas(16) int box[256], second[256];
    auto block = cg::this_thread_block();
    if (block.thread_rank() == 0) init(&bar, block.size());
    block.sync();
    cuda::memcpy_async(block, box, in, sizeof box, bar);
    bar.arrive_and_wait();
    int t = threadIdx.x;
    cuda::memcpy_async(&second[t * 4], &in[256 + t * 4], cuda::aligned_size_t<16>(16), bar);
    bar.arrive_and_wait();
    out[t] = box[255 - t] + second[(t * 3) % 256];
    block.sync();
    cg::memcpy_async(block, box, in + 512, sizeof box);
    cg::wait(block);
    out[64 + t] = box[t * 4 + 1];
}
template <int Stages>
__global__ void stages(const int* in, int* out, int batches) {
    __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, Stages> state;
    __shared__ int box[Stages][64];
    auto block = cg::this_thread_block();
    auto pipe = cuda::make_pipeline(block, &state);
    int sum = 0;
    for (int compute = 0, fetch = 0; compute < batches; ++compute) {
        for (; fetch < batches && fetch < compute + Stages; ++fetch) {
            pipe.producer_acquire();
            cuda::memcpy_async(block, box[fetch % Stages], in + fetch * 64, sizeof(int) * 64, pipe);
            pipe.producer_commit();
        }
        pipe.consumer_wait();
        sum = sum * 3 + box[compute % Stages][(threadIdx.x * 7 + 1) % 64];
        pipe.consumer_release();
    }
    out[threadIdx.x] = sum;
}
__global__ void alone(const int* in, int* out) {
    __shared__ int box[2][64];
    auto pipe = cuda::make_pipeline();
    int t = threadIdx.x, sum = 0;
    pipe.producer_acquire();
    cuda::memcpy_async(&box[0][t], &in[t], sizeof(int), pipe);
    pipe.producer_commit();
    for (int i = 1; i <= 4; ++i) {
        if (i < 4) {
            pipe.producer_acquire();
            cuda::memcpy_async(&box[i % 2][t], &in[i * 64 + t], sizeof(int), pipe);
            pipe.producer_commit();
            cuda::pipeline_consumer_wait_prior<1>(pipe);
        } else {
            cuda::pipeline_consumer_wait_prior<0>(pipe);
        }
        sum = sum * 5 + box[(i - 1) % 2][t];
        pipe.consumer_release();
    }
    out[t] = sum;
}
// Producers and consumers of one pipeline are different threads.
__global__ void roles(const int* in, int* out) {
    __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 2> state;
    __shared__ int box[2][32];
    auto block = cg::this_thread_block();
    int t = threadIdx.x, sum = 0;
    auto role = t < 32 ? cuda::pipeline_role::producer : cuda::pipeline_role::consumer;
    auto pipe = cuda::make_pipeline(block, &state, role);
    if (t < 32) {
        for (int i = 0; i < 5; ++i) {
            pipe.producer_acquire();
            cuda::memcpy_async(&box[i % 2][t], &in[i * 32 + t], sizeof(int), pipe);
            pipe.producer_commit();
        }
    } else {
        for (int i = 0; i < 5; ++i) {
            pipe.consumer_wait();
            sum = sum * 3 + box[i % 2][(t * 3) % 32];
            pipe.consumer_release();
        }
    }
    out[t] = sum;
}
void show(const char* name, const int* d, int n) {
    static int h[1024];
    cudaMemcpy(h, d, n * sizeof(int), cudaMemcpyDeviceToHost);
    unsigned sum = 0;
    for (int i = 0; i < n; ++i) sum = sum * 31 + static_cast<unsigned>(h[i]);
    printf("%s %08x: %d %d %d ... %d\n", name, sum, h[0], h[1], h[2], h[n - 1]);
}
int main() {
    static int h[1024];
    int *in, *out;
    for (int i = 0; i < 1024; ++i) h[i] = (i * 7919 + 13) % 1009;
    cudaMalloc(&in, sizeof h), cudaMalloc(&out, 4096);
    cudaMemcpy(in, h, sizeof h, cudaMemcpyHostToDevice);
    waits<<<1, 64>>>(out);
    show("waits", out, 128);
    produce<<<1, 128>>>(out);
    show("produce", out, 128);
    show("consumed", out + 32, 96);
    drop<<<1, 64>>>(out);
    show("drop", out, 1);
    copies<<<1, 64>>>(in, out);
    show("copies", out, 128);
    stages<1><<<1, 64>>>(in, out, 9);
    show("one stage", out, 64);
    stages<3><<<1, 64>>>(in, out, 9);
    show("three stages", out, 64);
    alone<<<1, 64>>>(in, out);
    show("alone", out, 64);
    roles<<<1, 64>>>(in, out);
    show("roles", out + 32, 32);
    printf("%s\n", cudaGetErrorString(cudaDeviceSynchronize()));
}
