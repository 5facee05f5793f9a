"""Sets up structlog, once, from a program's entry point."""

from __future__ import annotations

import logging
import sys
from typing import Literal, TextIO

import structlog

LogFormat = Literal["json", "console"]
LogLevel = Literal["debug", "info", "warning", "error"]
LEVELS: dict[LogLevel, int] = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}

# Without the values of variables, which structlog adds by default: sources, keys and secret sizes are among them.
TRACEBACKS = structlog.processors.ExceptionRenderer(structlog.tracebacks.ExceptionDictTransformer(show_locals=False))


def configure(log_format: LogFormat = "console", level: int = logging.INFO, file: TextIO | None = None) -> None:
    """Write log events as JSON lines or for a terminal, with UTC times. file: None: standard error."""
    last: tuple[structlog.typing.Processor, ...]
    match log_format:
        case "json":
            last = (TRACEBACKS, structlog.processors.JSONRenderer())
        case "console":
            last = (structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback),)
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            *last,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(file or sys.stderr),
        cache_logger_on_first_use=False,
    )
