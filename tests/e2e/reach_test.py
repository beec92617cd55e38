"""`hearth doctor` between machines, which are network namespaces: the coordinator dials a worker
back, and where a firewall blocks that, doctor prints the line that opens the port. Exits 77 where
namespaces are not permitted.
"""

import json
import shlex
import shutil
import subprocess
import time
import unittest

import machines
import swarm

REMEMBERED = 11  # seconds: coordinator/membership/dial_back.h


class Reach(machines.Household):
    on_the_wire = ("home", "desk")

    def setUp(self):
        super().setUp()
        self.good(self.home, "init", "testhome")
        self.home.start("serve", "--model", swarm.MODEL, "--stages", "1", "--data-port", "11502")
        self.answers()
        self.desk.start("join", self.good(self.home, "token", "create"), "--model", swarm.MODEL,
                        "--name", "desk", "--listen", machines.NETWORK + "2:11503")
        swarm.wait_until(lambda: "registered with" in self.desk.log(), "the desk")

    def findings(self, machine, check):
        out = machine.run("doctor", "--json")[1]
        return [one for one in json.loads(out)["findings"] if one["check"] == check]

    def add_rules(self, machine, rules):
        made = subprocess.run(self.wire.words(machine, "nft", rules), capture_output=True, text=True)
        if made.returncode != 0:
            self.skipTest(f"this kernel takes no nftables rules: {made.stderr.strip()}")

    def mend(self, machine, line):
        words = shlex.split(line)
        self.assertEqual(words[0], "sudo")
        done = subprocess.run(self.wire.words(machine.name, *words[1:]), capture_output=True,
                              text=True)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_reached(self):
        [one] = self.findings(self.desk, "reach")
        self.assertEqual(one["health"], "ok", one)
        self.assertIn(machines.NETWORK + "2:11503", one["text"])
        self.assertIn((machines.NETWORK + "1", 11502),
                      {(str(host), port) for host, port in self.home.listening()})
        [one] = self.findings(self.home, "reach")
        self.assertEqual(one["health"], "skipped" if "no worker" in one["text"] else "ok", one)
        out = self.desk.run("doctor", "--offline", "--json")[1]
        self.assertIn("not asked (--offline)", out)

    @unittest.skipIf(shutil.which("nft") is None, "nft (nftables) is not installed")
    def test_a_firewall_is_opened_by_the_line_that_is_printed_for_it(self):
        rules = ("add table inet filter; add chain inet filter input "
                 "{ type filter hook input priority 0; policy drop; }; "
                 "add rule inet filter input iif lo accept; "
                 "add rule inet filter input tcp sport 11501 accept")
        self.add_rules("desk", rules)
        [one] = self.findings(self.desk, "reach")
        self.assertEqual(one["health"], "failed", one)
        self.assertIn("cannot connect to this machine's worker", one["text"])
        ufw, firewalld, nft = one["mend"].splitlines()
        self.assertEqual(ufw, "sudo ufw allow 11503/tcp")
        self.assertIn("firewall-cmd --permanent --add-port=11503/tcp", firewalld)
        self.mend(self.desk, nft)
        time.sleep(REMEMBERED)
        [one] = self.findings(self.desk, "reach")
        self.assertEqual(one["health"], "ok", one)


if __name__ == "__main__":
    machines.main()
