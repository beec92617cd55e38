"""A server whose store is in PostgreSQL: it computes while the database is away, refuses only what must
be stored, and leaves the database to one coordinator. A real database server in a folder of its own.
"""

import glob
import json
import os
import pathlib
import pwd
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import unittest

import cluster
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

    def start(self):
        self.process = subprocess.Popen(
            [BIN + "/postgres", "-D", self.folder + "/data", "-k", self.folder, "-p",
             str(self.port), "-c", "listen_addresses=", "-c", "fsync=off", "-c",
             "shared_buffers=4MB", "-c", "max_connections=20"], **self.child())
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


class Store(cluster.Cluster):
    def setUp(self):
        super().setUp()
        self.postgres = Postgres()
        self.addCleanup(self.postgres.end)

    def serve(self, *flags):
        return swarm.Swarm(1, *flags, data_dir=self.home)

    def ask(self, s, path, body, key, **headers):
        return swarm.http("POST", s.api + path, body,
                          headers={"Authorization": "Bearer " + key, **headers})

    def test_the_swarm_computes_while_the_database_is_away(self):
        self.init()
        key = self.good(self.home, "key", "create", "laptop").split()[0]
        moved = json.loads(self.good(self.home, "store", "migrate", "--to", self.postgres.url,
                                     "--json"))
        self.assertEqual(moved["keys"], 2, "the admin's and the laptop's")
        self.assertFalse(os.path.exists(self.home + "/hearth.db"))
        admin = pathlib.Path(self.home, "admin.key").read_text().strip()
        with self.serve() as s:
            self.check_second_coordinator()
            prompt = {"model": s.model, "prompt": "The sea", "max_tokens": 4, "seed": 1}
            code, before = self.ask(s, "/v1/completions", prompt, key)
            self.assertEqual(code, 200, before)
            self.postgres.cut()
            code, refused = self.ask(s, "/api/v1/keys", {"name": "phone"}, admin)
            self.assertEqual((code, refused["error"]["code"]), (503, "store_unavailable"), refused)
            self.assertIn("is away", refused["error"]["message"])
            code, meanwhile = self.ask(s, "/v1/completions", prompt, key,
                                       **{"Idempotency-Key": "kept"})
            self.assertEqual(code, 200, meanwhile)
            self.assertEqual(meanwhile["choices"], before["choices"])
            self.refused(self.home, "is away", "key", "list", code=3)
            self.postgres.start()
            swarm.wait_until(
                lambda: self.ask(s, "/api/v1/keys", {"name": "phone"}, admin)[0] == 200,
                "the database's return")
            # What waited in memory arrives.
            swarm.wait_until(
                lambda: self.postgres.ask("SELECT count(*) FROM hearth.requests WHERE ended > 0")
                == "1", "the kept request")
            self.assertIn("phone", self.good(self.home, "key", "list"))
            # A command's change arrives at the server.
            self.good(self.home, "key", "revoke", "laptop")
            swarm.wait_until(lambda: self.ask(s, "/v1/completions", prompt, key)[0] == 401,
                             "the revocation")
            # As when this server slept, and another one has had the store meanwhile.
            self.postgres.ask("UPDATE hearth.head SET epoch = epoch + 1, holder = 'attic, process "
                              "1'; NOTIFY hearth")
            self.assertEqual(s.process.wait(swarm.PATIENCE_S), 5, s.read_log())
            self.assertIn("is used by the coordinator on attic, process 1", s.read_log())
            self.assertNotIn("hush-hush", s.read_log())
        self.good(self.home, "store", "migrate", "--to", "sqlite")
        with sqlite3.connect(self.home + "/hearth.db") as db:
            self.assertEqual(db.execute("SELECT count(*) FROM keys").fetchone()[0], 3)
            self.assertEqual(db.execute("SELECT count(*) FROM requests").fetchone()[0], 1)
        with self.serve():
            pass

    def check_second_coordinator(self):
        other = self.folder("other")
        code, _, err = swarm.hearth("serve", "--model", swarm.MODEL, "--local-workers", "0",
                                    "--data-dir", other, "--port", "0", "--store",
                                    self.postgres.url)
        self.assertEqual(code, 5, err)
        self.assertIn("is used by the coordinator on " + os.uname().nodename, err)
        self.assertNotIn("hush-hush", err)


if __name__ == "__main__":
    if not BIN:
        print("the package postgresql is not installed: the test is not run")
        sys.exit(77)
    swarm.main(layers=2)
