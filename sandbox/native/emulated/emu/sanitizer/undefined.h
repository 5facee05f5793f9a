// What g++ calls under -fsanitize=alignment,bounds, with the static description of the place that it made (gcc/ubsan.cc).
#pragma once

#include "hooks.h"

namespace emu EMU_HIDDEN {
namespace sanitizer {

struct TypeDescriptor {
    uint16_t kind, information;
    char name[1];  // quoted
};
struct SourceLocation {
    const char* file;
    uint32_t line, column;
};
struct OutOfBoundsData {
    SourceLocation location;
    const TypeDescriptor* array;
    const TypeDescriptor* index;
};
struct TypeMismatchData {
    SourceLocation location;
    const TypeDescriptor* type;
    unsigned char log_alignment, check_kind;
};

// A value of up to 64 bits is passed itself; its descriptor says whether it is signed.
EMU_COLD inline void report_bounds(const OutOfBoundsData& data, uintptr_t index, const void* code) {
    if (!worker || !worker->running()) return;
    uint32_t place = place_of(code);
    bool fresh = false;
    Finding* finding = enter("out_of_bounds", Severity::Error, &place, 1, &fresh);
    if (!finding || !fresh) return;
    add_context(*finding);
    unsigned bits = 1u << (data.index->information >> 1);
    long long value = static_cast<long long>(index);
    if (data.index->information & 1 && bits < 64) value = static_cast<long long>(static_cast<uint64_t>(index) << (64 - bits)) >> (64 - bits);
    snprintf(finding->memory, sizeof finding->memory, "%.60s", data.array->name);
    snprintf(finding->message, sizeof finding->message, "{0} uses index %lld, which is outside the array of type %.200s", value, data.array->name);
    finish(*finding);
}

EMU_COLD inline void report_misaligned(const TypeMismatchData& data, uintptr_t address, const void* code) {
    if (!worker || !worker->running()) return;
    uint32_t place = place_of(code);
    bool fresh = false;
    Finding* finding = enter("misaligned", Severity::Error, &place, 1, &fresh);
    if (!finding || !fresh) return;
    add_context(*finding);
    Memory memory = memory_at(address);
    add_memory(*finding, memory);
    const char* what = data.check_kind == 0 ? "reads" : data.check_kind == 1 ? "writes" : "uses";
    snprintf(finding->message, sizeof finding->message, "{0} %s %.120s at byte %zu of %s: the address must be a multiple of %u", what,
             data.type->name, static_cast<size_t>(memory.region ? address - memory.begin : address % 4096),
             memory.region ? describe(memory).text : "a page", 1u << data.log_alignment);
    finish(*finding);
}

}  // namespace sanitizer
}  // namespace emu

EMU_HOOK void __ubsan_handle_out_of_bounds(void* data, void* index) {
    emu::sanitizer::report_bounds(*static_cast<emu::sanitizer::OutOfBoundsData*>(data), reinterpret_cast<uintptr_t>(index), EMU_CODE);
}
EMU_HOOK void __ubsan_handle_type_mismatch_v1(void* data, void* address) {
    emu::sanitizer::report_misaligned(*static_cast<emu::sanitizer::TypeMismatchData*>(data), reinterpret_cast<uintptr_t>(address), EMU_CODE);
}
