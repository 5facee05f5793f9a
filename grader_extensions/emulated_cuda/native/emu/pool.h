// The OS threads that share a grid's blocks.  They are made by the first launch of more than one block.
#pragma once

#include <pthread.h>
#include <sched.h>

#include "fault.h"

namespace emu EMU_HIDDEN {

inline Worker& this_worker() {
    if (!worker) {
        worker = new Worker;  // lives as long as the OS thread; its stacks are wanted again by the next launch
        watch_faults();
    }
    return *worker;
}

// A grid being run: workers draw runs of block numbers from it, the first ones first.  Blocks may wait for those before them.  Where they
// do not, every other launch of the same order begins with the last.
struct Grid {
    const Launch& launch;
    uint64_t blocks, draw, draws;
    uint64_t drawn = 0;  // from the front, and in the high half from the back
    int failure = 0;

    explicit Grid(const Launch& launch, unsigned workers) : launch(launch), blocks(launch.blocks()) {
        uint64_t share = blocks / (uint64_t{workers} * 16);
        draw = share < 1 ? 1 : share > 64 ? 64 : share;
        draws = (blocks + draw - 1) / draw;
    }

    void work() {
        Worker& self = this_worker();
        const dim3 grid = launch.grid;
        for (bool backwards = false;; backwards = launch.reversed() && self.could_take_block()) {
            uint64_t before = __atomic_fetch_add(&drawn, backwards ? uint64_t{1} << 32 : 1, __ATOMIC_RELAXED);
            uint64_t front = before & 0xffffffffu, back = before >> 32;
            if (front + back >= draws) return;
            uint64_t first = (backwards ? draws - 1 - back : front) * draw, count = blocks - first < draw ? blocks - first : draw;
            for (uint64_t step = 0; step < count; ++step) {
                if (__atomic_load_n(&failure, __ATOMIC_RELAXED)) return;
                uint64_t at = first + (backwards ? count - 1 - step : step);
                uint3 index{static_cast<unsigned>(at % grid.x), static_cast<unsigned>(at / grid.x % grid.y),
                            static_cast<unsigned>(at / grid.x / grid.y)};
                if (!self.run_block(launch, index)) __atomic_store_n(&failure, self.failure(), __ATOMIC_RELAXED);
            }
        }
    }
};

inline unsigned positive_setting(const char* name) {
    const char* text = getenv(name);
    long value = text ? strtol(text, nullptr, 10) : 0;
    return value > 0 && value < 1024 ? static_cast<unsigned>(value) : 0;
}

inline unsigned worker_count() {
#ifdef EMU_SANITIZE
    return 1;  // what it finds does not depend on who runs when
#endif
    if (unsigned set = positive_setting("GRADER_EMULATED_THREADS")) return set;
    cpu_set_t allowed;
    unsigned cores = sched_getaffinity(0, sizeof allowed, &allowed) == 0 ? static_cast<unsigned>(CPU_COUNT(&allowed)) : 1;
    unsigned set = positive_setting("OMP_NUM_THREADS");
    return set && set < cores ? set : cores;
}

class Pool {
public:
    explicit Pool(unsigned size) : size_(size) {
        for (unsigned i = 1; i < size; ++i) {
            pthread_t thread;
            if (pthread_create(&thread, nullptr, &Pool::thread_main, this) != 0) break;
            pthread_detach(thread);
            ++helpers_;
        }
    }
    unsigned size() const { return size_; }

    // The caller works too, then waits for those who still have a block in hand.
    void run(Grid& grid) {
        pthread_mutex_lock(&mutex_);
        grid_ = &grid;
        ++generation_;
        pthread_mutex_unlock(&mutex_);
        pthread_cond_broadcast(&start_);
        grid.work();
        pthread_mutex_lock(&mutex_);
        grid_ = nullptr;  // who has not woken by now has nothing left to do
        while (busy_ > 0) pthread_cond_wait(&finish_, &mutex_);
        pthread_mutex_unlock(&mutex_);
    }

private:
    static void* thread_main(void* pool) {
        static_cast<Pool*>(pool)->serve();
        return nullptr;
    }

    void serve() {
        uint64_t seen = 0;
        pthread_mutex_lock(&mutex_);
        for (;;) {
            while (generation_ == seen || !grid_) pthread_cond_wait(&start_, &mutex_);
            seen = generation_;
            Grid* grid = grid_;
            ++busy_;
            pthread_mutex_unlock(&mutex_);
            grid->work();
            pthread_mutex_lock(&mutex_);
            if (--busy_ == 0) pthread_cond_signal(&finish_);
        }
    }

    unsigned size_, helpers_ = 0, busy_ = 0;
    uint64_t generation_ = 0;
    Grid* grid_ = nullptr;
    pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_t start_ = PTHREAD_COND_INITIALIZER, finish_ = PTHREAD_COND_INITIALIZER;
};

inline pthread_mutex_t pool_mutex = PTHREAD_MUTEX_INITIALIZER;

// After a fork the child has none of its parent's threads, so the pool belongs to a process id.
inline Pool& pool() {
    static Pool* current = nullptr;
    static pid_t owner = 0;
    if (!current || owner != getpid()) {
        owner = getpid();
        current = new Pool(worker_count());
    }
    return *current;
}

// Runs every block of the launch; returns the error that ended it early, or 0.
inline int run_grid(const Launch& launch) {
    // A second host thread that launches at the same time does its own work.
    bool shared = launch.blocks() > 1 && pthread_mutex_trylock(&pool_mutex) == 0;
    Grid grid(launch, shared ? pool().size() : 1);
    if (shared) {
        pool().run(grid);
        pthread_mutex_unlock(&pool_mutex);
    } else {
        grid.work();
    }
    return grid.failure;
}

}  // namespace emu
