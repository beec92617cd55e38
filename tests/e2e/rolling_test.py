"""A swarm that is updated machine by machine: programs of this protocol version and of the one
after it serve together, whichever is updated first, and give the same answer as before.
"""

import json
import os
import pathlib
import subprocess
import unittest

import cluster
import swarm

LATER = os.environ.get("HEARTH_LATER", "build/tests/e2e/hearth-later")


def version(program):
    done = subprocess.run([program, "version", "--json"], capture_output=True, text=True)
    return json.loads(done.stdout)["protocol"]


class Rolling(cluster.Cluster):
    def serve_with(self, program):
        before, swarm.HEARTH = swarm.HEARTH, program
        try:
            return swarm.Swarm(0, "--stages", "2", data_dir=self.home, ready=False)
        finally:
            swarm.HEARTH = before

    def work(self, program, name):
        log = pathlib.Path(self.folder(name) + ".log")
        with open(log, "ab") as out:
            process = subprocess.Popen([program, "worker", "--model", swarm.MODEL, "--data-dir",
                                        self.folder(name)], stdout=out, stderr=out)
        self.processes.append(process)
        return process

    def answer(self, s):
        s.wait_ready()
        code, out, err = swarm.hearth("run", s.model, "Count to five.", "-n", "12", "--temp", "0",
                                      "--seed", "1", "--host", s.api)
        self.assertEqual(code, 0, err)
        self.assertTrue(out)
        return out

    def spoken(self, s):
        return {node["name"]: node["protocol"] for node in s.state()["nodes"]
                if node["state"] != "lost"}

    def replace(self, process, program, name):
        process.terminate()
        process.wait(swarm.PATIENCE_S)
        return self.work(program, name)

    def test_machine_by_machine(self):
        now, later = version(swarm.HEARTH), version(LATER)
        self.assertEqual(later, now + 1)
        self.init()
        for first in ("the coordinator", "the workers"):
            with self.subTest(first + " first"):
                self.roll(now, first == "the coordinator")

    def roll(self, now, coordinator_first):
        with self.serve_with(swarm.HEARTH) as s:
            workers = {}
            for name in ("desk", "attic"):
                if not os.path.exists(self.folder(name)):
                    self.enrol(name, self.token())
                workers[name] = self.work(swarm.HEARTH, name)
            expected = self.answer(s)
            self.assertEqual(set(self.spoken(s).values()), {now})
            if not coordinator_first:
                for name, process in workers.items():
                    workers[name] = self.replace(process, LATER, name)
                    self.assertEqual(self.answer(s), expected, name)
                self.assertEqual(set(self.spoken(s).values()), {now})
        with self.serve_with(LATER) as s:
            self.assertEqual(self.answer(s), expected, "the coordinator")
            if coordinator_first:
                self.assertEqual(set(self.spoken(s).values()), {now})
                for name, process in workers.items():
                    workers[name] = self.replace(process, LATER, name)
                    self.assertEqual(self.answer(s), expected, name)
            self.assertEqual(set(self.spoken(s).values()), {now + 1})
        for process in workers.values():
            process.terminate()
            process.wait(swarm.PATIENCE_S)


if __name__ == "__main__":
    swarm.main()
