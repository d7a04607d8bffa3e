"""A measurement: the command line of Hydra, with one clear line for an input that it refuses."""

from __future__ import annotations

import os
import re
import sys
from decimal import Decimal

from roofexp.config.paths import conf_folder
from roofexp.errors import EXIT_BAD_INPUT, EXIT_INTERRUPTED, EXIT_OK, EXIT_POINT_FAILED, BadInputError
from roofexp.text.addresses import mask_and_remember

OPTIONS_WITH_VALUE = {
    *("--config-dir", "-cd", "--config-path", "-cp", "--config-name", "-cn"),
    *("--package", "-p", "--cfg", "-c", "--experimental-rerun"),
}

OPTIONS_WITH_OPTIONAL_VALUE = {"--info", "-i"}
GATE = "--gate"  # ours, not Hydra's: the same as gate=FILE
TEXTS = {  # keys whose values are taken as they were typed, also where they look like a number
    *("name", "outputs", "gate", "kernel", "case", "experiment", "tracking.experiment"),
    *("hydra.run.dir", "hydra.sweep.dir", "hydra.sweep.subdir"),
}

WHOLE_NUMBERS = {"size", "seed"}

LIKE_A_NUMBER = re.compile(r"[+-]?(\d[\d_]*\.?[\d_]*|\.\d[\d_]*)(e[+-]?\d+)?|[+-]?(inf|nan)|true|false", re.IGNORECASE)

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
    from roofexp.run.kept import older_choice
    from roofexp.run.resume import resumed_arguments

    PROCESS.older, arguments = older_choice(arguments)
    PROCESS.resumed, arguments = resumed_arguments(arguments)
    arguments = [without_password(word) for word in in_order(arguments)]
    sys.argv = ["roofexp", *arguments]
    try:
        _hydra(arguments)
    except KeyboardInterrupt:
        if PROCESS.run is None:
            print("stopped before the first point: nothing was measured; give the same command again", file=sys.stderr)
        return _finished(interrupted=True) or EXIT_INTERRUPTED
    except SystemExit as error:
        _finished(interrupted=True)
        return error.code if isinstance(error.code, int) else EXIT_BAD_INPUT
    return _finished(interrupted=PROCESS.stop.asked)


def without_password(word: str) -> str:
    """An override as it may be kept, quoted as Hydra wants it; the address that it hides is remembered in this
    process."""
    key, _, value = word.partition("=")
    if key.lstrip("+") != "tracking.uri" or "://" not in value:
        return word
    quoted = value if value[0] in "'\"$" else f"'{value}'"
    return f"{key}={mask_and_remember(quoted)}"


def _hydra(arguments: list[str]) -> None:
    import hydra

    from roofexp.config import guard, schema
    from roofexp.run.job import run_job

    schema.register()
    guard.install(arguments)
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
            overrides.append(as_typed(word))
        elif options and options[-1] in OPTIONS_WITH_OPTIONAL_VALUE:
            options.append(word)
        else:
            raise BadInputError(f"{word!r} is not understood; write key=value, e.g. kernel={word}")
    return options + overrides


def as_typed(override: str) -> str:
    """Texts that look like numbers in quotes, else Hydra reads 12e4567 as infinite; whole numbers written as 1e6 in
    digits. Values with quotes or brackets of their own stay as they are."""
    key, _, value = override.partition("=")
    key = key.lstrip("+")
    if (key not in TEXTS and key not in WHOLE_NUMBERS) or not re.fullmatch(r"[\w.,+-]+", value):
        return override
    words = value.split(",")
    if key in TEXTS:
        words = [f"'{word}'" if LIKE_A_NUMBER.fullmatch(word) else word for word in words]
    else:
        words = [_in_digits(word) for word in words]
    return f"{override[: -len(value)]}{','.join(words)}"


def _in_digits(word: str) -> str:
    """``1e6`` as 1000000; what is no whole number, or longer than any size, stays for the types to refuse."""
    if not re.fullmatch(r"\d+(\.\d*)?e\+?\d{1,2}", word, re.IGNORECASE):
        return word
    number = Decimal(word)
    return str(int(number)) if number == int(number) else word


def _gate_override(file: str) -> str:
    """The path in quotes, so that Hydra takes any letter in it. Raises BadInputError."""
    if not file or "=" in file.split("/")[0]:
        raise BadInputError(f"{GATE}: a file of rules is missing after it; see python -m roofexp.gate --example")
    quoted = file.replace("\\", "\\\\").replace('"', '\\"')
    return f'gate="{quoted}"'
