"""The command line: Hydra's, with one clear line for an input that it refuses."""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType
from typing import Any

from roofexp.errors import EXIT_BAD_INPUT, EXIT_INTERRUPTED, EXIT_OK, BadInputError
from roofexp.folders import conf_folder

OPTIONS_WITH_VALUE = {
    *("--config-dir", "-cd", "--config-path", "-cp", "--config-name", "-cn"),
    *("--package", "-p", "--info", "-i", "--cfg", "-c", "--experimental-rerun"),
}
TRACEBACKS = "HYDRA_FULL_ERROR"  # set by a user who wants to see them


def main() -> None:
    """``python -m roofexp`` and the console script."""
    try:
        sys.exit(run(sys.argv[1:]))
    except BrokenPipeError:  # the reader of our output went away
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(EXIT_OK)


def run(arguments: list[str]) -> int:
    """One invocation; the exit code."""
    wants_tracebacks = bool(os.environ.get(TRACEBACKS))
    os.environ[TRACEBACKS] = "1"  # Hydra then raises what it would print over several lines
    try:
        return _invoke(arguments)
    except Exception as error:
        if wants_tracebacks:
            raise
        from roofexp.explain import explain_refusal

        print(f"roofexp: {explain_refusal(error, arguments)}", file=sys.stderr)
        return EXIT_BAD_INPUT
    finally:
        if not wants_tracebacks:
            os.environ.pop(TRACEBACKS, None)


def _invoke(arguments: list[str]) -> int:
    from roofexp.resume import resumed

    arguments = resumed(arguments)
    sys.argv = ["roofexp", *arguments]
    _check_names(arguments)
    signal.signal(signal.SIGTERM, _terminated)
    try:
        _hydra()
    except KeyboardInterrupt:
        return _finished(interrupted=True) or EXIT_INTERRUPTED
    except SystemExit as error:
        _finished(interrupted=True)
        return error.code if isinstance(error.code, int) else EXIT_BAD_INPUT
    return _finished(interrupted=False)


def _hydra() -> None:
    import hydra

    from roofexp import schema
    from roofexp.job import run_job

    schema.register()
    hydra.main(version_base="1.3", config_path=str(conf_folder()), config_name="config")(run_job)()


def _finished(interrupted: bool) -> int:
    """Hydra calls no end callback for a sweep that is interrupted: its table is made here."""
    from roofexp.running import current

    run = current()
    if run is None:
        return EXIT_OK
    if not run.finished:
        from roofexp.finish import finish

        finish(run, interrupted)
    return EXIT_INTERRUPTED if interrupted else run.exit_code


def _terminated(number: int, frame: FrameType | None) -> None:
    """SIGTERM ends a sweep as Ctrl-C does: what was measured stays."""
    raise KeyboardInterrupt


def _check_names(arguments: list[Any]) -> None:
    """A bare word is a frequent slip (``gemm`` for ``kernel=gemm``): Hydra's message would not say so."""
    for word in arguments:
        if not word.startswith(("-", "~", "+")) and "=" not in word and _follows_no_option(word, arguments):
            raise BadInputError(f"{word!r} is not understood; write key=value, e.g. kernel={word}")


def _follows_no_option(word: str, arguments: list[str]) -> bool:
    """Whether the word is an argument of its own and not the value of an option such as --config-dir."""
    index = arguments.index(word)
    before = arguments[index - 1] if index else ""
    return before not in OPTIONS_WITH_VALUE
