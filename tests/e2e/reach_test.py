"""What `hearth doctor` says of the way between machines, which are network namespaces: a firewall
that lets nobody in, and a wire that drops large packets without a word. What it says mends it, is
done, and has then mended it. Exits 77 where namespaces are not permitted.
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
        swarm.wait_until(lambda: "registered with" in self.desk.log(), 60, "the desk")

    def findings(self, machine, check):
        out = machine.run("doctor", "--json")[1]
        return [one for one in json.loads(out)["findings"] if one["check"] == check]

    def add_rules(self, machine, rules):
        made = subprocess.run(self.wire.words(machine, "nft", rules), capture_output=True, text=True)
        if made.returncode != 0:
            self.skipTest(f"this kernel takes no nftables rules: {made.stderr.strip()}")

    def mend(self, machine, finding):
        words = shlex.split(finding["mend"])
        self.assertEqual(words[0], "sudo")
        done = subprocess.run(self.wire.words(machine.name, *words[1:]), capture_output=True,
                              text=True)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_reached(self):
        [one] = self.findings(self.desk, "reach")
        self.assertEqual(one["health"], "ok", one)
        self.assertIn(machines.NETWORK + "2:11503", one["text"])
        [one] = self.findings(self.desk, "path mtu")
        self.assertEqual(one["health"], "ok", one)
        self.assertIn("1500", one["text"])
        self.assertIn((machines.NETWORK + "1", 11502),
                      {(str(host), port) for host, port in self.home.listening()})
        [one] = self.findings(self.home, "reach")
        self.assertEqual(one["health"], "skipped" if "no worker" in one["text"] else "ok", one)
        out = self.desk.run("doctor", "--offline", "--json")[1]
        self.assertIn("not asked (--offline)", out)

    @unittest.skipIf(shutil.which("nft") is None, "nft (nftables) is not installed")
    def test_a_firewall_is_named_with_the_line_that_mends_it(self):
        rules = ("add table inet filter; add chain inet filter input "
                 "{ type filter hook input priority 0; policy drop; }; "
                 "add rule inet filter input iif lo accept; "
                 "add rule inet filter input tcp sport 11501 accept")
        self.add_rules("desk", rules)
        [one] = self.findings(self.desk, "reach")
        self.assertEqual(one["health"], "failed", one)
        self.assertIn("nftables here lets nobody in", one["text"])
        self.assertIn("11503", one["mend"])
        self.mend(self.desk, one)
        time.sleep(REMEMBERED)
        [one] = self.findings(self.desk, "reach")
        self.assertEqual(one["health"], "ok", one)

    @unittest.skipIf(shutil.which("nft") is None, "nft (nftables) is not installed")
    def test_a_table_of_ones_own_is_judged_by_its_rules(self):
        """Of a server's ports each that no rule opens is named, with the chain that closes it."""
        rules = ("add table inet fence; add chain inet fence arrivals "
                 "{ type filter hook input priority 0; policy drop; }; "
                 "add rule inet fence arrivals iif lo accept; "
                 "add rule inet fence arrivals ct state established,related accept; "
                 "add rule inet fence arrivals tcp dport { 22, 11000-11501 } accept; "
                 "add rule inet fence arrivals udp dport 11502 accept")
        self.add_rules("home", rules)
        [one] = self.findings(self.home, "firewall")
        self.assertEqual(one["health"], "warning", one)
        self.assertIn("drops in inet fence arrivals what others send to the data port 11502",
                      one["text"])
        self.mend(self.home, one)
        [one] = self.findings(self.home, "firewall")
        self.assertEqual(one["health"], "ok", one)

    def test_a_way_that_drops_large_packets(self):
        machines.ip("-n", self.wire.prefix + "hub", "link", "set", "home", "mtu", "1280")
        [one] = self.findings(self.desk, "path mtu")
        self.assertEqual(one["health"], "failed", one)
        self.assertIn("takes packets of 1280 bytes at most", one["text"])
        self.mend(self.desk, one)
        [one] = self.findings(self.desk, "path mtu")
        self.assertEqual(one["health"], "ok", one)
        self.assertIn("1280", one["text"])


if __name__ == "__main__":
    machines.main()
