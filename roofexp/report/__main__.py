from roofexp.commands.report import main

raise SystemExit(main())
