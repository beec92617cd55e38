"""Workers behind routers that translate addresses: they only dial out, and serve at once with no
flag. Where both routers give a local port one outside port, two workers connect to each other at
once; else the coordinator relays, and after a takeover the next one does. Exits 77 where namespaces
or nftables are not permitted.
"""

import itertools
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

import machines
import nat
import postgres
import swarm

PROMPT = ("Tell me a long story about the sea.", "-n", "24", "--temp", "0.9", "--seed", "5",
          "--ignore-eos")


class BehindRouters(unittest.TestCase):
    inside = {"desk": "port-restricted", "attic": "symmetric"}
    flags = {}
    refusing = ()

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.wire = nat.Homes("home", self.inside, self.refusing)
        self.addCleanup(self.wire.cut)
        for name in ("home", *self.inside):
            machine = machines.Machine(self.wire, name, folder.name)
            setattr(self, name, machine)
            self.addCleanup(machine.stop, signal.SIGKILL)

    def good(self, machine, *words):
        code, out, err = machine.run(*words)
        self.assertEqual(code, 0, f"{words}: {err}{machine.log()}")
        return out.strip()

    def state(self, machine=None):
        return json.loads(self.good(machine or self.home, "status", "--json"))

    def start(self, *words):
        self.good(self.home, "init", "testhome")
        self.home.start("serve", "--model", swarm.MODEL, *words)
        swarm.wait_until(lambda: self.home.run("status")[0] == 0, "the server")
        token = self.good(self.home, "token", "create", "--uses", str(len(self.inside)))
        for name in self.inside:
            getattr(self, name).start("join", token, "--model", swarm.MODEL, "--name", name,
                                      *self.flags.get(name, ()))

    def ready(self, machine=None):
        server = machine or self.home
        def asked():
            self.assertIsNone(server.process.poll(), server.log())
            return server.run("status", "--wait", "1")[0] == 0
        swarm.wait_until(asked, "readiness")

    def check_answer(self, machine=None):
        server = machine or self.home
        local = self.good(server, "run", "--local", swarm.MODEL, *PROMPT)
        model = self.state(server)["model"]["id"]
        self.assertEqual(self.good(server, "run", model, *PROMPT), local)

    def check_cannot_dial(self):
        """Neither worker's port is reachable from outside its home."""
        for name in self.inside:
            _, port = next(one for one in getattr(self, name).listening()
                           if str(one[0]) == "192.168.1.2")
            number = 2 + list(self.inside).index(name)
            tried = subprocess.run(
                self.wire.words("home", sys.executable, "-c",
                                f"import socket; socket.create_connection(('{nat.NETWORK}{number}',"
                                f" {port}), 1)"), capture_output=True)
            self.assertNotEqual(tried.returncode, 0)

    def test_two_stages_serve_over_links_that_the_coordinator_relays(self):
        self.start("--stages", "2", "--relay-megabits", "80")
        self.ready()
        self.check_cannot_dial()
        self.check_answer()
        state = self.state()
        self.assertEqual({link["route"] for link in state["links"]}, {"relayed"})
        self.assertEqual({node["seen_host"] for node in state["nodes"]},
                         {nat.NETWORK + "2", nat.NETWORK + "3"})
        shown = self.good(self.home, "status")
        self.assertIn("desk to attic: relayed by the coordinator", shown)
        self.assertIn("attic to desk: relayed by the coordinator", shown)
        # From a worker's machine to the other one, and from the server's.
        for machine in (self.desk, self.home):
            heard = json.loads(self.good(machine, "ping", "attic", "-c", "2", "--json"))
            self.assertEqual(heard["path"], "relayed")
            self.assertEqual(len([one for one in heard["probes"] if "milliseconds" in one]), 2)
            self.assertGreater(heard["bytes_per_second"]["to"], 0)
            # A fiftieth of a second's bytes pass at once.
            self.assertLess(heard["bytes_per_second"]["to"], 1.5 * 80 * 125_000)
        self.assertIn("relayed", self.good(self.desk, "ping", "attic", "-c", "1"))
        found = json.loads(self.desk.run("doctor", "--json")[1])["findings"]
        [reach] = [one for one in found if one["check"] == "reach"]
        self.assertEqual(reach["health"], "ok", reach)
        self.assertIn("a router translates this worker's address", reach["text"])
        self.assertIn(nat.NETWORK + "2", reach["text"])

    def test_measured_placement_knows_relayed_links(self):
        self.start()
        def measured():
            state = self.state()
            links = state.get("measured", {}).get("links", [])
            return (links, state["routes"]) if len(links) == 2 else None
        links, routes = swarm.wait_until(measured, "measured links")
        self.assertEqual([one["route"] for one in routes], ["relayed", "relayed"])
        for link in links:
            self.assertGreater(link["bytes_per_second"], 0)
            self.assertGreater(link["seconds"], 0)
        self.ready()
        self.check_answer()


