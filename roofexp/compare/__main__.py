import sys

from roofexp.compare.command import main

sys.exit(main())
