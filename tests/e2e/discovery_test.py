"""`hearth join` without a token: a cluster that is found on the wire by DNS-SD, with Avahi's real
daemon on each machine, and a person who lets the new machine in. Exits 77 where namespaces are not
permitted or Avahi is not installed.
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import machines
import swarm

INTRUDER = os.environ.get("HEARTH_INTRUDER", "build/tests/e2e/intruder")
BUS = """<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig><type>system</type><listen>unix:path={}</listen><auth>EXTERNAL</auth>
<policy context="default"><allow user="*"/><allow own="*"/><allow send_destination="*"/>
<allow receive_sender="*"/></policy></busconfig>
"""
# Its own /run: two daemons of one file system would take each other for themselves.
DAEMON = ("mount -t tmpfs tmpfs /run && mkdir /run/avahi-daemon && exec avahi-daemon -f {} "
          "--no-drop-root --no-chroot --no-rlimits")


class Discovery(machines.Household):
    def setUp(self):
        super().setUp()
        for machine in (self.home, self.desk):
            self.start_avahi(machine)

    def daemon(self, machine, words, log_path):
        with open(log_path, "ab") as log:
            started = subprocess.Popen(self.wire.words(machine.name, *words), stdout=log,
                                       stderr=log, env=machine.environment())
        self.addCleanup(started.wait)
        self.addCleanup(started.terminate)

    def start_avahi(self, machine):
        at = pathlib.Path(self.folder, machine.name + ".bus")
        bus, config = at.with_suffix(".xml"), at.with_suffix(".avahi")
        bus.write_text(BUS.format(at))
        config.write_text(f"[server]\nhost-name={machine.name}\nuse-ipv6=no\n")
        machine.variables["DBUS_SYSTEM_BUS_ADDRESS"] = f"unix:path={at}"
        for words in (["dbus-daemon", f"--config-file={bus}", "--nofork", "--nopidfile"],
                      ["unshare", "-m", "sh", "-c", DAEMON.format(config)]):
            self.daemon(machine, words, at.with_suffix(".log"))
            swarm.wait_until(at.exists, "the bus")
        swarm.wait_until(lambda: "complete" in at.with_suffix(".log").read_text(),
                         f"Avahi on {machine.name}")

    def waiting(self):
        return json.loads(self.good(self.home, "approve", "--json"))

    def found(self):
        code, out, _ = self.desk.run("join")
        return code == 0 and [line.split() for line in out.splitlines()[1:]]

    def test_found_asked_and_let_in(self):
        words = json.loads(self.good(self.home, "init", "cosy home", "--json"))["words"]
        self.home.start("serve", "--model", swarm.MODEL, "--stages", "1")
        [[number, *name, shown, address]] = swarm.wait_until(self.found, "the announcement")
        self.assertEqual((number, " ".join(name), shown, address),
                         ("1", "cosy home", words, machines.NETWORK + "1:11501"))

        with self.subTest("looking joins nothing, and asking takes a person's word"):
            join = ("join", "cosy home", "--model", swarm.MODEL, "--name", "desk")
            self.assertEqual(self.waiting(), [])  # who looks lets machines ask
            code, _, err = self.desk.run(*join)
            self.assertNotEqual(code, 0)
            self.assertIn(words, err)
            self.assertIn("--yes", err)
            self.assertEqual(self.waiting(), [])
            code, _, err = self.desk.run("join", "elsewhere", "--model", swarm.MODEL, "--yes")
            self.assertEqual(code, 1)
            self.assertIn("no cluster on this network announces itself as elsewhere", err)

        with self.subTest("asked, and let in"):
            self.desk.start(*join, "--yes")
            [one] = swarm.wait_until(self.waiting, "the desk asks")
            own = re.search(r"this machine is desk, with the key (\S+)", self.desk.log()).group(1)
            self.assertEqual((one["name"], one["words"], one["from"]),
                             ("desk", own, machines.NETWORK + "2"))
            self.assertEqual(self.names(self.home), {"coordinator"})
            code, _, err = self.home.run("approve", "attic")
            self.assertEqual(code, 1)
            self.good(self.home, "approve", own)
            self.assertEqual(self.waiting(), [])
            self.assertEqual(self.names(self.home), {"coordinator", "desk"})
            swarm.wait_until(lambda: f"joined the cluster cosy home ({words})" in self.desk.log(),
                             "the desk is in")
            swarm.wait_until(lambda: self.home.run("status", "--wait", "1")[0] == 0, "readiness")

        with self.subTest("without a daemon"):
            code, _, err = self.attic.run("join")
            self.assertEqual(code, 1)
            self.assertIn("the Avahi daemon does not run", err)
            self.assertIn("hearth join TOKEN", err)

        with self.subTest("by address, and no server opens"):
            asked = ("join", machines.NETWORK + "1:11501", "--model", swarm.MODEL, "--yes",
                     "--wait", "4s")
            code, _, err = self.attic.run(*asked, "--name", "attic")
            self.assertEqual(code, 124, err)
            self.assertIn(words, err)
            self.assertFalse((self.attic.folder / "member.json").exists())
            code, _, err = self.attic.run(*asked, "--name", "desk")
            self.assertEqual(code, 124, "who is in already is not said")

        with self.subTest("few wait at a time"):
            done = subprocess.run(self.wire.words("attic", INTRUDER, "knock",
                                                  machines.NETWORK + "1:11501", "-", "spy", "20"),
                                  capture_output=True, text=True, timeout=swarm.PATIENCE_S)
            heard = [json.loads(line) for line in done.stdout.splitlines()]
            self.assertEqual(len(heard), 20, done.stderr)
            self.assertEqual({(one["refused"], one["heard"]) for one in heard}, {(True, "")})
            self.assertLessEqual(len(self.waiting()), 4)
            code, _, err = self.home.run("approve", "spy")
            self.assertEqual(code, 1)
            self.assertIn("several nodes ask to join as spy", err)

        with self.subTest("a coordinator that has moved is found again"):
            self.home.stop()
            new, space = machines.NETWORK + "91", self.wire.prefix + "home"
            # In this order: with the first address of a network go all others of it.
            machines.ip("-n", space, "addr", "del", machines.NETWORK + "1/24", "dev", "eth0")
            machines.ip("-n", space, "addr", "add", new + "/24", "dev", "eth0")
            code, _, err = self.home.run("serve", "--model", swarm.MODEL)
            self.assertEqual(code, 3, err)
            self.assertIn("hearth init --address " + new, err)
            self.good(self.home, "init", "--address", new)
            self.home.start("serve", "--model", swarm.MODEL, "--stages", "1")
            swarm.wait_until(lambda: self.home.run("status", "--wait", "1")[0] == 0,
                             "the desk is there again")
            self.assertIsNone(self.desk.process.poll(), self.desk.log())
            self.assertIn("found the coordinator on this network at " + new + ":11501", self.desk.log())


if __name__ == "__main__":
    for program in ("avahi-daemon", "avahi-browse", "avahi-publish-service", "dbus-daemon"):
        if shutil.which(program, path="/usr/bin:/usr/sbin:/bin:/sbin") is None:
            print(f"not run: {program} is not installed (avahi-daemon, avahi-utils, dbus)")
            sys.exit(77)
    machines.main()