class WithARelay(BehindRouters):
    """A worker outside offers to relay."""
    inside = {"cellar": nat.NONE, "desk": "port-restricted", "attic": "symmetric"}
    flags = {"cellar": ("--relay",)}

    test_two_stages_serve_over_links_that_the_coordinator_relays = None
    test_measured_placement_knows_relayed_links = None

    def test_a_member_that_offers_it_relays(self):
        self.start()
        def measured():
            routes = self.state().get("routes", [])
            return {(one["from"], one["to"]): one["route"] for one in routes} \
                if len(routes) == 6 else None
        routes = swarm.wait_until(measured, "measured links")
        self.assertEqual(routes[("attic", "desk")], "relayed")
        self.assertNotEqual(routes[("cellar", "desk")], "relayed")
        [cellar] = [node for node in self.state()["nodes"] if node["name"] == "cellar"]
        heard = json.loads(self.good(self.desk, "ping", "attic", "-c", "2", "--json"))
        self.assertEqual((heard["path"], heard["address"]), ("relayed", cellar["data_address"]))
        self.assertEqual(len([one for one in heard["probes"] if "milliseconds" in one]), 2)
        # Without it, the coordinator relays.
        self.cellar.stop(signal.SIGKILL)
        def other():
            code, out, _ = self.desk.run("ping", "attic", "-c", "1", "--no-rate", "--json")
            return json.loads(out)["address"] if code == 0 else None
        self.assertTrue(swarm.wait_until(other, "an answer").startswith(nat.NETWORK + "1:"))


class WithRoutersThatLetAnswersPass(BehindRouters):
    """Neither router forwards a port. Both are some milliseconds away, as homes are."""
    inside = {"desk": "port-restricted", "attic": nat.DOUBLE}

    test_two_stages_serve_over_links_that_the_coordinator_relays = None
    test_measured_placement_knows_relayed_links = None

    def setUp(self):
        super().setUp()
        for name, milliseconds in zip(self.inside, itertools.cycle((10, 20))):
            self.wire.far(name, milliseconds)

    def test_their_workers_connect_to_each_other_at_once(self):
        self.start("--stages", "2", "--relay-megabits", "0")
        self.ready()
        self.check_cannot_dial()
        self.check_answer()
        self.assertEqual({link["route"] for link in self.state()["links"]}, {"punched"})
        shown = self.good(self.home, "status")
        self.assertIn("desk to attic: punched", shown)
        self.assertIn("attic to desk: punched", shown)
        # From a worker's machine to the other one, in a process of its own.
        heard = json.loads(self.good(self.desk, "ping", "attic", "-c", "2", "--json"))
        self.assertEqual(heard["path"], "punched")
        self.assertEqual(len([one for one in heard["probes"] if "milliseconds" in one]), 2)
        self.assertGreater(heard["bytes_per_second"]["to"], 0)
        self.assertIn("punched", self.good(self.attic, "ping", "desk", "-c", "1"))
        found = json.loads(self.desk.run("doctor", "--json")[1])["findings"]
        [reach] = [one for one in found if one["check"] == "reach"]
        self.assertEqual(reach["health"], "ok", reach)
        self.assertIn("punched", reach["text"])


