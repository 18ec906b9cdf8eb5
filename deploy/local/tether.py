"""Run a command that dies with the process that started it.

``python tether.py PARENT_PID COMMAND [ARGUMENT ...]`` asks the kernel to kill it when its parent
dies and then *becomes* the command (``exec``), so process id, signals and exit code are the
command's own. A server of a run that was killed with SIGKILL thus never outlives that run.

This is a script of its own, not a ``preexec_fn``: code run between fork and exec in a process
with many threads (ours has those of librdkafka) can deadlock.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1  # <linux/prctl.h>


def main() -> None:
    parent, command = int(sys.argv[1]), sys.argv[2:]
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL))
        if os.getppid() != parent:  # it died before we asked
            sys.exit(1)
    os.execvp(command[0], command)  # noqa: S606 - an argument list, no shell to misread it


if __name__ == "__main__":
    main()
