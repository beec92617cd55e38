"""A cluster of real processes on loopback, for the end-to-end tests."""

import json
import os
import pathlib
import subprocess
import tempfile
import unittest

import swarm


def init(folder):
    """A cluster on loopback: what its machines say to each other stays on this one."""
    code, out, err = swarm.hearth("init", "home", "--address", "127.0.0.1", "--control-port",
                                  swarm.free_port(), "--data-dir", folder)
    if code != 0:
        raise AssertionError(err)
    return out.strip()


class Cluster(unittest.TestCase):
    """A folder for a coordinator, and one for each machine that joins; all on loopback."""

    def setUp(self):
        self.root = tempfile.TemporaryDirectory()
        self.addCleanup(self.root.cleanup)  # the last: servers write until they are stopped
        self.home = self.folder("home")
        self.processes = []

    def tearDown(self):
        for process in self.processes:
            if process.poll() is None:
                process.kill()
                process.wait()

    def folder(self, name):
        return os.path.join(self.root.name, name)

    def run_in(self, folder, *words):
        return swarm.hearth(*words, "--data-dir", folder)

    def good(self, folder, *words):
        code, out, err = self.run_in(folder, *words)
        self.assertEqual(code, 0, f"{words}: {err}")
        return out.strip()

    def refused(self, folder, says, *words, code=1):
        got, out, err = self.run_in(folder, *words)
        self.assertEqual(got, code, f"{words}: {out}{err}")
        self.assertIn(says, err)
        return err

    def init(self):
        return init(self.home)

    def serve(self):
        return swarm.Swarm(0, "--stages", "1", data_dir=self.home, ready=False)

    def token(self, *words):
        return self.good(self.home, "token", "create", *words)

    def start(self, folder, *words):
        log = pathlib.Path(folder + ".log")
        with open(log, "ab") as out:
            self.processes.append(subprocess.Popen(
                [swarm.HEARTH, *words, "--data-dir", folder], stdout=out, stderr=out))
        return self.processes[-1], log

    def join(self, name, token):
        return self.start(self.folder(name), "join", token, "--model", swarm.MODEL, "--name", name)

    def enrol(self, name, token):
        """Joins, and ends once it has."""
        process, log = self.join(name, token)
        swarm.wait_until(lambda: "joined the cluster" in log.read_text(errors="replace"), name)
        process.terminate()
        process.wait(swarm.PATIENCE_S)

    def names(self):
        return {node["name"] for node in json.loads(self.good(self.home, "nodes", "--json"))["nodes"]}
