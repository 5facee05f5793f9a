// finds: nothing
// What is right, and looks like what is wrong: neighbours in a char array, a double-buffered tile with one barrier a step, atomics, a
// compare-and-swap loop, copies of structs with padding.
struct Padded {
    char a;
    int b;
    double c;
    char d;
};
__global__ void bytes(char* out) {
    __shared__ char box[256];
    box[threadIdx.x] = threadIdx.x;
    __syncthreads();
    out[threadIdx.x] = box[255 - threadIdx.x];
}
__global__ void double_buffered(const int* in, int* out, int steps) {
    __shared__ int tile[2][64];
    int t = threadIdx.x, sum = 0;
    tile[0][t] = in[t];
    __syncthreads();
    for (int step = 0; step < steps; ++step) {
        if (step + 1 < steps) tile[(step + 1) % 2][t] = in[(step + 1) * 64 + t];
        sum += tile[step % 2][63 - t];
        __syncthreads();
    }
    out[t] = sum;
}
__global__ void atomics(int* out, float* top) {
    __shared__ int counts[4];
    if (threadIdx.x < 4) counts[threadIdx.x] = 0;
    __syncthreads();
    atomicAdd(&counts[threadIdx.x % 4], 1);
    atomicMax(out, static_cast<int>(threadIdx.x));
    __syncthreads();
    int* bits = reinterpret_cast<int*>(top);
    int old = *bits, assumed;
    do {
        assumed = old;
        old = atomicCAS(bits, assumed, __float_as_int(fmaxf(__int_as_float(assumed), counts[threadIdx.x % 4])));
    } while (old != assumed);
}
__global__ void structs(Padded* from, Padded* to) {
    from[threadIdx.x] = Padded{'x', 1, 2.0, 'y'};
    __syncthreads();
    to[threadIdx.x] = from[threadIdx.x ^ 1];
}
int main() {
    static int h[4 * 64];
    char* text;
    int *in, *out;
    float* top;
    Padded *from, *to;
    cudaMalloc(&text, 256), cudaMalloc(&in, sizeof h), cudaMalloc(&out, 64 * sizeof(int)), cudaMalloc(&top, sizeof(float));
    cudaMalloc(&from, 64 * sizeof(Padded)), cudaMalloc(&to, 64 * sizeof(Padded));
    cudaMemcpy(in, h, sizeof h, cudaMemcpyHostToDevice);
    cudaMemset(top, 0, sizeof(float));
    bytes<<<1, 256>>>(text);
    double_buffered<<<1, 64>>>(in, out, 4);
    atomics<<<4, 64>>>(out, top);
    structs<<<1, 64>>>(from, to);
    return cudaDeviceSynchronize();
}
