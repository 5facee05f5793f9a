// finds: error race
// A tiled product without the barrier between the use of a tile and the load of the next.
#define TILE 16
__global__ void product(const float* a, const float* b, float* c, int n) {
    __shared__ float left[TILE][TILE], right[TILE][TILE];
    int row = blockIdx.y * TILE + threadIdx.y, column = blockIdx.x * TILE + threadIdx.x;
    float sum = 0;
    for (int k = 0; k < n; k += TILE) {
        left[threadIdx.y][threadIdx.x] = a[row * n + k + threadIdx.x];
        right[threadIdx.y][threadIdx.x] = b[(k + threadIdx.y) * n + column];  // line
        __syncthreads();
        for (int i = 0; i < TILE; ++i) sum += left[threadIdx.y][i] * right[i][threadIdx.x];  // other
#ifdef FIXED
        __syncthreads();
#endif
    }
    c[row * n + column] = sum;
}
int main() {
    const int n = 32;
    static float h[n * n] = {1};
    float *a, *b, *c;
    cudaMalloc(&a, sizeof h), cudaMalloc(&b, sizeof h), cudaMalloc(&c, sizeof h);
    cudaMemcpy(a, h, sizeof h, cudaMemcpyHostToDevice);
    for (int i = 0; i < n * n; ++i) h[i] = i;
    cudaMemcpy(b, h, sizeof h, cudaMemcpyHostToDevice);
    product<<<dim3(2, 2), dim3(TILE, TILE)>>>(a, b, c, n);
    return cudaDeviceSynchronize();
}
