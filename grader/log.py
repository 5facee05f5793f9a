"""Sets up structlog, once, from a program's entry point.  Everything goes to standard error."""

from __future__ import annotations

import logging
import sys
from typing import Literal

import structlog

LogFormat = Literal["json", "console"]


def configure(log_format: LogFormat = "console", level: int = logging.INFO) -> None:
    """Write log events as JSON lines or for a terminal, with UTC times."""
    last: tuple[structlog.typing.Processor, ...]
    match log_format:
        case "json":
            last = (structlog.processors.dict_tracebacks, structlog.processors.JSONRenderer())
        case "console":
            last = (structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty()),)
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            *last,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=False,
    )
