"""The examples of `--help`: a line each, for a shell."""

from __future__ import annotations


def _examples(*pairs: tuple[str, str]) -> str:
    """Paragraphs, since help joins the lines of one."""
    return "\n\n".join(["Examples:", *(f"`{command}`: {what}" for command, what in pairs)])


EXAMPLES = _examples(
    ("grader-cli problems list", "what there is to solve"),
    ("grader-cli init vector_add", "write vector_add.cu to begin with"),
    ("grader-cli submit vector_add.cu", "grade it"),
    ("grader-cli login --server grader.example.org:50551", "use this server from now on"),
    ("grader-cli list --verdict ACCEPTED", "your submissions that are right"),
    ("grader-cli show 3fa9c1d2", "one of them"),
)
SUBMIT_EXAMPLES = _examples(
    ("grader-cli submit kernel.cu --problem vector_add", "verify it, and time it against PyTorch"),
    ("grader-cli submit kernel.py --mode test", "only verify it"),
    ("grader-cli submit kernel.cu --competition autumn", "enter a competition"),
    ("cat kernel.cu | grader-cli submit - --problem vector_add", "from standard input"),
    ("grader-cli submit kernel.cu --local --device emulated", "without a server or a GPU"),
)
LIST_EXAMPLES = _examples(
    ("grader-cli list --verdict ACCEPTED,WRONG_ANSWER", "all with one of these"),
    ("grader-cli list --problem vector_add --limit 5", "the last five of one problem"),
)
