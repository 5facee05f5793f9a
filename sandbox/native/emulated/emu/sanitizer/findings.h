// What the sanitizer has found: one entry for each kind and pair of places, with a count, written as JSON lines after every launch.
// Fixed buffers and plain writes only: this also runs in a signal handler.
#pragma once

#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shadow.h"

namespace emu EMU_HIDDEN {
namespace sanitizer {

enum class Severity : unsigned char { Error, Warning, Info };

struct Index {
    unsigned x, y, z;
};

struct Finding {
    const char* kind;
    Severity severity;
    unsigned place_count;
    uint32_t places[4];  // addresses of code in this library; the message names them {0}, {1}, ...
    char message[480];
    char memory[64], kernel[160];
    Index block, thread;
    uint64_t count, logged;
};

inline constexpr unsigned finding_limit = 256;
struct Findings {
    Finding list[finding_limit];
    unsigned count = 0;
    uint32_t hash[1024] = {};  // index + 1, by kind and places
    char library[512] = {}, log[512] = {};
    bool prepared = false;
};
inline constinit Findings findings{};

// Where this library lies, and the log's name; found out once, not in a signal handler.
EMU_COLD inline void prepare() {
    if (findings.prepared) return;
    findings.prepared = true;
    Dl_info info{};
    if (dladdr(reinterpret_cast<void*>(&prepare), &info)) {
        clock.base = reinterpret_cast<uintptr_t>(info.dli_fbase);
        const char* name = info.dli_fname ? info.dli_fname : "";
        if (!realpath(name, findings.library)) snprintf(findings.library, sizeof findings.library, "%.500s", name);
    }
    if (const char* log = getenv("GRADER_SANITIZER_LOG")) snprintf(findings.log, sizeof findings.log, "%.500s", log);
}

// Places in findings are offsets in this library of what lies behind the instruction.
EMU_RAW inline uint32_t place_of(const void* code) { return static_cast<uint32_t>(reinterpret_cast<uintptr_t>(code) - clock.base); }
EMU_RAW inline uint32_t place_in(uint32_t who) { return who >> 10 << 2; }
EMU_RAW inline __attribute__((always_inline)) uint32_t who_is_at(const void* code) {
    return static_cast<uint32_t>((reinterpret_cast<uintptr_t>(code) - clock.base) << 8) & ~1023u | clock.self;
}

// The entry for these places; null where there is no room for another. `fresh` says that its text is still to be written.
EMU_COLD inline Finding* enter(const char* kind, Severity severity, const uint32_t* places, unsigned count, bool* fresh) {
    uint32_t key = static_cast<uint32_t>(severity) * 77 + static_cast<uint32_t>(strlen(kind));
    for (unsigned i = 0; i < count; ++i) key = (key ^ places[i]) * 0x9e3779b1u;
    for (uint32_t at = key >> 7;; ++at) {
        uint32_t& slot = findings.hash[at % 1024];
        if (slot == 0) {
            *fresh = true;
            if (findings.count == finding_limit) return nullptr;
            Finding& finding = findings.list[findings.count];
            slot = ++findings.count;
            finding.kind = kind;
            finding.severity = severity;
            finding.place_count = count;
            finding.count = 1;
            finding.logged = 0;
            for (unsigned i = 0; i < count; ++i) finding.places[i] = places[i];
            return &finding;
        }
        Finding& finding = findings.list[slot - 1];
        bool same = strcmp(finding.kind, kind) == 0 && finding.severity == severity && finding.place_count == count;
        for (unsigned i = 0; same && i < count; ++i) same = finding.places[i] == places[i];
        if (!same) continue;
        ++finding.count;
        *fresh = false;
        return &finding;
    }
}

struct JsonLine {
    char text[4096];
    size_t length = 0;

    EMU_RAW void put(const char* words) {
        while (*words && length + 1 < sizeof text) text[length++] = *words++;
    }
    EMU_RAW void number(uint64_t value) {
        char digits[24];
        snprintf(digits, sizeof digits, "%llu", static_cast<unsigned long long>(value));
        put(digits);
    }
    EMU_RAW void string(const char* value) {
        put("\"");
        for (; *value && length + 8 < sizeof text; ++value) {
            auto c = static_cast<unsigned char>(*value);
            if (c == '"' || c == '\\') text[length++] = '\\';
            if (c >= 32 && c < 127) text[length++] = static_cast<char>(c);
            else text[length++] = '?';
        }
        put("\"");
    }
    EMU_RAW void index(const Index& value) {
        put("["), number(value.x), put(","), number(value.y), put(","), number(value.z), put("]");
    }
};

EMU_COLD inline void write_finding(int file, unsigned id, const Finding& finding) {
    static constexpr const char* severities[] = {"error", "warning", "info"};
    JsonLine line;
    line.put("{\"id\":"), line.number(id);
    line.put(",\"kind\":"), line.string(finding.kind);
    line.put(",\"severity\":"), line.string(severities[static_cast<int>(finding.severity)]);
    line.put(",\"message\":"), line.string(finding.message);
    line.put(",\"memory\":"), line.string(finding.memory);
    line.put(",\"kernel\":"), line.string(finding.kernel);
    line.put(",\"block\":"), line.index(finding.block);
    line.put(",\"thread\":"), line.index(finding.thread);
    line.put(",\"count\":"), line.number(finding.count);
    line.put(",\"places\":[");
    for (unsigned i = 0; i < finding.place_count; ++i) {
        if (i) line.put(",");
        line.number(finding.places[i]);
    }
    line.put("],\"library\":"), line.string(findings.library);
    line.put("}\n");
    if (write(file, line.text, line.length) < 0) return;
}

// What a crash must not lose: a finding is written as soon as its text is complete.
EMU_COLD inline void finish(Finding& finding) {
    if (!findings.log[0]) return;
    int file = open(findings.log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (file < 0) return;
    write_finding(file, static_cast<unsigned>(&finding - findings.list), finding);
    finding.logged = finding.count;
    close(file);
}

// Appends what is new, or seen more often; a later line of the same number replaces an earlier one.
EMU_COLD inline void flush_findings() {
    if (!findings.log[0]) return;
    int file = -1;
    for (unsigned i = 0; i < findings.count; ++i) {
        Finding& finding = findings.list[i];
        if (finding.logged == finding.count) continue;
        if (file < 0) file = open(findings.log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
        if (file < 0) return;
        write_finding(file, i, finding);
        finding.logged = finding.count;
    }
    if (file >= 0) close(file);
}

}  // namespace sanitizer
}  // namespace emu