class WithRoutersThatRefuse(WithRoutersThatLetAnswersPass):
    """A router answers what it does not expect with a reset, so a try may fail at once."""
    refusing = ("desk", "attic")


class WithEveryPairOfRouters(WithRoutersThatLetAnswersPass):
    """Two workers of a kind, each behind a router of its own, of which the second one refuses."""
    kinds = (nat.NONE, "full cone", "address-restricted", "port-restricted", "symmetric", nat.DOUBLE)
    inside = {"open": nat.NONE,
              **{f"{kind[:4]}-{number}": kind for kind in kinds[1:] for number in (1, 2)}}
    refusing = tuple(name for name in inside if name.endswith("2"))

    test_their_workers_connect_to_each_other_at_once = None

    def test_each_takes_the_best_route_that_both_let_pass(self):
        self.start()
        # One link is measured after the other, each in the time that one wait allows.
        pairs = list(itertools.combinations(self.inside, 2))
        for count in range(1, len(pairs) + 1):
            routes = swarm.wait_until(
                lambda: self.measured() if len(self.measured()) >= 2 * count else None,
                f"measured links of {count} pairs")
        for one, other in pairs:
            kinds = {self.inside[one], self.inside[other]}
            allowed = ({"direct", "reverse"} if nat.NONE in kinds else
                       {"relayed"} if "symmetric" in kinds else {"punched"})
            self.assertIn(routes[(one, other)], allowed, (one, other))

    def measured(self):
        return {(one["from"], one["to"]): one["route"] for one in self.state().get("routes", [])}


@unittest.skipUnless(shutil.which("miniupnpd"), "the package miniupnpd-nftables is not installed")
class WithRoutersThatForward(BehindRouters):
    """Both routers forward a port when they are asked: one by NAT-PMP, the other by UPnP."""
    inside = {"desk": "asked by NAT-PMP", "attic": "asked by UPnP"}

    test_two_stages_serve_over_links_that_the_coordinator_relays = None
    test_measured_placement_knows_relayed_links = None

    def setUp(self):
        for module in (machines, nat):
            patch = unittest.mock.patch.object(module, "NETWORK", nat.PUBLIC)
            patch.start()
            self.addCleanup(patch.stop)
        super().setUp()

    def routes(self):
        return {(one["from"], one["to"]): one["route"] for one in self.state().get("routes", [])}

    def test_their_workers_reach_each_other_without_a_relay(self):
        self.start("--relay-megabits", "0")
        swarm.wait_until(lambda: set(self.routes().values()) == {"direct"} and len(self.routes()) == 2,
                         "direct links")
        def mapped():
            nodes = {node["name"]: node for node in self.state()["nodes"]}
            return nodes if all("outside_port" in node for node in nodes.values()) else None
        nodes = swarm.wait_until(mapped, "a port of each router")
        for name, number in (("desk", 2), ("attic", 3)):
            self.assertEqual(nodes[name]["seen_host"], f"{nat.PUBLIC}{number}")
            self.assertGreater(nodes[name]["outside_port"], 0)
        self.ready()
        self.check_answer()
        heard = json.loads(self.good(self.desk, "ping", "attic", "-c", "2", "--json"))
        self.assertEqual((heard["path"], heard["address"]),
                         ("direct", f"{nat.PUBLIC}3:{nodes['attic']['outside_port']}"))
        self.assertIn("(NAT-PMP)", self.desk.log())
        self.assertIn("(UPnP)", self.attic.log())
        asked = json.loads(self.good(self.desk, "map-port", "5000", "--json"))
        self.assertEqual(asked["protocol"], "NAT-PMP")
        self.assertGreater(asked["seconds"], 0)

    def test_one_router_that_forwards_is_enough(self):
        self.flags = {"desk": ("--no-port-mapping",)}
        self.start("--relay-megabits", "0")
        swarm.wait_until(lambda: len(self.routes()) == 2, "a measured link")
        self.ready()
        self.check_answer()
        self.assertNotIn("relayed", {link["route"] for link in self.state()["links"]})

    def test_one_that_asks_for_no_port_is_punched(self):
        self.flags = {"attic": ("--no-port-mapping",), "desk": ("--no-port-mapping",)}
        self.start("--stages", "2")
        self.ready()
        self.assertEqual({link["route"] for link in self.state()["links"]}, {"punched"})
        self.assertNotIn("outside_port", self.state()["nodes"][0])


