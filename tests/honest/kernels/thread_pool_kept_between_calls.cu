// problem: scale_add
// why: a host thread is started in the first call, stays until the process ends, and sleeps between calls; every call waits for its answer
#include <cstdint>

#include <cuda_runtime.h>

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

__global__ void scale_add(float alpha, const float* x, const float* y, float* out, int64_t n) {
    const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < n) out[i] = alpha * x[i] + y[i];
}

class Launcher {
public:
    Launcher() : thread_([this] { serve(); }) {}

    ~Launcher() {
        hand_over(nullptr, true);
        thread_.join();
    }

    void run(std::function<void()> work) {
        hand_over(std::move(work), false);
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [this] { return !work_; });
    }

private:
    void hand_over(std::function<void()> work, bool last) {
        const std::scoped_lock lock(mutex_);
        work_ = std::move(work);
        ended_ = last;
        changed_.notify_all();
    }

    void serve() {
        std::unique_lock lock(mutex_);
        for (;;) {
            changed_.wait(lock, [this] { return work_ || ended_; });
            if (ended_) return;
            work_();
            work_ = nullptr;
            changed_.notify_all();
        }
    }

    std::mutex mutex_;
    std::condition_variable changed_;
    std::function<void()> work_;
    bool ended_ = false;
    std::thread thread_;
};

extern "C" void solve(float alpha, const float* x, const float* y, float* out, int64_t n, cudaStream_t stream) {
    static Launcher launcher;
    launcher.run([=] { scale_add<<<static_cast<unsigned>((n + 255) / 256), 256, 0, stream>>>(alpha, x, y, out, n); });
}
