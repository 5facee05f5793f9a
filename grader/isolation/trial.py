"""Tries an isolation for real: one trivial box."""

from __future__ import annotations

import asyncio
import secrets

from grader.isolation import BoxCause, BoxSpec, Isolation, Limits, Purpose
from grader.isolation.errors import IsolationBroken
from grader.isolation.slots import hold_slot, shared_slot_directory

WITHIN_S = 20.0
LIMITS = Limits(
    wall_s=10.0,
    cpu_s=10.0,
    memory_bytes=256 << 20,
    process_count=16,
    output_bytes=65536,
    file_bytes=65536,
    tmp_bytes=1 << 20,
    open_file_count=64,
)
GREETING = "grader box works"


async def failure(isolation: Isolation) -> str | None:
    """Return why a trivial box does not work; None if it does."""
    try:
        with hold_slot(shared_slot_directory()) as slot:
            spec = BoxSpec(
                box_id=f"check-{secrets.token_hex(4)}",
                purpose=Purpose.RUN,
                argv=("{python}", "-I", "-S", "-c", f"print({GREETING!r})"),
                limits=LIMITS,
                slot=slot,
            )
            async with asyncio.timeout(WITHIN_S), isolation.start(spec) as box:
                ended = await box.wait()
    except (IsolationBroken, OSError, TimeoutError) as error:
        return str(error) or f"no answer within {WITHIN_S:.0f} s"
    if ended.cause is BoxCause.EXITED and ended.exit_code == 0 and GREETING.encode() in ended.output:
        return None
    return f"a trivial box ended as {ended.cause}, exit code {ended.exit_code}: {ended.output.decode(errors='replace')[-300:]}"
