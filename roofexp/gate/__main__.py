from roofexp.commands.gate import main

raise SystemExit(main())
