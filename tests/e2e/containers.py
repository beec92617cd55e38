"""Machines that boot: an unpacked Debian or Ubuntu with systemd as its first process, in the
network namespace of a machine of machines.py, for tests of what starts by itself."""

import os
import pathlib
import shutil
import subprocess
import sys

import machines
import swarm

PATIENCE_S = 300
# There is no systemd on the host that could be asked for a scope, so each has a cgroup of its own.
CGROUPS = [pathlib.Path("/sys/fs/cgroup/systemd"), pathlib.Path("/sys/fs/cgroup")]


def need(*programs):
    """Exits 77 where this user or this machine cannot run them."""
    missing = [each for each in programs if shutil.which(each) is None]
    if os.geteuid() != 0 or missing:
        print("not run: needs " + ("root" if os.geteuid() != 0 else ", ".join(missing)))
        sys.exit(77)


def release():
    """ID and VERSION_CODENAME of this machine's distribution."""
    lines = pathlib.Path("/etc/os-release").read_text().splitlines()
    values = dict(line.split("=", 1) for line in lines if "=" in line)
    return values["ID"].strip('"'), values.get("VERSION_CODENAME", "").strip('"')


def unpack(root, *packages):
    """A clean system of this machine's release, from the distribution's mirror."""
    words = ["mmdebstrap", "--variant=minbase", "--include=" + ",".join(packages), release()[1],
             str(root)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=1200)
    assert done.returncode == 0, done.stderr[-2000:]


def run_in(root, *words):
    """One command in a system that has not booted, on this machine's network."""
    done = subprocess.run(
        ["systemd-nspawn", "--register=no", "--keep-unit", "-q", "--pipe", "-D", str(root),
         "--resolv-conf=replace-host", *map(str, words)],
        capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=1200)
    return done.returncode, done.stdout, done.stderr


class Booted(machines.Machine):
    """`root` must be there when it boots."""

    def __init__(self, wire, name, folder):
        super().__init__(wire, name, folder)
        self.root = pathlib.Path(folder, name + ".root")
        self.cgroup = None

    def _enter_cgroup(self):  # in the new process
        (self.cgroup / "cgroup.procs").write_text(str(os.getpid()))

    def boot(self):
        space = f"/run/netns/{self.wire.prefix}{self.name}"
        [base, *_] = [each for each in CGROUPS if (each / "cgroup.procs").exists()]
        self.cgroup = base / f"{self.wire.prefix}{self.name}"
        self.cgroup.mkdir(exist_ok=True)
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(
                ["systemd-nspawn", "--register=no", "--keep-unit", "-q", "-D", str(self.root),
                 "--hostname", self.name, f"--network-namespace-path={space}",
                 "--resolv-conf=off", "--boot"],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, preexec_fn=self._enter_cgroup)
        self.wait_for_boot()

    def wait_for_boot(self):
        def state():
            assert self.process.poll() is None, self.log()[-3000:]
            return self.shell("systemctl is-system-running")[1].strip() in ("running", "degraded")
        swarm.wait_until(state, f"the boot of {self.name}")

    def boot_again(self):
        self.shell("systemctl reboot")
        self.process.wait(PATIENCE_S)  # with --keep-unit, a service manager would start it again
        self.boot()

    def leader(self):
        """The first process of the booted system, once it runs."""
        pid = self.process.pid
        try:
            children = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        except OSError:
            return None
        return children[0] if children else None

    def inside(self, *words):
        """Exit code, stdout and stderr of a command in the booted system, as its root."""
        leader = self.leader()
        if leader is None:
            return 1, "", "not booted"
        done = subprocess.run(["nsenter", "-t", leader, "-m", "-u", "-i", "-n", "-p", "-C", "-r",
                               "-w", "env", "-i", "PATH=/usr/sbin:/usr/bin", *map(str, words)],
                              capture_output=True, text=True, timeout=PATIENCE_S)
        return done.returncode, done.stdout, done.stderr

    def shell(self, text):
        return self.inside("sh", "-c", text)

    def good(self, text):
        code, out, err = self.shell(text)
        assert code == 0, f"{self.name}: {text}: {out} {err} {self.shell('journalctl -n 40')[1]}"
        return out.strip()

    def stop(self, how=None):
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()  # which powers the system off
            try:
                self.process.wait(swarm.PATIENCE_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        if self.cgroup is not None:
            for folder in sorted(self.cgroup.rglob("*"), reverse=True):
                if folder.is_dir():
                    folder.rmdir()
            self.cgroup.rmdir()
            self.cgroup = None
