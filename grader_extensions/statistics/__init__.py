"""Statistics over many submissions, and files of them."""
