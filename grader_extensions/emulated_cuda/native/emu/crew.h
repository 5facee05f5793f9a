// The OS threads that run blocks: a grid's, which they share, and those of a team.
#pragma once

#include <pthread.h>
#include <sched.h>

#include "block.h"

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

// The OS threads that blocks run on, made once and kept.
class Crew {
public:
    // False where the system gives no more threads.
    bool reserve(unsigned count) {
        while (members_ < count) {
            auto* seat = new Seat{this, members_};
            pthread_t thread;
            if (pthread_create(&thread, nullptr, &Crew::thread_main, seat) != 0) {
                delete seat;
                return false;
            }
            pthread_detach(thread);
            ++members_;
        }
        return true;
    }

    // Has members 0 to `count` - 1 call work(rank), each once, and waits for all of them.
    template <class Work>
    void run_all(unsigned count, Work& work) {
        pthread_mutex_lock(&mutex_);
        begin(count, work);
        while (begun_ < count) pthread_cond_wait(&finish_, &mutex_);
        end();
    }
    // The caller calls work() too, then waits for those who are still at it; who has not woken by then has nothing left to do.
    template <class Work>
    void run_some(unsigned count, Work& work) {
        pthread_mutex_lock(&mutex_);
        begin(count, work);
        pthread_mutex_unlock(&mutex_);
        work(count);
        pthread_mutex_lock(&mutex_);
        end();
    }

private:
    struct Seat {
        Crew* crew;
        unsigned rank;
    };
    template <class Work>
    void begin(unsigned count, Work& work) {
        work_ = [](void* opaque, unsigned rank) { (*static_cast<Work*>(opaque))(rank); };
        opaque_ = &work;
        wanted_ = count;
        begun_ = 0;
        ++generation_;
        pthread_cond_broadcast(&start_);
    }
    void end() {
        wanted_ = 0;
        while (busy_ > 0) pthread_cond_wait(&finish_, &mutex_);
        pthread_mutex_unlock(&mutex_);
    }
    static void* thread_main(void* opaque) {
        Seat seat = *static_cast<Seat*>(opaque);
        delete static_cast<Seat*>(opaque);
        seat.crew->serve(seat.rank);
        return nullptr;
    }
    void serve(unsigned rank) {
        uint64_t seen = 0;
        pthread_mutex_lock(&mutex_);
        for (;;) {
            while (generation_ == seen || rank >= wanted_) pthread_cond_wait(&start_, &mutex_);
            seen = generation_;
            ++begun_;
            ++busy_;
            pthread_mutex_unlock(&mutex_);
            work_(opaque_, rank);
            pthread_mutex_lock(&mutex_);
            if (--busy_ == 0) pthread_cond_signal(&finish_);
        }
    }

    unsigned members_ = 0, wanted_ = 0, begun_ = 0, busy_ = 0;
    uint64_t generation_ = 0;
    void (*work_)(void* opaque, unsigned rank) = nullptr;
    void* opaque_ = nullptr;
    pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_t start_ = PTHREAD_COND_INITIALIZER, finish_ = PTHREAD_COND_INITIALIZER;
};

// After a fork the child has none of its parent's threads, so a crew belongs to a process id.
struct CrewOfProcess {
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    pid_t owner = 0;
    Crew* crew = nullptr;

    Crew& get() {
        if (owner != getpid()) {
            owner = getpid();
            crew = new Crew;
        }
        return *crew;
    }
};
inline CrewOfProcess grid_crew, team_crew;  // two, for a team may have hundreds of threads, and each launch wakes a whole crew

// Runs every block of the launch; returns the error that ended it early, or 0.
inline int run_grid(const Launch& launch) {
    static const unsigned workers = worker_count();
    // A second host thread that launches at the same time does its own work.
    bool shared = launch.blocks() > 1 && pthread_mutex_trylock(&grid_crew.mutex) == 0;
    Grid grid(launch, shared ? workers : 1);
    if (shared) {
        auto work = [&](unsigned) { grid.work(); };
        Crew& crew = grid_crew.get();
        crew.reserve(workers - 1);
        crew.run_some(workers - 1, work);
        pthread_mutex_unlock(&grid_crew.mutex);
    } else {
        grid.work();
    }
    return grid.failure;
}

// Blocks that run at the same time, because they wait for each other: those of a cooperative grid, or of a cluster.  Each has an OS thread
// of its own, and so a worker and its shared memory.

inline constexpr unsigned max_team = 256;

