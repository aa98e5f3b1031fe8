"""Script that runs a command and prints its CPU time and peak memory, as the kernel counts them.

A process inherits the peak memory of its parent, so a large benchmark cannot start the runs that it
measures. It starts this small script, which starts the run.
"""

import json
import os
import sys

if __name__ == "__main__":
    process = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ)
    _, status, usage = os.wait4(process, 0)
    used = {
        "cpu_s": usage.ru_utime + usage.ru_stime,
        "peak_mb": usage.ru_maxrss / 1024,
        "status": os.waitstatus_to_exitcode(status),
    }
    sys.stdout.write("\n" + json.dumps(used))
