// In place of the toolkit's radix sort on the host, which puts negative ints behind positive ones where a long has 64 bits.
#pragma once

#include <thrust/functional.h>
#include <thrust/system/detail/sequential/execution_policy.h>
#include <thrust/system/detail/sequential/stable_merge_sort.h>

THRUST_NAMESPACE_BEGIN
namespace system::detail::sequential {

template <class Policy, class Iterator>
void stable_radix_sort(execution_policy<Policy>& policy, Iterator first, Iterator last) {
    stable_merge_sort(policy, first, last, thrust::less<typename thrust::iterator_value<Iterator>::type>());
}
template <class Policy, class Keys, class Values>
void stable_radix_sort_by_key(execution_policy<Policy>& policy, Keys first, Keys last, Values values) {
    stable_merge_sort_by_key(policy, first, last, values, thrust::less<typename thrust::iterator_value<Keys>::type>());
}

}  // namespace system::detail::sequential
THRUST_NAMESPACE_END
