"""A measurement: the command line of Hydra, with one clear line for an input that it refuses."""

from __future__ import annotations

import os
import sys

from roofexp.config.paths import conf_folder
from roofexp.errors import EXIT_BAD_INPUT, EXIT_INTERRUPTED, EXIT_OK, EXIT_POINT_FAILED, BadInputError

OPTIONS_WITH_VALUE = {
    *("--config-dir", "-cd", "--config-path", "-cp", "--config-name", "-cn"),
    *("--package", "-p", "--cfg", "-c", "--experimental-rerun"),
}

OPTIONS_WITH_OPTIONAL_VALUE = {"--info", "-i"}
GATE = "--gate"  # ours, not Hydra's: the same as gate=FILE
TRACEBACKS = "HYDRA_FULL_ERROR"  # set by a user who wants to see them


def run(arguments: list[str]) -> int:
    """One invocation; the exit code."""
    wants_tracebacks = bool(os.environ.get(TRACEBACKS))
    os.environ[TRACEBACKS] = "1"  # Hydra then raises what it would print over several lines
    try:
        return _invoke(arguments)
    except BrokenPipeError:
        raise
    except Exception as error:
        if wants_tracebacks:
            raise
        from roofexp.config.explain import explain_refusal

        print(f"roofexp: {explain_refusal(error)}", file=sys.stderr)
        return _ended_by(error)
    finally:
        if not wants_tracebacks:
            os.environ.pop(TRACEBACKS, None)


def _invoke(arguments: list[str]) -> int:
    if "--help" in arguments or "-h" in arguments:
        from roofexp.commands.help import config_folders, help_text

        print(help_text(config_folders(arguments, conf_folder())))
        return EXIT_OK
    from roofexp.run.process import PROCESS

    PROCESS.stop.listen()
    from roofexp.run.resume import resumed_arguments

    PROCESS.resumed, arguments = resumed_arguments(arguments)
    arguments = in_order(arguments)
    sys.argv = ["roofexp", *arguments]
    try:
        _hydra()
    except KeyboardInterrupt:
        return _finished(interrupted=True) or EXIT_INTERRUPTED
    except SystemExit as error:
        _finished(interrupted=True)
        return error.code if isinstance(error.code, int) else EXIT_BAD_INPUT
    return _finished(interrupted=PROCESS.stop.asked)


def _hydra() -> None:
    import hydra

    from roofexp.config import schema
    from roofexp.run.job import run_job

    schema.register()
    hydra.main(version_base="1.3", config_path=str(conf_folder()), config_name="config")(run_job)()


def _finished(interrupted: bool) -> int:
    """Hydra calls no end callback for a sweep that is interrupted: its table is made here."""
    from roofexp.run.process import PROCESS

    run = PROCESS.run
    if run is None:
        return EXIT_OK
    if not run.finished:
        from roofexp.run.finish import finish

        finish(run, interrupted)
    return EXIT_INTERRUPTED if interrupted else run.exit_code


def _ended_by(error: Exception) -> int:
    """A sweep at work whose files the disk does not take is left so that it can be resumed; all else is bad input."""
    from roofexp.run.process import PROCESS

    causes = (error, error.__cause__, error.__context__)
    if PROCESS.run is None or not any(isinstance(cause, OSError) for cause in causes):
        return EXIT_BAD_INPUT
    _finished(interrupted=True)
    return EXIT_POINT_FAILED


def in_order(arguments: list[str]) -> list[str]:
    """Options first, then overrides: Hydra refuses overrides on both sides of an option.

    Raises BadInputError for a bare word: a frequent slip (``gemm`` for ``kernel=gemm``) that Hydra's message does
    not explain.
    """
    options: list[str] = []
    overrides: list[str] = []
    words = iter(arguments)
    for word in words:
        if word == GATE or word.startswith(f"{GATE}="):
            overrides.append(_gate_override(word.removeprefix(GATE).removeprefix("=") or next(words, "")))
        elif word in OPTIONS_WITH_VALUE:
            options += [word, *([value] if (value := next(words, None)) is not None else [])]
        elif word.startswith("-"):
            options.append(word)
        elif "=" in word or word.startswith(("~", "+")):
            overrides.append(word)
        elif options and options[-1] in OPTIONS_WITH_OPTIONAL_VALUE:
            options.append(word)
        else:
            raise BadInputError(f"{word!r} is not understood; write key=value, e.g. kernel={word}")
    return options + overrides


def _gate_override(file: str) -> str:
    """The path in quotes, so that Hydra takes any letter in it. Raises BadInputError."""
    if not file or "=" in file.split("/")[0]:
        raise BadInputError(f"{GATE}: a file of rules is missing after it; see python -m roofexp.gate --example")
    quoted = file.replace("\\", "\\\\").replace('"', '\\"')
    return f'gate="{quoted}"'
