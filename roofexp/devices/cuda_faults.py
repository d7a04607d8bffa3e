"""What CUDA's errors mean for a kernel that broke the context."""

from __future__ import annotations

from roofexp.errors import FailedError

FAULTS = {
    "cudaErrorIllegalAddress": "the kernel accessed memory that is not its own",
    "cudaErrorMisalignedAddress": "the kernel made a misaligned access",
    "cudaErrorIllegalInstruction": "the kernel met an illegal instruction",
    "cudaErrorLaunchFailure": "the kernel failed",
    "cudaErrorLaunchTimeout": "the driver ended a kernel that ran too long",
    "cudaErrorAssert": "an assertion in the kernel failed",
    "cudaErrorLaunchOutOfResources": "the block needs more registers or shared memory than an SM has",
    "cudaErrorInvalidConfiguration": "grid or block is larger than the GPU allows",
    "CUDA_ERROR_INVALID_VALUE": "grid, block or shared memory is not possible on this GPU",
}


def explain_fault(error: Exception) -> FailedError | None:
    """None for an error that is not CUDA's."""
    text = str(error)
    if "cudaErrorMemoryAllocation" in text or type(error).__name__ == "OutOfMemoryError":
        return FailedError("out of memory", f"the GPU's memory ran out: {text.splitlines()[0]}")
    for name, meaning in FAULTS.items():
        if name in text:
            return FailedError("kernel fault", f"{meaning} ({name}); worker replaced")
    return None
