from roofexp.commands import run_command

raise SystemExit(run_command("gate"))
