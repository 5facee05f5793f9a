"""What a browser may do with our pages: the headers of every answer of the web port that is not for programs."""

from __future__ import annotations

from collections.abc import Mapping

_PLAIN = "default-src 'none'; style-src 'self'; img-src 'self' data:; base-uri 'none'; frame-ancestors 'none'"
_POLICY = f"{_PLAIN}; form-action 'none'"
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
# On pages with a form: it may be sent here. A referrer for this site only: without one a browser sends no origin with a form.
FORM_HEADERS: Mapping[str, str] = {
    **HEADERS,
    "Content-Security-Policy": f"{_PLAIN}; form-action 'self'",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
}
