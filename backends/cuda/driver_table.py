"""Words through which native code reaches the driver: one table for a device, shared by all kernels."""

from __future__ import annotations

(
    LAUNCH_KERNEL,
    MEMSET,
    RECORD,
    STREAM,
    PENDING,
    MOST,
    LAUNCH_GRAPH,
    SET_NODE,
    IS_CAPTURING,
    GET_CONTEXT,
    CONTEXT,
    TABLE,
) = range(12)
"""Addresses of three functions; the current stream; whether launches may be in flight; most threads that are worth
starting for a task without adstacks; addresses of four functions for graphs, the first 0 while there are to be none;
the context that must be current. TABLE: how many words there are."""

ADDRESSES = {
    LAUNCH_KERNEL: "cuLaunchKernel",
    MEMSET: "cuMemsetD8Async",
    RECORD: "cuEventRecord",
    LAUNCH_GRAPH: "cuGraphLaunch",
    SET_NODE: "cuGraphExecKernelNodeSetParams",
    IS_CAPTURING: "cuStreamIsCapturing",
    GET_CONTEXT: "cuCtxGetCurrent",
}
"""The functions of the driver whose addresses stand in the table."""
