"""Servers whose store is in PostgreSQL: one computes while the database is away and refuses only what must
be stored; of two, one leads and the other takes over. A real database server in a folder of its own.
"""

import glob
import http.client
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
            self.check_other_keys()
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
            self.assertNotIn("hush-hush", s.read_log())
        self.good(self.home, "store", "migrate", "--to", "sqlite")
        with sqlite3.connect(self.home + "/hearth.db") as db:
            self.assertEqual(db.execute("SELECT count(*) FROM keys").fetchone()[0], 3)
            self.assertEqual(db.execute("SELECT count(*) FROM requests").fetchone()[0], 1)
        with self.serve():
            pass

    def check_other_keys(self):
        other = self.folder("other")
        code, _, err = swarm.hearth("serve", "--model", swarm.MODEL, "--local-workers", "0",
                                    "--data-dir", other, "--port", "0", "--store",
                                    self.postgres.url)
        self.assertEqual(code, 5, err)
        self.assertIn("belongs to coordinators with other keys", err)
        self.assertNotIn("hush-hush", err)

    def coordinator(self, folder, **how):
        return swarm.Swarm(0, "--stages", "1", data_dir=folder, ready=False, **how)

    def lease(self):
        epoch, holder = self.postgres.ask("SELECT epoch, name FROM hearth.lease").split("|")
        return int(epoch), holder

    def wait_for_leader(self, epoch, s):
        swarm.wait_until(lambda: self.lease() == (
            epoch, f"{os.uname().nodename}, process {s.process.pid}"), f"epoch {epoch}")

    def test_a_standby_takes_over(self):
        self.init()
        self.good(self.home, "store", "migrate", "--to", self.postgres.url)
        twin = self.folder("twin")
        shutil.copytree(self.home, twin)
        prompt = {"model": pathlib.Path(swarm.MODEL).stem, "prompt": "The sea", "max_tokens": 4,
                  "seed": 1}

        def answer(s):
            try:
                code, body = swarm.http("POST", s.api + "/v1/completions", prompt)
            except (OSError, http.client.HTTPException):
                return None
            return body["choices"] if code == 200 else None

        first = self.coordinator(self.home)
        with first:
            self.wait_for_leader(2, first)  # the migration has had the first
            with self.coordinator(twin, control_port=swarm.free_port()) as second:
                worker, log = self.start(self.folder("attic"), "join", self.token())
                first.wait_ready()
                expected = answer(first)
                self.assertIsNotNone(expected)
                self.assertEqual(answer(second), expected, "a standby forwards")
                _, state = swarm.http("GET", second.api + "/api/v1/state")
                self.assertIn(str(first.process.pid), state["store"]["leader"]["name"])
                self.assertIn(str(second.process.pid), state["store"]["standbys"][0]["name"])
                # The worker hears of the second coordinator by the roster.
                swarm.wait_until(lambda: len(json.loads(pathlib.Path(
                    self.folder("attic"), "member.json").read_text())["coordinators"]) == 2,
                    "both addresses")

                first.process.kill()
                self.wait_for_leader(3, second)
                self.assertEqual(swarm.wait_until(lambda: answer(second), "the new leader"),
                                 expected)
                with self.coordinator(self.home) as third:
                    # Frozen, the leader keeps its connections. It wakes up deposed.
                    os.kill(second.process.pid, signal.SIGSTOP)
                    self.wait_for_leader(4, third)
                    os.kill(second.process.pid, signal.SIGCONT)
                    self.assertEqual(swarm.wait_until(lambda: answer(third), "epoch 4"), expected)
                    swarm.wait_until(lambda: answer(second) == expected, "the standby")
                    self.assertEqual(self.lease()[0], 4)
                    self.assertIsNone(second.process.poll(), second.read_log())
        # Both have written to one log.
        code, out, err = swarm.hearth("audit", twin)
        self.assertEqual(code, 0, out + err)


if __name__ == "__main__":
    if not BIN:
        print("the package postgresql is not installed: the test is not run")
        sys.exit(77)
    swarm.main(layers=2)
