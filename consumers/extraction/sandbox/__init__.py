"""Untrusted files are parsed in processes that may die.

    sandbox = Sandbox(processes=2, limits=SandboxLimits())
    inspection = sandbox.inspect(path, InspectionLimits())

Process tree: the worker starts one *nursery* (`python -m consumers.extraction.sandbox.nursery`),
which imports the engines once, gives up the network, and forks the sandbox processes. So a
replacement for a killed one costs a fork and not an interpreter with all its imports, and the
worker, which has threads, never forks. Each sandbox process serves one request at a time over a
socket: requests and answers are JSON with a length in front, and files come as open descriptors,
never as paths. What a sandbox process sends is checked like any hostile input.
"""

from consumers.extraction.documents.model import (
    Assembled,
    AssemblyLimits,
    AssemblyPart,
    DocumentRejected,
    ImageLimits,
    Inspection,
    InspectionLimits,
    Region,
    RegionOutside,
    RejectedImage,
    VerifiedImage,
)
from consumers.extraction.sandbox.errors import (
    SandboxClosed,
    SandboxCrashed,
    SandboxError,
    SandboxMemory,
    SandboxTimeout,
    SandboxUnavailable,
)
from consumers.extraction.sandbox.limits import SandboxLimits
from consumers.extraction.sandbox.pool import Sandbox

__all__ = [
    "Assembled",
    "AssemblyLimits",
    "AssemblyPart",
    "DocumentRejected",
    "ImageLimits",
    "Inspection",
    "InspectionLimits",
    "Region",
    "RegionOutside",
    "RejectedImage",
    "Sandbox",
    "SandboxClosed",
    "SandboxCrashed",
    "SandboxError",
    "SandboxLimits",
    "SandboxMemory",
    "SandboxTimeout",
    "SandboxUnavailable",
    "VerifiedImage",
]