struct Team {
    const Launch& launch;
    unsigned size;
    bool whole_grid;
    uint64_t groups;
    int failure = 0;
    Worker* workers[max_team] = {};

    // A barrier of the team: blocks that have ended are not waited for.
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    unsigned arrived = 0, live = 0;
    uint64_t phase = 0;
    uint64_t arrived_at[max_team] = {};
    pthread_barrier_t between;

    uint64_t now() { return __atomic_load_n(&phase, __ATOMIC_SEQ_CST); }
    void count(bool ends) {
        pthread_mutex_lock(&mutex);
        if (ends) --live;
        else ++arrived;
        if (arrived > 0 && arrived == live) {
            arrived = 0;
            __atomic_fetch_add(&phase, 1, __ATOMIC_SEQ_CST);
        }
        pthread_mutex_unlock(&mutex);
    }

    uint3 index_of(uint64_t group, unsigned rank) const {
        dim3 c = launch.cluster, g = launch.grid;
        if (whole_grid) return {rank % g.x, rank / g.x % g.y, rank / g.x / g.y};
        auto across = static_cast<unsigned>(group % (g.x / c.x)), rest = static_cast<unsigned>(group / (g.x / c.x));
        unsigned down = rest % (g.y / c.y), deep = rest / (g.y / c.y);
        return {across * c.x + rank % c.x, down * c.y + rank / c.x % c.y, deep * c.z + rank / c.x / c.y};
    }

    void operator()(unsigned rank);
};

inline EMU_THREAD_LOCAL Team* team = nullptr;
inline EMU_THREAD_LOCAL unsigned team_rank = 0;

inline void Team::operator()(unsigned rank) {
    Worker& self = this_worker();
    workers[rank] = &self;
    team = this;
    team_rank = rank;
    for (uint64_t group = 0; group < groups; ++group) {
        if (rank == 0) {
            arrived = 0;
            live = size;
        }
        arrived_at[rank] = 0;
        pthread_barrier_wait(&between);
        if (!self.run_block(launch, index_of(group, rank))) __atomic_store_n(&failure, self.failure(), __ATOMIC_SEQ_CST);
        count(true);
        pthread_barrier_wait(&between);
        if (__atomic_load_n(&failure, __ATOMIC_SEQ_CST)) break;
    }
    team = nullptr;
}

// Runs the launch with `size` blocks at a time; returns the error that ended it early, or 0.
inline int run_team(const Launch& launch, unsigned size, bool whole_grid) {
    pthread_mutex_lock(&team_crew.mutex);
    Crew& crew = team_crew.get();
    int result = 720;
    if (crew.reserve(size)) {
        Team work{launch, size, whole_grid, launch.blocks() / size};
        pthread_barrier_init(&work.between, nullptr, size);
        crew.run_all(size, work);
        pthread_barrier_destroy(&work.between);
        result = work.failure;
    }
    pthread_mutex_unlock(&team_crew.mutex);
    return result;
}

// Every thread of the block calls both. The phase cannot end before this block has arrived.
inline uint64_t team_arrive() {
    uint64_t phase = team->now();
    worker->barrier(true);
    uint64_t& own = team->arrived_at[team_rank];
    if (own != phase + 1) {
        own = phase + 1;
        team->count(false);
    }
    return phase;
}
inline void team_wait(uint64_t phase) {
    while (team->now() == phase) {
        if (int failure = __atomic_load_n(&team->failure, __ATOMIC_SEQ_CST)) worker->give_up(failure);
        worker->yield();
        if (worker->current().linear == 0) sched_yield();
    }
}

inline void* Worker::counterpart(const Worker& own, const void* address) const {
    auto* place = static_cast<const char*>(address);
    if (place >= own.dynamic_base_ && place < own.dynamic_end_) return static_cast<char*>(dynamic_base_) + (place - static_cast<char*>(own.dynamic_base_));
    size_t nearest = own.slots_.size();
    for (size_t slot = 0; slot < own.slots_.size(); ++slot) {
        const SharedSlot& entry = own.slots_[slot];
        if (entry.block_serial != own.block_serial_ || entry.address > address) continue;
        if (nearest == own.slots_.size() || entry.address > own.slots_[nearest].address) nearest = slot;
    }
    if (nearest >= slots_.size() || slots_[nearest].block_serial != block_serial_) return nullptr;
    return static_cast<char*>(slots_[nearest].address) + (place - static_cast<char*>(own.slots_[nearest].address));
}

}  // namespace emu
