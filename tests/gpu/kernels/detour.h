// Replaces functions in this process: in the tables through which libraries call each other, and in their code.
#include <cstdint>
#include <cstdio>
#include <cstring>

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

struct TablePatch {
    const char* prefix;
    void* replacement;
    void* original;
    int count;
};

[[maybe_unused]] static inline bool make_writable(void* place, size_t size, int protection) {
    const uintptr_t page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE)), begin = reinterpret_cast<uintptr_t>(place) & ~(page - 1);
    const uintptr_t end = (reinterpret_cast<uintptr_t>(place) + size + page - 1) & ~(page - 1);
    return mprotect(reinterpret_cast<void*>(begin), end - begin, protection) == 0;
}

[[maybe_unused]] static inline int patch_object(dl_phdr_info* info, size_t, void* data) {
    TablePatch* patch = static_cast<TablePatch*>(data);
    const ElfW(Dyn)* dynamic = nullptr;
    for (int at = 0; at < info->dlpi_phnum; ++at)
        if (info->dlpi_phdr[at].p_type == PT_DYNAMIC) dynamic = reinterpret_cast<const ElfW(Dyn)*>(info->dlpi_addr + info->dlpi_phdr[at].p_vaddr);
    if (dynamic == nullptr || info->dlpi_name == nullptr || info->dlpi_name[0] == '\0') return 0;
    const char* strings = nullptr;
    const ElfW(Sym)* symbols = nullptr;
    struct { const ElfW(Rela)* begin; size_t bytes; } tables[2] = {{nullptr, 0}, {nullptr, 0}};
    for (; dynamic->d_tag != DT_NULL; ++dynamic) {
        switch (dynamic->d_tag) {
            case DT_STRTAB: strings = reinterpret_cast<const char*>(dynamic->d_un.d_ptr); break;
            case DT_SYMTAB: symbols = reinterpret_cast<const ElfW(Sym)*>(dynamic->d_un.d_ptr); break;
            case DT_JMPREL: tables[0].begin = reinterpret_cast<const ElfW(Rela)*>(dynamic->d_un.d_ptr); break;
            case DT_PLTRELSZ: tables[0].bytes = dynamic->d_un.d_val; break;
            case DT_RELA: tables[1].begin = reinterpret_cast<const ElfW(Rela)*>(dynamic->d_un.d_ptr); break;
            case DT_RELASZ: tables[1].bytes = dynamic->d_un.d_val; break;
        }
    }
    // Where the loader did not relocate these addresses (the vDSO), there is nothing for us.
    if (strings == nullptr || symbols == nullptr || reinterpret_cast<uintptr_t>(strings) < info->dlpi_addr) return 0;
    for (const auto& table : tables) {
        for (size_t at = 0; table.begin != nullptr && at < table.bytes / sizeof(ElfW(Rela)); ++at) {
            const ElfW(Rela)& entry = table.begin[at];
            const auto type = ELF64_R_TYPE(entry.r_info);
            if (type != R_X86_64_JUMP_SLOT && type != R_X86_64_GLOB_DAT) continue;
            const char* name = strings + symbols[ELF64_R_SYM(entry.r_info)].st_name;
            if (strncmp(name, patch->prefix, strlen(patch->prefix)) != 0) continue;
            void** slot = reinterpret_cast<void**>(info->dlpi_addr + entry.r_offset);
            if (!make_writable(slot, sizeof *slot, PROT_READ | PROT_WRITE)) continue;
            if (void* original = dlsym(RTLD_DEFAULT, name)) patch->original = original;
            *slot = patch->replacement;
            ++patch->count;
        }
    }
    return 0;
}

// Every entry of every library's table whose name begins with prefix; returns what was called before, null where there is none.
[[maybe_unused]] static inline void* patch_tables(const char* prefix, void* replacement) {
    TablePatch patch{prefix, replacement, nullptr, 0};
    dl_iterate_phdr(patch_object, &patch);
    fprintf(stderr, "%s: %d entries patched\n", prefix, patch.count);
    return patch.original;
}

// Overwrite the first bytes of a function by a jump.
[[maybe_unused]] static inline bool detour(const char* library, const char* name, void* replacement) {
    void* handle = dlopen(library, RTLD_NOW | RTLD_NOLOAD);
    unsigned char* code = handle == nullptr ? nullptr : static_cast<unsigned char*>(dlsym(handle, name));
    if (code == nullptr || !make_writable(code, 12, PROT_READ | PROT_WRITE | PROT_EXEC)) {
        fprintf(stderr, "%s: not there, or not writable\n", name);
        return false;
    }
    const unsigned char jump[12] = {0x48, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xe0};  // mov rax, replacement; jmp rax
    memcpy(code, jump, sizeof jump);
    memcpy(code + 2, &replacement, sizeof replacement);
    fprintf(stderr, "%s: detoured\n", name);
    return true;
}
