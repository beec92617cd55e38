"""A real PostgreSQL server in a folder of its own, for the end-to-end tests."""

import glob
import os
import pwd
import shutil
import signal
import subprocess
import tempfile

import swarm

BIN = max(glob.glob("/usr/lib/postgresql/*/bin"), default="")


class Postgres:
    """An unprivileged user runs it, reached by a socket in its folder."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="hearth-postgres-")
        self.user = pwd.getpwnam("postgres") if os.geteuid() == 0 else None
        if self.user:
            shutil.chown(self.folder, self.user.pw_uid, self.user.pw_gid)
        self.port = swarm.free_port()
        self.log = open(os.path.join(self.folder, "log"), "ab")
        subprocess.run([BIN + "/initdb", "-D", self.folder + "/data", "-U", "hearth", "-A", "trust",
                        "-N", "-E", "UTF8", "--no-locale"], check=True, **self.child())
        self.process = None
        self.start()

    def child(self):
        return {"stdout": self.log, "stderr": self.log, "cwd": "/",
                **({"user": self.user.pw_uid, "group": self.user.pw_gid, "extra_groups": []}
                   if self.user else {})}

    @property
    def url(self):
        # The password is not asked for here: it must not be seen anywhere.
        return (f"postgresql://hearth:hush-hush@/postgres?host={self.folder}&port={self.port}")

    @property
    def socket(self):
        return f"{self.folder}/.s.PGSQL.{self.port}"

    def start(self):
        self.process = subprocess.Popen(
            [BIN + "/postgres", "-D", self.folder + "/data", "-k", self.folder, "-p",
             str(self.port), "-c", "listen_addresses=", "-c", "fsync=off", "-c",
             "shared_buffers=4MB", "-c", "max_connections=60"], **self.child())
        swarm.wait_until(lambda: self.ask("SELECT 1", check=False) == "1", "the database")

    def cut(self):
        """As in a power cut."""
        self.process.send_signal(signal.SIGQUIT)
        self.process.wait()

    def ask(self, sql, check=True):
        done = subprocess.run([BIN + "/psql", "-X", "-A", "-t", "-h", self.folder, "-p",
                               str(self.port), "-U", "hearth", "-d", "postgres", "-c", sql],
                              capture_output=True, text=True, check=check, cwd="/")
        return done.stdout.strip()

    def end(self):
        if self.process.poll() is None:
            self.cut()
        self.log.close()
        shutil.rmtree(self.folder)
