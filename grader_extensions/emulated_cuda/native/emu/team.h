// Blocks that run at the same time, because they wait for each other: those of a cooperative grid, or of a cluster.  Each has an OS thread
// of its own, and so a worker and its shared memory.
#pragma once

#include "pool.h"

namespace emu EMU_HIDDEN {

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
