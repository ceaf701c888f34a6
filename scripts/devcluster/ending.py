"""How a command of scripts/ ends that brings clusters up or down: an exit status and a line, never a traceback.

Touches the standard output and the standard error.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

from scripts.devcluster.layout import ClusterError

INTERRUPTED, READER_GONE = 130, 141  # as a shell says of a command that SIGINT or SIGPIPE ended


def status(command: Callable[[], int], afterwards: str = "") -> int:
    """Run a command and return its exit status.

    Args:
        command: returns it where all goes well.
        afterwards: what to do about what a command that was broken off leaves behind.
    """
    try:
        return command()
    except ClusterError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"\ninterrupted{afterwards and ': '}{afterwards}", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:  # as of `| head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python would try again at its end
        print(f"nobody reads any more{afterwards and ': '}{afterwards}", file=sys.stderr)
        return READER_GONE
