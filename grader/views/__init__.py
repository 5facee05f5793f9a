"""Words, numbers and untrusted text as people see them, in the terminal and on pages. Pure; it decides nothing about who may see what."""
