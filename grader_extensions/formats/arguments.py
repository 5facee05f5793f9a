"""Arguments of a problem that only its own code knows, put into its specification."""

from __future__ import annotations

from dataclasses import replace

from sandbox.protocol import wire
from sandbox.protocol.signatures import without_model


def with_arguments(spec: wire.ProblemSpec, description: wire.Described) -> wire.ProblemSpec:
    """The problem with the arguments that were learned of it, in its own convention."""
    workloads = tuple(replace(workload, axes=dict(description.axes), strides=dict(description.strides)) for workload in spec.workloads)
    as_model = replace(
        spec,
        inputs=description.inputs,
        outputs=description.outputs,
        weights=description.weights,
        axes=(),
        workloads=workloads,
        convention=wire.Convention.MODEL,
    )
    return as_model if spec.convention is wire.Convention.MODEL else without_model(as_model)
