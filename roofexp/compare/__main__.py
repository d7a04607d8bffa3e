from roofexp.commands.compare import main

raise SystemExit(main())
