// Asynchronous copies into shared memory (cp.async, __pipeline_memcpy_async): a queue of groups for each thread.  A copy is made when its thread
// waits for it and not before, so that a missing wait reads poison.
#pragma once

#include <string.h>

#include "block.h"

namespace emu EMU_HIDDEN {

class CopyQueue {
public:
    // `given` bytes are copied, the rest of `bytes` becomes zero.
    EMU_INLINE void add(char* to, const char* from, uint32_t bytes, uint32_t given) {
        EMU_TELL(copy_issued(to, from, bytes, given));
        append({to, from, bytes, given});
    }
    void commit() { groups_.push_back(copies_.size()); }
    // Until at most that many of the newest groups are open.
    EMU_INLINE void wait_group(size_t open) {
        if (groups_.size() - first_group_ <= open) return;
        first_group_ = groups_.size() - open;
        finish(groups_[first_group_ - 1]);
        if (first_copy_ == copies_.size() && first_group_ == groups_.size()) clear();
    }
    EMU_INLINE void wait_all() {
        finish(copies_.size());
        clear();
    }
    void clear() {
        copies_.clear();
        groups_.clear();
        first_copy_ = first_group_ = 0;
    }

    uint64_t block_serial = 0;

private:
    struct Copy {
        char* to;
        const char* from;
        uint32_t bytes, given;
    };
    void append(const Copy& copy) { copies_.push_back(copy); }
    EMU_INLINE void finish(size_t end) {
        EMU_TELL(pause_counts());
        for (; first_copy_ < end; ++first_copy_) {
            const Copy& copy = copies_[first_copy_];
            memcpy(copy.to, copy.from, copy.given);
            memset(copy.to + copy.given, 0, copy.bytes - copy.given);
        }
        EMU_TELL(resume_counts());
    }
    std::vector<Copy> copies_;
    std::vector<size_t> groups_;  // where each group ends
    size_t first_copy_ = 0, first_group_ = 0;
};

inline CopyQueue& Worker::copy_queue() { return of_block(copy_queues_, max_threads, current_->linear); }
inline CopyQueue& copy_queue() { return worker->copy_queue(); }

}  // namespace emu
