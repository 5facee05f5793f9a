// Kernels that the emulated device runs as loops over the threads of a block, in every form that it knows. Prints sums of what they leave.
#include <cstdio>
#include <vector>

__global__ void early_return(const int* a, int* out, int n) {
    __shared__ int tile[64];
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (threadIdx.x % 5 == 4) return;
    tile[threadIdx.x] = a[i] + 1;
    __syncthreads();
    const int left = threadIdx.x == 0 || (threadIdx.x - 1) % 5 == 4 ? 0 : tile[threadIdx.x - 1];
    if (i >= n) return;
    out[i] = tile[threadIdx.x] * 2 + left;
}

__global__ void private_arrays(const int* a, int* out) {
    __shared__ int tile[64];
    int kept[3] = {1, 2, 3}, last(7), first{5};
    int table[2][2] = {{1, 2}, {3, 4}};
    tile[threadIdx.x] = a[threadIdx.x] * kept[1];
    __syncthreads();
    for (int i = 0; i < 3; ++i) kept[i] += tile[(threadIdx.x + i) % blockDim.x];
    table[threadIdx.x % 2][1] += last;
    __syncthreads();
    out[threadIdx.x] = kept[0] + 10 * kept[1] + 100 * kept[2] + table[0][1] + table[1][1] + last + first;
}

__global__ void moved_pointers(const int* a, int* out, int n) {
    __shared__ int tile[64];
    int sum = 0;
    a += blockIdx.x;
    out += blockIdx.x * blockDim.x + threadIdx.x;
    for (int k = 0; k < n; k += blockDim.x) {
        tile[threadIdx.x] = a[threadIdx.x];
        __syncthreads();
        a += 3;
        for (int i = 0; i < static_cast<int>(blockDim.x); ++i) sum += tile[i] * (i + k);
        __syncthreads();
    }
    *out = sum;
}

__global__ void reduction(const int* a, int* out) {
    extern __shared__ int totals[];
    const unsigned tid = threadIdx.x;
    const auto mine = tid + blockIdx.x;
    totals[tid] = a[mine];
    __syncthreads();
    for (unsigned s = blockDim.x / 2; s > 0; s >>= 1) {
        if (tid < s) totals[tid] += totals[tid + s];
        __syncthreads();
    }
    if (tid == 0) out[blockIdx.x] = totals[0];
}

__global__ void same_condition(const int* a, int* out, int mode) {
    __shared__ int tile[64];
    int value = a[threadIdx.x];
    if (mode > 1) {
        tile[threadIdx.x] = value;
        __syncthreads();
        value += tile[(threadIdx.x + 1) % blockDim.x];
    } else {
        __syncthreads();
        value = -value;
    }
    {
        int more = value * 3;
        __syncthreads();
        value += more;
    }
    out[threadIdx.x] = value;
}

__device__ void add_to(int& what, int by) { what += by; }

__global__ void changed_by_some(const int* a, int* out) {
    __shared__ int tile[64];
    int count = 0, value = 1;
    int* where = &value;
    if (threadIdx.x & 1) count++;
    tile[threadIdx.x] = a[threadIdx.x];
    __syncthreads();
    add_to(count, tile[(threadIdx.x + 3) % blockDim.x]);
    *where += threadIdx.x;
    __syncthreads();
    out[threadIdx.x] = count * 1000 + value;
}

__global__ void shapes(const int* a, int* out) {
    __shared__ int tile[4][4][4];
    int3 at = {static_cast<int>(threadIdx.x), static_cast<int>(threadIdx.y), static_cast<int>(threadIdx.z)};
    tile[at.z][at.y][at.x] = a[(at.z * 4 + at.y) * 4 + at.x];
    at.x += 1;
    __syncthreads();
    out[(at.z * 4 + at.y) * 4 + at.x - 1] = tile[at.x % 4][at.z][at.y] + at.x;
}

__global__ void ways_out(const int* a, int* out, int n) {
    __shared__ int tile[64];
    int found = -1;
    for (int round = 0; round < 3; ++round) {
        for (int i = 0; i < n; ++i) {
            if (a[i] == static_cast<int>(threadIdx.x)) {
                found = i + round;
                break;
            }
            if (a[i] % 2) continue;
            if (a[i] > 1000000) return;
        }
        switch (threadIdx.x % 3) {
            case 0: tile[threadIdx.x] = found; break;
            case 1: tile[threadIdx.x] = round; break;
            default: tile[threadIdx.x] = 2 * found; break;
        }
        __syncthreads();
        found += tile[(threadIdx.x + 1) % blockDim.x];
        __syncthreads();
    }
    out[threadIdx.x] = found;
}

template <typename T, int N>
__global__ void typed(const T* __restrict__ a, T* __restrict__ out) {
    __shared__ T tile[N];
    T sum = T(0);
    float4 wide = make_float4(1.f, 2.f, 3.f, 4.f);
    tile[threadIdx.x] = a[threadIdx.x];
    __syncthreads();
#pragma unroll
    for (int i = 0; i < N; ++i) sum += tile[i];
    wide.y += static_cast<float>(threadIdx.x);
    __syncthreads();
    out[threadIdx.x] = sum + static_cast<T>(wide.y + wide.w);
}

int main() {
    std::vector<int> values(256);
    for (int i = 0; i < 256; ++i) values[i] = i * 37 % 64;
    int *a, *out;
    cudaMalloc(&a, sizeof(int) * 256);
    cudaMalloc(&out, sizeof(int) * 256);
    cudaMemcpy(a, values.data(), sizeof(int) * 256, cudaMemcpyHostToDevice);
    auto report = [&](const char* name) {
        std::vector<int> result(256);
        cudaMemcpy(result.data(), out, sizeof(int) * 256, cudaMemcpyDeviceToHost);
        cudaMemset(out, 0, sizeof(int) * 256);
        unsigned long long sum = 0;
        for (int i = 0; i < 256; ++i) sum = sum * 31 + static_cast<unsigned>(result[i]);
        printf("%s %016llx %d %d %d\n", name, sum, result[0], result[5], result[63]);
    };
    cudaMemset(out, 0, sizeof(int) * 256);
    early_return<<<3, 64>>>(a, out, 150);
    report("early_return");
    private_arrays<<<1, 64>>>(a, out);
    report("private_arrays");
    moved_pointers<<<2, 32>>>(a, out, 128);
    report("moved_pointers");
    reduction<<<4, 64, 64 * sizeof(int)>>>(a, out);
    report("reduction");
    for (int mode = 1; mode < 3; ++mode) {
        same_condition<<<1, 48>>>(a, out, mode);
        report("same_condition");
    }
    changed_by_some<<<1, 64>>>(a, out);
    report("changed_by_some");
    shapes<<<1, dim3(4, 4, 4)>>>(a, out);
    report("shapes");
    ways_out<<<1, 64>>>(a, out, 64);
    report("ways_out");
    typed<int, 32><<<1, 32>>>(a, out);
    report("typed");
    return cudaDeviceSynchronize();
}
