import sys

from roofexp.gate.command import main

sys.exit(main())
