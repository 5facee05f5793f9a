"""One run of a kernel: the link to its runner, where its tensors lie, what fills them.  Must not decide whether a result is right."""
