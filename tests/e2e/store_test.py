"""Servers whose store is in PostgreSQL: one computes while the database is away and refuses only what must
be stored; of two, one leads and the other takes over. A real database server in a folder of its own.
"""

import http.client
import json
import os
import pathlib
import shutil
import signal
import sqlite3
import sys
import unittest

import cluster
import postgres
import swarm


class Store(cluster.Cluster):
    def setUp(self):
        super().setUp()
        self.postgres = postgres.Postgres()
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

    def leader(self, *those):
        """Which of them holds the lease."""
        name = self.postgres.ask("SELECT name FROM hearth.lease WHERE lasts > 0")
        return next((s for s in those
                     if name == f"{os.uname().nodename}, process {s.process.pid}"), None)

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

        def one_of_both():
            """A busy machine may lose its lease at any time: no test expects which one leads."""
            both = self.homes
            leader = swarm.wait_until(lambda: self.leader(*both), "a leader")
            return leader, next(s for s in both if s is not leader)

        ports = {self.home: None, twin: swarm.free_port()}
        self.homes = [self.coordinator(folder, control_port=port)
                      for folder, port in ports.items()]
        self.addCleanup(lambda: [s.stop() for s in self.homes])
        self.start(self.folder("attic"), "join", self.token())
        expected = swarm.wait_until(lambda: answer(self.homes[0]), "an answer")
        self.assertEqual(swarm.wait_until(lambda: answer(self.homes[1]), "the other one's"),
                         expected)
        swarm.wait_until(self.shows_both, "both in the state")
        # The worker hears of the second coordinator by the roster.
        swarm.wait_until(lambda: len(json.loads(pathlib.Path(
            self.folder("attic"), "member.json").read_text())["coordinators"]) == 2,
            "both addresses")

        leader, standby = one_of_both()
        leader.kill()
        swarm.wait_until(lambda: self.leader(standby), "a takeover")
        self.assertEqual(swarm.wait_until(lambda: answer(standby), "the new leader"), expected)
        place = self.homes.index(leader)
        leader.log.close()
        folder = str(leader.data_dir)
        self.homes[place] = self.coordinator(folder, control_port=ports[folder])
        self.assertEqual(swarm.wait_until(lambda: answer(self.homes[place]), "its return"),
                         expected)

        # Frozen, the leader keeps its connections. It wakes up deposed.
        leader, standby = one_of_both()
        os.kill(leader.process.pid, signal.SIGSTOP)
        try:
            swarm.wait_until(lambda: self.leader(standby), "a takeover")
            self.assertEqual(swarm.wait_until(lambda: answer(standby), "the new leader"), expected)
        finally:
            os.kill(leader.process.pid, signal.SIGCONT)
        for s in self.homes:
            self.assertEqual(swarm.wait_until(lambda: answer(s), "an answer"), expected)
            self.assertIsNone(s.process.poll(), s.read_log())
        for s in self.homes:
            s.stop()
        # Both have written to one log.
        code, out, err = swarm.hearth("audit", twin)
        self.assertEqual(code, 0, out + err)

    def shows_both(self):
        status, state = swarm.http("GET", self.homes[0].api + "/api/v1/state")
        store = state.get("store") or {} if status == 200 else {}
        names = [store.get("leader", {}).get("name", "")]
        names += [standby["name"] for standby in store.get("standbys", [])]
        return all(any(name.endswith(f" {s.process.pid}") for name in names) for s in self.homes)


if __name__ == "__main__":
    if not postgres.BIN:
        print("the package postgresql is not installed: the test is not run")
        sys.exit(77)
    swarm.main(layers=2)
