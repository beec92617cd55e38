"""Slower machines and slower wires than this one has: shares of processors (cgroups) and rates of
what leaves a namespace (tbf). Needs root."""

import os
import pathlib
import subprocess

CPU = pathlib.Path("/sys/fs/cgroup/cpu")
PERIOD = 3_400  # microseconds; the kernel grants no less than 1,000 at once


class Share:
    """A part of one processor, for a process and all that it starts; first where others want it."""

    def __init__(self, name, part):
        self.folder = CPU / f"hearth-bench-{os.getpid()}-{name}"
        self.folder.mkdir()
        (self.folder / "cpu.shares").write_text("4096")
        (self.folder / "cpu.cfs_period_us").write_text(str(PERIOD))
        (self.folder / "cpu.cfs_quota_us").write_text(str(int(PERIOD * part)))

    def take(self, pid):
        (self.folder / "cgroup.procs").write_text(str(pid))

    def end(self):
        try:
            self.folder.rmdir()
        except OSError:
            pass  # a process is still on its way out


def rate(wire, name, megabits):
    """What leaves the machine does so at that rate."""
    # What the bucket holds passes at once. It holds little more than a packet, or a row of
    # activations would never wait: 8 KB take 5.5 ms at 10 Mbit/s with this, 0.3 ms with 64 KiB.
    burst = max(2_000, megabits * 40)
    words = f"replace dev eth0 root tbf rate {megabits}mbit burst {burst} latency 400ms"
    subprocess.run(wire.words(name, "tc", "qdisc", *words.split()), check=True)
