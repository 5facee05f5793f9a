"""A report says what the judge ran on and with."""

from __future__ import annotations

import platform

from tests.collection import AFTER_COLLECTION

if AFTER_COLLECTION:
    import torch

    from sandbox.devices.emulated import EmulatedDevice
    from sandbox.judge.__main__ import environment


def test_what_every_host_has_is_there() -> None:
    found = environment(EmulatedDevice(), {}).versions
    assert (found["kernel"], found["python"], found["torch"]) == (platform.release(), platform.python_version(), str(torch.__version__))
    assert found["os"] and found["cpu"] and found["numpy"] and all(found.values())
