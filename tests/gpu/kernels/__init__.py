"""The kernels of the GPU tests, and what their first lines say of them."""
