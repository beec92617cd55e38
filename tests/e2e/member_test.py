"""Three machines (network namespaces) from nothing to an answer on each, by the fewest commands; their
workers go on in the background. Exits 77 where namespaces are not permitted.
"""

import json
import os
import re
import signal
import subprocess

import machines
import swarm

COMMANDS = 5  # until the first answer
ANSWER = ("--max-tokens", "4", "--temperature", "0")


class FromNothing(machines.Household):
    on_the_wire = ("home", "den", "attic")

    def setUp(self):
        super().setUp()
        self.typed = 0

    def type(self, machine, *words):
        self.typed += 1
        code, out, err = machine.run(*words)
        self.assertEqual(code, 0, f"{machine.name}: {words}: {err} {machine.log()}")
        return out, err

    def background(self, machine, *words):
        """The process that --detach left; its output is a file, as a terminal's would stay open."""
        self.typed += 1
        with open(machine.log_path, "ab") as log:
            done = subprocess.run(machine.wire.words(machine.name, swarm.HEARTH, *words),
                                  stdout=log, stderr=log, timeout=swarm.PATIENCE_S,
                                  env=machine.environment())
        said = machine.log()
        self.assertEqual(done.returncode, 0, said)
        pid = int(said.split("in the background as process ")[1].split()[0].rstrip(";"))
        self.addCleanup(self.end, pid)
        return pid

    @staticmethod
    def end(pid):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass

    def test_who_joins_is_told_what_it_serves(self):
        said, _ = self.type(self.home, "init", "testhome", "--invite", "2")
        token = said.split("hearth join ")[1].strip()
        self.background(self.home, "serve", swarm.MODEL, "--local-workers", "0", "--stages", "1",
                        "--detach")
        self.assertIn("cluster testhome: it needs 1 other machine; for each of them: hearth "
                      "token create on this machine", self.home.log())
        self.background(self.den, "join", token, "--name", "den", "--data-dir",
                        str(self.den.folder), "--detach")
        self.assertIn(f"hearth worker --data-dir {self.den.folder}\n", self.den.log())
        self.assertRegex(self.den.log(), r"process \d+ and serves layers 0-\d+\n")
        self.background(self.attic, "join", token, "--name", "attic", "--detach")
        self.assertRegex(self.attic.log(), r"process \d+ and serves (layers|as soon as)")

    def test_three_machines_answer_after_five_commands(self):
        said, _ = self.type(self.home, "init", "testhome", "--invite", "2")
        token = said.split("hearth join ")[1].strip()
        self.background(self.home, "serve", swarm.MODEL, "--detach")
        workers = {}
        for machine in (self.den, self.attic):
            workers[machine] = self.background(machine, "join", token, "--name", machine.name,
                                               "--detach")
        model = json.loads(self.good(self.home, "status", "--wait", "60", "--json"))["model"]["id"]
        answer, _ = self.type(self.den, "run", "The capital of France is", *ANSWER)
        self.assertLessEqual(self.typed, COMMANDS)
        self.assertTrue(answer.strip())
        for machine in (self.attic, self.home):
            self.assertEqual(self.good(machine, "run", model, "The capital of France is", *ANSWER),
                             answer.strip(), machine.name)
        for machine in (self.den, self.attic):
            self.assertIn(machine.name, self.good(machine, "status"))
            self.assertIn(machine.name, self.good(machine, "logs"))
            self.assertIn("joined the cluster testhome (", machine.log())
            nodes = self.good(machine, "nodes").splitlines()
            self.assertIn("cluster testhome (", nodes[0])
            self.assertLess(max(map(len, nodes)), 100, nodes)
            order = [re.search("attic|coordinator|den", line) for line in nodes[1:]]
            names = [name[0] for name in order if name]
            self.assertEqual(names, sorted(names), nodes)
            self.assertTrue(os.path.exists(f"/proc/{workers[machine]}"))
        # A member that left may ask no more, and its worker ends.
        self.good(self.den, "leave")
        swarm.wait_until(lambda: not os.path.exists(f"/proc/{workers[self.den]}"), "the end of den")
        self.assertNotEqual(self.den.run("status")[0], 0)


if __name__ == "__main__":
    machines.main()
