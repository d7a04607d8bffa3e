"""Every way in which ncu gives no counters has a cause and a cure."""

from __future__ import annotations

import pytest
from ncu_text import DATA

from roofexp.ncu import explain_ncu_failure


def test_permission() -> None:
    """NCU-08: ncu says it, the application runs on and ends with 0."""
    explanation = explain_ncu_failure((DATA / "ncu08_permission.txt").read_text(), 0)
    assert explanation is not None
    assert explanation.kind == "permission"
    for cure in ("NVreg_RestrictProfilingToAdminUsers=0", "root", "--cap-add=SYS_ADMIN", "timing works"):
        assert cure in explanation.cure


def test_unknown_metric_is_named_for_the_next_try() -> None:
    """NCU-12."""
    explanation = explain_ncu_failure((DATA / "ncu12_unknown_metric.txt").read_text(), 1)
    assert explanation is not None
    assert (explanation.kind, explanation.unknown_metric) == ("unknown metric", "dram__bytes_total")
    assert "dram__bytes_total" in explanation.cause


@pytest.mark.parametrize(
    "text", ["==ERROR== Failed to find metric dram__x.sum", "==ERROR== Failed to find metric regex:^dram__x.sum$"]
)
def test_other_spellings_of_an_unknown_metric(text: str) -> None:
    explanation = explain_ncu_failure(text, 1)
    assert explanation is not None
    assert explanation.unknown_metric == "dram__x.sum"


@pytest.mark.parametrize(
    ("text", "code", "kind", "cure"),
    [
        ("==ERROR== InterprocessLockFailed", 9, "lock", "TMPDIR"),
        ("cannot open /tmp/nsight-compute-lock: Permission denied", 1, "lock", "TMPDIR"),
        ("sh: 1: ncu: not found", 127, "missing", "Nsight Compute"),
        ("bash: ncu: command not found", 1, "missing", "Nsight Compute"),
        ("==WARNING== No kernels were profiled.", 0, "no kernels", "filter"),
        ("==ERROR== unrecognised option '--nvtx-foo'. Use --help for further details.", 1, "unknown option", "2021"),
        (
            "==ERROR== Profiling failed because a driver resource was unavailable. Ensure that no other tool "
            "(like DCGM) is concurrently collecting profiling data.",
            1,
            "busy",
            "dcgmi profile --pause",
        ),
        ("==ERROR== Profiling is not supported on device 0", 1, "unsupported", "MIG"),
        ("==ERROR== Cuda driver is not compatible with Nsight Compute", 1, "library", "sandbox"),
        ("==ERROR== The application returned an error code (3).", 3, "application", "without ncu"),
        ("==ERROR== Something new", 1, "unknown", "without counters"),
        ("", 139, "unknown", "without counters"),
    ],
)
def test_causes_and_cures(text: str, code: int, kind: str, cure: str) -> None:
    explanation = explain_ncu_failure(text, code)
    assert explanation is not None
    assert explanation.kind == kind
    assert cure in explanation.cure
    assert "\n" not in str(explanation)


def test_the_exit_code_is_named_when_nothing_was_said() -> None:
    assert "139" in str(explain_ncu_failure("", 139))


def test_kernel_fault_is_told_from_the_exit_code_that_follows_it() -> None:
    explanation = explain_ncu_failure((DATA / "h200_bad_kernel.txt").read_text(), 9)
    assert explanation is not None
    assert explanation.kind == "launch failed"
    assert "LaunchFailed (exit code 9)" in explanation.cause


REPLAY_FAILED = """==PROF== Connected to process 5120 (/usr/bin/python3.12)
==ERROR== Failed to prepare kernel for profiling
==ERROR== Out of memory on device 0.
==ERROR== Failed to profile "flash_fwd_kernel" in process 5120
==PROF== Trying to shutdown target application
==ERROR== The application returned an error code (1).
==ERROR== An error occurred while trying to profile.
==WARNING== No kernels were profiled.
"""
CHILD_PROCESS = """==PROF== Connected to process 777 (/usr/bin/env)
==PROF== Disconnected from process 777
==WARNING== No kernels were profiled.
==WARNING== Profiling kernels launched by child processes requires the --target-processes all option.
"""


@pytest.mark.parametrize(
    ("text", "kind", "words"),
    [
        (
            REPLAY_FAILED,
            "replay failed",
            ["flash_fwd_kernel", "Out of memory on device 0", "(exit code 1)", "replay-mode"],
        ),
        (CHILD_PROCESS, "no kernels", ["child process", "--target-processes all"]),
        (
            '==ERROR== LaunchOutOfResources\n==ERROR== Failed to profile "k(int)" in process 3\n'
            "==ERROR== The application returned an error code (7).",
            "launch failed",
            ["the kernel k(int)", "LaunchOutOfResources (exit code 7)"],
        ),
        (
            "==ERROR== The disk is full.\n==ERROR== The application returned an error code (5).",
            "application",
            ["The disk is full", "(exit code 5)"],
        ),
        ("==ERROR== Something new.\n==ERROR== Something after it.", "unknown", ["Something new; Something after it"]),
    ],
)
def test_the_cause_is_told_and_not_the_last_line(text: str, kind: str, words: list[str]) -> None:
    explanation = explain_ncu_failure(text, 0)
    assert explanation is not None
    assert explanation.kind == kind
    for word in words:
        assert word in str(explanation)


def test_an_endless_message_is_cut() -> None:
    explanation = explain_ncu_failure("==ERROR== " + "x" * 100_000, 1)
    assert explanation is not None
    assert len(str(explanation)) < 400


def test_a_good_session_explains_nothing() -> None:
    assert explain_ncu_failure((DATA / "h200_raw_autounits.csv").read_text(), 0) is None


def test_words_of_the_application_are_not_taken_for_those_of_ncu() -> None:
    assert explain_ncu_failure("Failed to load weights, retrying\nNo kernels were profiled by me", 0) is None
