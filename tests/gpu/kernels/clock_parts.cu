// What the judge's clock adds to a kernel, and where: two processes take the steps of one certified run, and CUDA events time each step.
//
// The parent does what the judge does, the child what the runner does (docs/measuring.md, "One certified run on a GPU"). Prints one line for
// each kernel: its name, and the medians of these times in microseconds:
//   warm      the kernel alone, again and again
//   cold      the kernel alone, after 256 MiB were overwritten, as under do_bench
//   shared    the same, after the other process has copied inputs and overwritten 256 MiB
//   before    the clock's time until the kernel is released, less that of a null run
//   kernel    from the release until the parent sees `done`, less that of a null run
//   reading   from `done` until the outputs are copied, less that of a null run
//   null      what the null kernel takes by do_bench
// Nothing of the driver is linked: its functions are looked up, since a machine with nvcc may have no libcuda to link.
#include <cuda_runtime.h>
#include <dlfcn.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <vector>

#define CHECK(call)                                                        \
    do {                                                                   \
        if (const int code = int(call); code != 0) {                       \
            fprintf(stderr, "line %d: %s: %d\n", __LINE__, #call, code);   \
            exit(1);                                                       \
        }                                                                  \
    } while (0)

constexpr size_t MIB = 1 << 20, EVICTED = 256 * MIB, ARENA = 2048 * MIB, STAGE = 512 * MIB, FLAG = ARENA - 256;
constexpr int ROUNDS = 60, DROPPED = 10, SHADES = 8, THREADS = 256;

enum Mode { WARM, COLD, SHARED, RUN, NULL_RUN, NULL_COLD, MODES, QUIT };

struct Kernel {
    const char* name;
    int inputs;
    size_t input_bytes, output_bytes;
    void (*launch)(const Kernel& kernel, char* arena);

    float* input(char* arena, int index) const { return reinterpret_cast<float*>(arena + index * input_bytes); }
    float* output(char* arena) const { return input(arena, inputs); }
};

struct Page {
    uint64_t go, done;
    int mode, kernel, ready;
    float microseconds;  // by the child's events
    cudaIpcMemHandle_t arena;
};

static Page* page;

__global__ void add(const float* a, const float* b, float* c, size_t n) {
    const size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}

__global__ void row_sum(const float* a, float* sums, int columns) {
    __shared__ float part[THREADS];
    float sum = 0;
    for (int i = threadIdx.x; i < columns; i += THREADS) sum += a[size_t(blockIdx.x) * columns + i];
    part[threadIdx.x] = sum;
    __syncthreads();
    for (int width = THREADS / 2; width > 0; width /= 2) {
        if (threadIdx.x < width) part[threadIdx.x] += part[threadIdx.x + width];
        __syncthreads();
    }
    if (threadIdx.x == 0) sums[blockIdx.x] = part[0];
}

__global__ void transpose(const float* a, float* b, int n) {
    __shared__ float tile[32][33];
    const int x = blockIdx.x * 32, y = blockIdx.y * 32;
    for (int i = threadIdx.y; i < 32; i += 8) tile[i][threadIdx.x] = a[size_t(y + i) * n + x + threadIdx.x];
    __syncthreads();
    for (int i = threadIdx.y; i < 32; i += 8) b[size_t(x + i) * n + y + threadIdx.x] = tile[threadIdx.x][i];
}

__global__ void one_number(float* place) { *place = 1; }

static void launch_add(const Kernel& kernel, char* arena) {
    const size_t n = kernel.input_bytes / sizeof(float);
    add<<<unsigned((n + THREADS - 1) / THREADS), THREADS>>>(kernel.input(arena, 0), kernel.input(arena, 1), kernel.output(arena), n);
}

static void launch_row_sum(const Kernel& kernel, char* arena) { row_sum<<<8192, THREADS>>>(kernel.input(arena, 0), kernel.output(arena), 8192); }

static void launch_transpose(const Kernel& kernel, char* arena) {
    transpose<<<dim3(256, 256), dim3(32, 8)>>>(kernel.input(arena, 0), kernel.output(arena), 8192);
}

constexpr Kernel KERNELS[] = {
    {"vector_add n4194304", 2, 16 * MIB, 16 * MIB, launch_add},
    {"vector_add n16777216", 2, 64 * MIB, 64 * MIB, launch_add},
    {"row_sum 8192x8192", 1, 256 * MIB, 32 << 10, launch_row_sum},
    {"transpose n8192", 1, 256 * MIB, 256 * MIB, launch_transpose},
    {"vector_add n67108864", 2, 256 * MIB, 256 * MIB, launch_add},
};

template <typename Function>
static Function driver(const char* name) {
    static void* library = dlopen("libcuda.so.1", RTLD_NOW);
    void* found = library == nullptr ? nullptr : dlsym(library, name);
    if (found == nullptr) {
        fprintf(stderr, "the driver has no %s\n", name);
        exit(1);
    }
    return reinterpret_cast<Function>(found);
}

static void wait_for(uint64_t address, uint64_t number) {
    static const auto call = driver<int (*)(cudaStream_t, uint64_t, uint64_t, unsigned)>("cuStreamWaitValue64_v2");
    CHECK(call(nullptr, address, number, 1));  // until they are equal
}

static void publish(uint64_t address, uint64_t number) {
    static const auto call = driver<int (*)(cudaStream_t, uint64_t, uint64_t, unsigned)>("cuStreamWriteValue64_v2");
    CHECK(call(nullptr, address, number, 0));
}

static float microseconds(cudaEvent_t begin, cudaEvent_t end) {
    float milliseconds = 0;
    CHECK(cudaEventElapsedTime(&milliseconds, begin, end));
    return 1000 * milliseconds;
}

static uint64_t seen(const uint64_t& number) { return __atomic_load_n(&number, __ATOMIC_ACQUIRE); }
static void tell(uint64_t& number, uint64_t value) { __atomic_store_n(&number, value, __ATOMIC_RELEASE); }

static void runner() {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    while (__atomic_load_n(&page->ready, __ATOMIC_ACQUIRE) == 0) sched_yield();
    char *arena, *evicted;
    CHECK(cudaIpcOpenMemHandle(reinterpret_cast<void**>(&arena), page->arena, cudaIpcMemLazyEnablePeerAccess));
    CHECK(cudaMalloc(&evicted, EVICTED));
    auto* place = reinterpret_cast<float*>(evicted);
    cudaEvent_t begin, end;
    CHECK(cudaEventCreate(&begin));
    CHECK(cudaEventCreate(&end));
    for (const Kernel& one : KERNELS) one.launch(one, arena);
    one_number<<<1, 1>>>(place);
    CHECK(cudaDeviceSynchronize());
    __atomic_store_n(&page->ready, 2, __ATOMIC_RELEASE);
    for (uint64_t number = 1;; ++number) {
        while (seen(page->go) != number) {}
        if (page->mode == QUIT) _exit(0);
        const Kernel& kernel = KERNELS[page->kernel];
        const int mode = page->mode;
        if (mode == WARM) {
            kernel.launch(kernel, arena);
        } else if (mode == COLD || mode == NULL_COLD) {
            for (int i = 0; i < SHADES; ++i) CHECK(cudaMemsetAsync(evicted, 0, EVICTED));
        } else {
            wait_for(reinterpret_cast<uint64_t>(arena) + FLAG, number);
        }
        const bool by_events = mode != RUN && mode != NULL_RUN;  // an event is one more thing to do before `done`
        if (by_events) CHECK(cudaEventRecord(begin));
        if (mode == NULL_RUN || mode == NULL_COLD) {
            one_number<<<1, 1>>>(place);
        } else {
            kernel.launch(kernel, arena);
        }
        if (by_events) CHECK(cudaEventRecord(end));
        CHECK(cudaDeviceSynchronize());
        if (by_events) page->microseconds = microseconds(begin, end);
        tell(page->done, number);
    }
}

int main() {
    page = static_cast<Page*>(mmap(nullptr, sizeof(Page), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    if (fork() == 0) runner();
    char *arena, *stage, *evicted;
    CHECK(cudaMalloc(&arena, ARENA));
    CHECK(cudaMalloc(&stage, STAGE));
    CHECK(cudaMalloc(&evicted, EVICTED));
    CHECK(cudaMemset(arena, 0, ARENA));
    CHECK(cudaMemset(stage, 0, STAGE));
    CHECK(cudaIpcGetMemHandle(&page->arena, arena));
    CHECK(cudaDeviceSynchronize());
    __atomic_store_n(&page->ready, 1, __ATOMIC_RELEASE);
    while (__atomic_load_n(&page->ready, __ATOMIC_ACQUIRE) != 2) sched_yield();
    cudaEvent_t at[4];
    for (cudaEvent_t& one : at) CHECK(cudaEventCreate(&one));
    uint64_t number = 0;
    auto call = [&](int kernel, int mode) {
        page->kernel = kernel;
        page->mode = mode;
        tell(page->go, ++number);
    };
    for (int index = 0; index < int(std::size(KERNELS)); ++index) {
        const Kernel& kernel = KERNELS[index];
        std::vector<float> taken[MODES], parts[2][3];
        for (int round = 0; round < ROUNDS; ++round) {
            for (int mode = 0; mode < MODES; ++mode) {
                const bool judged = mode == SHARED || mode == RUN || mode == NULL_RUN;
                if (judged) CHECK(cudaMemsetAsync(evicted, 0, EVICTED));
                call(index, mode);
                if (judged) {
                    for (int i = 0; i < SHADES; ++i) CHECK(cudaMemsetAsync(evicted, 0, EVICTED));
                    CHECK(cudaEventRecord(at[0]));
                    for (int i = 0; i < kernel.inputs; ++i) CHECK(cudaMemcpyAsync(kernel.input(arena, i), stage, kernel.input_bytes, cudaMemcpyDeviceToDevice));
                    CHECK(cudaMemcpyAsync(kernel.output(arena), stage, kernel.output_bytes, cudaMemcpyDeviceToDevice));
                    CHECK(cudaMemsetAsync(evicted, 0, EVICTED));
                    CHECK(cudaEventRecord(at[1]));
                    publish(reinterpret_cast<uint64_t>(arena) + FLAG, number);
                }
                while (seen(page->done) != number) {}
                if (judged) {
                    CHECK(cudaEventRecord(at[2]));
                    CHECK(cudaMemcpyAsync(stage + 256 * MIB, kernel.output(arena), kernel.output_bytes, cudaMemcpyDeviceToDevice));
                    CHECK(cudaEventRecord(at[3]));
                    CHECK(cudaDeviceSynchronize());
                }
                if (round < DROPPED) continue;
                if (mode != RUN && mode != NULL_RUN) taken[mode].push_back(page->microseconds);
                for (int part = 0; part < 3 && (mode == RUN || mode == NULL_RUN); ++part) {
                    parts[mode == NULL_RUN][part].push_back(microseconds(at[part], at[part + 1]));
                }
            }
        }
        auto median = [](std::vector<float>& values) {
            std::sort(values.begin(), values.end());
            return values[values.size() / 2];
        };
        printf("%s|%.2f|%.2f|%.2f", kernel.name, median(taken[WARM]), median(taken[COLD]), median(taken[SHARED]));
        for (int part = 0; part < 3; ++part) printf("|%.2f", median(parts[0][part]) - median(parts[1][part]));
        printf("|%.2f\n", median(taken[NULL_COLD]));
    }
    call(0, QUIT);
    return 0;
}