@unittest.skipUnless(postgres.BIN, "the package postgresql is not installed")
class WithTwoCoordinators(BehindRouters):
    """Two servers outside share a store, and the workers know both."""
    inside = {"hall": nat.NONE, "desk": "port-restricted", "attic": "symmetric"}
    workers = ("desk", "attic")

    test_two_stages_serve_over_links_that_the_coordinator_relays = None
    test_measured_placement_knows_relayed_links = None

    def leader(self):
        name = self.store.ask("SELECT name FROM hearth.lease WHERE lasts > 0")
        return next((one for one in self.both
                     if name == f"{os.uname().nodename}, process {one.process.pid}"), None)

    def start_both(self):
        self.store = postgres.Postgres()
        self.addCleanup(self.store.end)
        self.good(self.home, "init", "testhome")
        self.good(self.home, "store", "migrate", "--to", self.store.url)
        shutil.copytree(self.home.folder, self.hall.folder)
        self.good(self.hall, "init", "--address", nat.NETWORK + "2")
        self.both = (self.home, self.hall)
        for one in self.both:
            one.start("serve", "--model", swarm.MODEL, "--stages", "2", "--host", "0.0.0.0")
        def both_known():
            code, out, _ = self.home.run("status", "--json")
            return code == 0 and len(json.loads(out)["store"]["standbys"]) == 1
        swarm.wait_until(both_known, "a leader and a standby")
        for name in self.workers:
            swarm.wait_until(lambda: self.knows_both(getattr(self, name), name), f"{name}'s join")

    def knows_both(self, machine, name):
        """A join token names the address of the server on whose machine it is made, and a standby
        admits no machine."""
        leader = self.leader()
        if (machine.process is None or machine.process.poll() is not None) and leader:
            machine.start("join", self.good(leader, "token", "create"), "--model", swarm.MODEL,
                          "--name", name)
        member = pathlib.Path(machine.folder, "member.json")
        return member.exists() and len(json.loads(member.read_text())["coordinators"]) == 2

    def test_the_next_leader_relays_after_a_takeover(self):
        self.start_both()
        self.ready()
        self.check_answer()
        # A busy machine may lose its lease at any time: either may lead.
        leader = swarm.wait_until(self.leader, "a leader")
        other = next(one for one in self.both if one is not leader)
        leader.stop(signal.SIGKILL)
        swarm.wait_until(lambda: self.leader() is other, "a takeover")
        self.ready(other)
        self.check_answer(other)
        self.assertEqual({link["route"] for link in self.state(other)["links"]}, {"relayed"})
        heard = json.loads(self.good(self.desk, "ping", "attic", "-c", "1", "--json"))
        place = "1:" if other is self.home else "2:"
        self.assertEqual(heard["path"], "relayed")
        self.assertTrue(heard["address"].startswith(nat.NETWORK + place), heard)


if __name__ == "__main__":
    if shutil.which("nft") is None or shutil.which("ip") is None:
        print("not run: nft (nftables) or ip (iproute2) is not installed")
        sys.exit(77)
    try:
        nat.Homes("try", {"tried": "port-restricted"}).cut()
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"not run: network namespaces with nftables are not permitted here ({error})")
        sys.exit(77)
    swarm.main()
