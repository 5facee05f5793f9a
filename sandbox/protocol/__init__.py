"""Parts that trusted and untrusted processes share: messages, gate, arena, file formats, and the version of all of it. Standard library
only; decides nothing."""
