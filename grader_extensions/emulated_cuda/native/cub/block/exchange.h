// cub::BlockExchange, BlockLoad, BlockStore: who of a block holds which item.
#pragma once

#include <climits>

#include "../types.h"
#include "../../emu/libraries/together.h"

namespace cub {

enum BlockLoadAlgorithm {
    BLOCK_LOAD_DIRECT, BLOCK_LOAD_STRIPED, BLOCK_LOAD_VECTORIZE, BLOCK_LOAD_TRANSPOSE, BLOCK_LOAD_WARP_TRANSPOSE,
    BLOCK_LOAD_WARP_TRANSPOSE_TIMESLICED,
};
enum BlockStoreAlgorithm {
    BLOCK_STORE_DIRECT, BLOCK_STORE_STRIPED, BLOCK_STORE_VECTORIZE, BLOCK_STORE_TRANSPOSE, BLOCK_STORE_WARP_TRANSPOSE,
    BLOCK_STORE_WARP_TRANSPOSE_TIMESLICED,
};

namespace emulated {

template <class T>
struct ExchangePart {
    const T* in;
    T* out;
    const int* ranks;
};

// Items as one array, in blocked order (thread 0's first) or striped order (everybody's first).
inline size_t place(size_t thread, size_t item, size_t threads, size_t items, bool striped) {
    return striped ? item * threads + thread : thread * items + item;
}
inline int number_in_block() { return static_cast<int>(emu::worker->current().linear); }

template <class T, class Parts>
void rearrange(const Parts& parts, size_t items, bool from_striped, bool to_striped) {
    std::vector<T> all(parts.size() * items);
    for (size_t t = 0; t < parts.size(); ++t)
        for (size_t i = 0; i < items; ++i)
            all[parts[t]->ranks ? static_cast<size_t>(parts[t]->ranks[i]) : place(t, i, parts.size(), items, from_striped)] = parts[t]->in[i];
    for (size_t t = 0; t < parts.size(); ++t)
        for (size_t i = 0; i < items; ++i) parts[t]->out[i] = all[place(t, i, parts.size(), items, to_striped)];
}

}  // namespace emulated

template <class T, int X, int Items, bool = false, int Y = 1, int Z = 1, int = 0>
class BlockExchange {
    template <class Out>
    void run(const T* in, Out* out, const int* ranks, bool from_striped, bool to_striped) {
        T moved[Items];
        emulated::ExchangePart<T> own{in, moved, ranks};
        emu::block_together(own, [&](const auto& parts) { emulated::rearrange<T>(parts, Items, from_striped, to_striped); });
        for (int i = 0; i < Items; ++i) out[i] = moved[i];
    }

public:
    using TempStorage = emulated::Storage<T>;
    BlockExchange() = default;
    explicit BlockExchange(TempStorage&) {}
    template <class Out>
    void StripedToBlocked(const T (&in)[Items], Out (&out)[Items]) { run(in, out, nullptr, true, false); }
    template <class Out>
    void BlockedToStriped(const T (&in)[Items], Out (&out)[Items]) { run(in, out, nullptr, false, true); }
    template <class Out>
    void ScatterToBlocked(const T (&in)[Items], Out (&out)[Items], int (&ranks)[Items]) { run(in, out, ranks, false, false); }
    template <class Out>
    void ScatterToStriped(const T (&in)[Items], Out (&out)[Items], int (&ranks)[Items]) { run(in, out, ranks, false, true); }
    void StripedToBlocked(T (&items)[Items]) { StripedToBlocked(items, items); }
    void BlockedToStriped(T (&items)[Items]) { BlockedToStriped(items, items); }
    void ScatterToBlocked(T (&items)[Items], int (&ranks)[Items]) { ScatterToBlocked(items, items, ranks); }
    void ScatterToStriped(T (&items)[Items], int (&ranks)[Items]) { ScatterToStriped(items, items, ranks); }
};

template <class T, int Items, class Iterator>
void LoadDirectBlocked(int thread, Iterator from, T (&items)[Items], int valid = INT_MAX) {
    for (int i = 0; i < Items && thread * Items + i < valid; ++i) items[i] = from[thread * Items + i];
}
template <class T, class Default, int Items, class Iterator>
void LoadDirectBlocked(int thread, Iterator from, T (&items)[Items], int valid, Default other) {
    for (T& item : items) item = other;
    LoadDirectBlocked(thread, from, items, valid);
}
template <int Threads, class T, int Items, class Iterator>
void LoadDirectStriped(int thread, Iterator from, T (&items)[Items], int valid = INT_MAX) {
    for (int i = 0; i < Items && i * Threads + thread < valid; ++i) items[i] = from[i * Threads + thread];
}
template <int Threads, class T, class Default, int Items, class Iterator>
void LoadDirectStriped(int thread, Iterator from, T (&items)[Items], int valid, Default other) {
    for (T& item : items) item = other;
    LoadDirectStriped<Threads>(thread, from, items, valid);
}
template <class T, int Items>
void LoadDirectBlockedVectorized(int thread, const T* from, T (&items)[Items]) { LoadDirectBlocked(thread, from, items); }
template <class T, int Items, class Iterator>
void StoreDirectBlocked(int thread, Iterator to, T (&items)[Items], int valid = INT_MAX) {
    for (int i = 0; i < Items && thread * Items + i < valid; ++i) to[thread * Items + i] = items[i];
}
template <int Threads, class T, int Items, class Iterator>
void StoreDirectStriped(int thread, Iterator to, T (&items)[Items], int valid = INT_MAX) {
    for (int i = 0; i < Items && i * Threads + thread < valid; ++i) to[i * Threads + thread] = items[i];
}
template <class T, int Items>
void StoreDirectBlockedVectorized(int thread, T* to, T (&items)[Items]) { StoreDirectBlocked(thread, to, items); }

template <class T, int X, int Items, BlockLoadAlgorithm Algorithm = BLOCK_LOAD_DIRECT, int Y = 1, int Z = 1, int = 0>
class BlockLoad {
public:
    using TempStorage = emulated::Storage<T>;
    BlockLoad() = default;
    explicit BlockLoad(TempStorage&) {}
    template <class Iterator, class... Rest>
    void Load(Iterator from, T (&items)[Items], Rest... rest) {
        if constexpr (Algorithm == BLOCK_LOAD_STRIPED) LoadDirectStriped<X * Y * Z>(emulated::number_in_block(), from, items, rest...);
        else LoadDirectBlocked(emulated::number_in_block(), from, items, rest...);
    }
};

template <class T, int X, int Items, BlockStoreAlgorithm Algorithm = BLOCK_STORE_DIRECT, int Y = 1, int Z = 1, int = 0>
class BlockStore {
public:
    using TempStorage = emulated::Storage<T>;
    BlockStore() = default;
    explicit BlockStore(TempStorage&) {}
    template <class Iterator, class... Rest>
    void Store(Iterator to, T (&items)[Items], Rest... rest) {
        if constexpr (Algorithm == BLOCK_STORE_STRIPED) StoreDirectStriped<X * Y * Z>(emulated::number_in_block(), to, items, rest...);
        else StoreDirectBlocked(emulated::number_in_block(), to, items, rest...);
    }
};

}  // namespace cub
