"""The process that is kept under ncu while clocks are held: it opens the GPU, launches nothing, and waits.

It ends when its input closes: with the end of whoever started it, in whatever way that comes.
"""

from __future__ import annotations

import sys


def main() -> None:
    import cupy

    cupy.cuda.runtime.free(0)  # opens the context, without which ncu has nothing to watch
    print("ready", flush=True)
    sys.stdin.buffer.read()


if __name__ == "__main__":
    main()
