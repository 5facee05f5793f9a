"""Which cores a GPU's run box may use."""

from grader.isolation.launch import cores_for_boxes


def test_a_fourth_of_a_large_host_is_kept_for_the_judges() -> None:
    """The lowest cores, of those that the server has itself."""
    assert cores_for_boxes(range(16)) == tuple(range(4, 16))
    assert cores_for_boxes({3, 5, 7, 9, 11, 13, 15, 17}) == (7, 9, 11, 13, 15, 17)


def test_a_small_host_keeps_nothing_back() -> None:
    """Taking one core of two from the kernel would cost more than it protects."""
    assert cores_for_boxes({1, 0}) == (0, 1)
