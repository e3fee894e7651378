"""This module defines the layout of the word table, one per device, by which native code calls the GPU driver."""

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
"""Words of the driver's table.

LAUNCH_KERNEL, MEMSET, RECORD: addresses of functions. STREAM: the current stream. PENDING: launches may be in flight.
MOST: most threads that are worth starting for a task without adstacks. LAUNCH_GRAPH, SET_NODE, IS_CAPTURING,
GET_CONTEXT: addresses of functions for graphs, the first 0 while there are to be no graphs. CONTEXT: the context that
must be current. TABLE: number of words.
"""

ADDRESSES = {
    LAUNCH_KERNEL: "cuLaunchKernel",
    MEMSET: "cuMemsetD8Async",
    RECORD: "cuEventRecord",
    LAUNCH_GRAPH: "cuGraphLaunch",
    SET_NODE: "cuGraphExecKernelNodeSetParams",
    IS_CAPTURING: "cuStreamIsCapturing",
    GET_CONTEXT: "cuCtxGetCurrent",
}
"""Functions of the driver whose addresses stand in the table."""
