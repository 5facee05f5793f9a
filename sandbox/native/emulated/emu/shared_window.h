// The shared memory of one worker: one reserved range of addresses, of which a 32-bit offset names every byte, as a shared address does on a
// GPU.  Every piece of memory in it ends at an unmapped page.  Knows nothing of blocks.
#pragma once

#include "fiber.h"

namespace emu EMU_HIDDEN {

class SharedWindow {
public:
    // Addresses only, no memory: room for the static variables of some thousand kernels.
    static constexpr size_t reserved_bytes = size_t{256} << 20;
    // Offsets have the alignment of the addresses that they stand for, up to this.
    static constexpr size_t aligned_bytes = 64 * 1024;

    SharedWindow() {
        void* p = mmap(nullptr, reserved_bytes + aligned_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (p == MAP_FAILED) return;
        base_ = reinterpret_cast<char*>((reinterpret_cast<uintptr_t>(p) + aligned_bytes - 1) / aligned_bytes * aligned_bytes);
    }
    SharedWindow(const SharedWindow&) = delete;
    SharedWindow& operator=(const SharedWindow&) = delete;

    explicit operator bool() const { return base_ != nullptr; }

    // The end of new memory of at least that many bytes, with an unmapped page behind it and one before; null if there is none.
    char* extend(size_t bytes) {
        size_t rounded = (bytes + page_bytes - 1) / page_bytes * page_bytes;
        if (rounded + page_bytes > reserved_bytes - used_) return nullptr;
        char* begin = base_ + used_;
        if (mprotect(begin, rounded, PROT_READ | PROT_WRITE) != 0) return nullptr;
        used_ += rounded + page_bytes;
        return begin + rounded;
    }

    bool contains(const void* address) const { return static_cast<size_t>(static_cast<const char*>(address) - base_) < used_; }
    // 0, which is no shared address, for what is elsewhere.
    uint32_t offset_of(const void* address) const {
        return contains(address) ? static_cast<uint32_t>(static_cast<const char*>(address) - base_) : 0;
    }
    // An offset outside the window becomes 0, whose access is a fault.
    char* at(uint64_t offset) const { return base_ + (offset < used_ ? offset : 0); }

private:
    char* base_ = nullptr;
    size_t used_ = page_bytes;  // offset 0 and the page around it stay invalid
};

}  // namespace emu
