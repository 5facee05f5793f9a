// The iterators that CUB had until version 2.
#pragma once

#include "../types.h"

namespace cub {

namespace emulated {

// A place in a sequence that is worked out: Self has `value_at(place)`.
template <class Self, class Value>
struct WorkedOut {
    using value_type = Value;
    using reference = Value;
    using pointer = const Value*;
    using difference_type = ptrdiff_t;
    using iterator_category = std::random_access_iterator_tag;
    ptrdiff_t place = 0;

    Value operator[](ptrdiff_t i) const { return self().value_at(place + i); }
    Value operator*() const { return self().value_at(place); }
    Self operator+(ptrdiff_t n) const {
        Self moved = self();
        moved.place += n;
        return moved;
    }
    Self operator-(ptrdiff_t n) const { return *this + -n; }
    ptrdiff_t operator-(const Self& other) const { return place - other.place; }
    Self& operator+=(ptrdiff_t n) {
        place += n;
        return static_cast<Self&>(*this);
    }
    Self& operator++() { return *this += 1; }
    bool operator==(const Self& other) const { return place == other.place; }
    bool operator!=(const Self& other) const { return place != other.place; }

private:
    const Self& self() const { return static_cast<const Self&>(*this); }
};

}  // namespace emulated

template <class Value, class Offset = ptrdiff_t>
struct CountingInputIterator : emulated::WorkedOut<CountingInputIterator<Value, Offset>, Value> {
    Value first;
    CountingInputIterator(Value first) : first(first) {}
    Value value_at(ptrdiff_t i) const { return static_cast<Value>(first + static_cast<Value>(i)); }
};
template <class Value, class Offset = ptrdiff_t>
struct ConstantInputIterator : emulated::WorkedOut<ConstantInputIterator<Value, Offset>, Value> {
    Value value;
    ConstantInputIterator(Value value) : value(value) {}
    Value value_at(ptrdiff_t) const { return value; }
};
template <class Value, class Function, class Iterator, class Offset = ptrdiff_t>
struct TransformInputIterator : emulated::WorkedOut<TransformInputIterator<Value, Function, Iterator, Offset>, Value> {
    Iterator iterator;
    Function function;
    TransformInputIterator(Iterator iterator, Function function) : iterator(iterator), function(function) {}
    Value value_at(ptrdiff_t i) const { return function(iterator[i]); }
};

}  // namespace cub
