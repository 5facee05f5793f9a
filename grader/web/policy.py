"""What a browser may do with our pages: the headers of every answer of the web port that is not for programs."""

from __future__ import annotations

from collections.abc import Mapping

_POLICY = "default-src 'none'; style-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
# On pages with our one script: it may fetch from here, and neither it nor anything else may make markup or code from text.
_SCRIPTED = f"{_POLICY}; script-src 'self'; connect-src 'self'; require-trusted-types-for 'script'; trusted-types 'none'"

HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Server": "grader",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-cache",  # kept, and asked for again with its ETag
}
SCRIPTED_HEADERS: Mapping[str, str] = {**HEADERS, "Content-Security-Policy": _SCRIPTED}
