from roofexp.commands.roofs import main

raise SystemExit(main())
