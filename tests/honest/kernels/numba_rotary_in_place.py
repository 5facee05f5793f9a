# problem: rotary_in_place
# why: changes what it is given, and returns it for who wants to go on with it
from numba import cuda


@cuda.jit
def rotate(query, cosine, sine):
    token, head, at = cuda.grid(3)
    if token < query.shape[0] and head < query.shape[1] and at < query.shape[3]:
        first, second = query[token, head, 0, at], query[token, head, 1, at]
        query[token, head, 0, at] = first * cosine[token, at] - second * sine[token, at]
        query[token, head, 1, at] = second * cosine[token, at] + first * sine[token, at]


def solve(query, cosine, sine):
    tokens, heads, _, half = query.shape
    if query.numel():
        blocks = ((tokens + 7) // 8, heads, (half + 7) // 8)
        rotate[blocks, (8, 1, 8)](cuda.as_cuda_array(query), cuda.as_cuda_array(cosine), cuda.as_cuda_array(sine))
    return query
