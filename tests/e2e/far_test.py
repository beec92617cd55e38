"""Machines (network namespaces) of which one is far away: its cable has a delay and loses frames.
Exits 77 where namespaces are not permitted.
"""

import json
import pathlib

import machines
import swarm

AWAY_MS = 30
PROMPT = ("Tell me a long story about the sea.", "-n", "40", "--temp", "0.9", "--seed", "5",
          "--ignore-eos")


class Far(machines.Household):
    on_the_wire = ("home", "desk", "attic", "cellar")

    def serve(self, *words):
        self.home.start("serve", "--model", swarm.MODEL, "--stages", "2", *words)

    def start(self, names, *words):
        self.good(self.home, "init", "testhome")
        self.serve(*words)
        self.answers()
        token = self.good(self.home, "token", "create", "--uses", "3")
        for name in names:
            getattr(self, name).start("join", token, "--model", swarm.MODEL, "--name", name)
        self.ready()

    def test_what_comes_late_or_twice_changes_no_token(self):
        self.wire.far("attic", AWAY_MS, lost_in_a_million=10_000)
        self.start(("desk", "attic"))
        before = json.loads(self.good(self.home, "status", "--json"))["pipelines"]
        local = self.good(self.home, "run", "--local", swarm.MODEL, *PROMPT)
        for _ in range(2):
            self.assertEqual(self.good(self.home, "run", self.model(), *PROMPT), local)
        after = json.loads(self.good(self.home, "status", "--json"))["pipelines"]
        self.assertEqual([one["epoch"] for one in after], [one["epoch"] for one in before],
                         "a lost frame is not a lost machine")
        heard = json.loads(self.good(self.home, "ping", "attic", "-c", "3", "--json"))
        self.assertGreaterEqual(heard["milliseconds"]["least"], 2 * AWAY_MS)

    def test_a_machine_that_is_far_away_is_spare(self):
        self.wire.far("cellar", AWAY_MS)
        self.start(("desk", "attic", "cellar"), "--optimise", "latency")
        def settled():
            nodes = {node["name"]: node for node in self.nodes()}
            return nodes if len(nodes) == 3 and any("spare" in n for n in nodes.values()) else None
        for _ in range(3):
            nodes = swarm.wait_until(settled, "a word for the third machine")
            if "spare" in nodes["cellar"]:
                break
            # Another one came too late to be placed; a server that starts anew has all of them.
            print(f"placed before all had come: {nodes}", flush=True)
            self.home.stop()
            self.serve("--optimise", "latency")
            self.answers()
            self.ready()
        self.assertEqual({name for name, node in nodes.items() if "spare" in node}, {"cellar"})
        self.assertEqual({name for name, node in nodes.items() if node["epoch"]},
                         {"desk", "attic"})

    def test_a_group_has_the_near_machines_alone(self):
        # Emulated GPUs that take 60 ms for a layer: of two, 30 ms and three exchanges.
        self.wire.far("cellar", AWAY_MS)
        shape, card = pathlib.Path(self.folder, "shape.gguf"), pathlib.Path(self.folder, "slow.json")
        swarm.make_model(shape, "--family", "qwen2", "--shape", "8b", "--layers", "4", "--vocabulary", "2000",
                         "--type", "Q4_0", "--shape-only")
        card.write_text(json.dumps({"memory_gb": 64, "memory_gb_per_second": 2, "fp16_tflops": 1000,
                                    "int8_tops": 1000}))
        self.good(self.home, "init", "testhome")
        self.home.start("serve", "--model", shape, "--tensor-parallel", "auto")
        self.answers()
        token = self.good(self.home, "token", "create", "--uses", "3")
        for name in ("desk", "attic", "cellar"):
            machine = getattr(self, name)
            self.good(machine, "join", token, "--no-worker", "--name", name)
            machine.start("worker", "--model", shape, "--emulate", card)
        def placed():
            nodes = {node["name"]: node for node in self.nodes()}
            return nodes if len(nodes) == 3 and all(node["epoch"] for node in nodes.values()) else None
        def grouped():
            nodes = placed()
            return nodes and {name for name, node in nodes.items() if node.get("ranks") == 2} == {"desk", "attic"}
        swarm.wait_until(grouped, "a group of the near machines, and a pipeline of the far one")
        self.assertEqual(placed()["cellar"].get("ranks", 1), 1)


if __name__ == "__main__":
    machines.main()
