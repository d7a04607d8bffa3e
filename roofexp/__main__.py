from __future__ import annotations

from roofexp.commands.run import main

main()
