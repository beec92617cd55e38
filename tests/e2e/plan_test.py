"""hearth plan, from a file of nodes and from a server that places by what it measured."""

import json
import os
import signal
import tempfile
import unittest

import failover_test
import swarm


def nodes(*, memory=(8_000_000_000, 8_000_000_000), seconds=1e-4):
    return {"nodes": [{"name": name, "memory_bytes": size,
                       "weight_bytes_per_second": [20e9 / (1 + at), 5e9 / (1 + at)]}
                      for at, (name, size) in enumerate(zip(("den", "attic", "cellar"), memory))],
            "link": {"seconds": seconds, "bytes_per_second": 110e6}}


class FromAFile(unittest.TestCase):
    def plan(self, given, *words):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "nodes.json")
            with open(path, "w") as file:
                file.write(given if isinstance(given, str) else json.dumps(given))
            return swarm.hearth("plan", swarm.MODEL, "--nodes", path, *words)

    def test_who_slows_the_whole_is_spare(self):
        code, out, err = self.plan(nodes(memory=(8_000_000_000, 60_000_000)))
        self.assertEqual(code, 0, err)
        self.assertRegex(out, r"STAGE +NODE +LAYERS")
        self.assertRegex(out, r"\n1 +den ")
        self.assertRegex(out, r"spare attic: adding it makes the pipeline slower: [\d.]+ instead of")
        code, out, err = self.plan(nodes())
        self.assertEqual(code, 0, err)
        self.assertRegex(out, r"a second pipeline, of spares:\nSTAGE[^\n]*\n1 +attic ")
        self.assertNotIn("spare attic", out)

    def test_json_covers_every_layer_once(self):
        layers = json.loads(swarm.hearth("show", swarm.MODEL, "--json")[1])["layers"]
        for words in ((), ("--stages", "2"), ("--optimise", "throughput")):
            code, out, err = self.plan(nodes(), "--json", *words)
            self.assertEqual(code, 0, err)
            stages = json.loads(out)["pipelines"][0]["stages"]
            self.assertEqual([0] + [stage["layers"][1] for stage in stages],
                             [stage["layers"][0] for stage in stages] + [layers])

    def test_what_does_not_fit_says_by_how_much(self):
        code, _, err = self.plan(nodes(memory=(1_000_000, 1_000_000)))
        self.assertEqual(code, 4)
        self.assertRegex(err, r"no placement of the \d+ layers: they take [\d.]+ GB .* 0.00 GB")

    def test_a_wrong_file_is_refused_with_its_field(self):
        wrong = nodes()
        wrong["nodes"][1]["memory"] = 5
        code, _, err = self.plan(wrong)
        self.assertEqual(code, 1)
        self.assertIn('"memory", which is not a known field', err)
        self.assertEqual(self.plan("{")[0], 1)
        self.assertEqual(swarm.hearth("plan", swarm.MODEL, "--nodes", "/nowhere")[0], 1)
        code, _, err = swarm.hearth("plan", swarm.MODEL, "--nodes", tempfile.gettempdir())
        self.assertEqual(code, 1)
        self.assertIn("is a folder", err)
        self.assertEqual(swarm.hearth("plan", swarm.MODEL, "--host", "127.0.0.1:9")[0], 3)


class OfGpusThatAreNotThere(unittest.TestCase):
    """From the catalogue alone: no server and no nodes."""

    def test_a_shape_and_a_file(self):
        code, out, err = swarm.hearth("plan", "llama3-70b", "--gpus", "8xrtx4090", "--batch", "8")
        self.assertEqual(code, 0, err)
        self.assertIn("Hearth runs tensor parallel only on processors", out)
        code, out, err = swarm.hearth("plan", swarm.MODEL, "--gpus", "2xrtx4090", "--json")
        self.assertEqual(code, 0, err)
        self.assertGreater(json.loads(out)["layouts"][0]["all_tokens_per_second"], 0)
        self.assertEqual(swarm.hearth("plan", "llama3-405b", "--gpus", "rtx3060")[0], 4)

    def test_gpus_of_several_kinds_are_placed(self):
        code, out, err = swarm.hearth("plan", "llama3-70b", "--gpus", "2xrtx4090,rtx3060",
                                      "--optimise", "throughput", "--json")
        self.assertEqual(code, 0, err)
        stages = json.loads(out)["plan"]["pipelines"][0]["stages"]
        self.assertEqual(stages[-1]["layers"][1], 80)

    def test_what_gpus_refuse_is_no_offer(self):
        code, out, _ = swarm.hearth("plan", "qwen3-30b-a3b", "--for", "5tok/s")
        self.assertEqual(code, 4)
        self.assertIn("no set reaches the goal: Hearth computes qwen3moe models with experts on "
                      "processors only", out)

    def test_a_plan_needs_a_model(self):
        self.assertEqual(swarm.hearth("plan")[0], 2)

    def test_a_flag_out_of_its_range_is_refused_by_name(self):
        for words, part in ((("--gpus", "0xh100"), "--gpus: the number of GPUs must be from 1"),
                            (("--gpus", "4xrtx4900"), "did you mean 'rtx4090'"),
                            (("--gpus", "h100", "--link", "0G"), "--link: must be from 1M"),
                            (("--gpus", "h100", "--batch", "513"), "--batch"),
                            (("--gpus", "h100", "--optimise", "latency"), "--optimise"),
                            (("--for", "0tok/s"), "--for: must be above 0"),
                            (("--for", "5tok/s", "--users", "0"), "--users"),
                            (("--for", "5tok/s", "--budget", "-1"), "--budget"),
                            (("--gpus", "h100", "--stages", "2"), "--stages"),
                            (("--batch", "8"), "--gpus")):
            code, _, err = swarm.hearth("plan", "llama3-8b", *words)
            self.assertEqual(code, 2, (words, err))
            self.assertIn(part, err)


class OfManyNodes(unittest.TestCase):
    """More than an exact search sees: ranges and their replicas."""

    plan = FromAFile.plan

    def test_ranges_cover_the_model_and_every_node_has_its_place_or_hears_why_not(self):
        model = json.loads(self.plan(nodes(), "--json")[1])["pipelines"][0]["stages"]
        whole = sum(stage["weight_bytes"] + stage["kv_bytes"] for stage in model)
        names = [f"den-{at}" for at in range(24)] + [f"attic-{at}" for at in range(16)] + ["tiny"]
        memory = {"den": whole, "attic": whole * 2 // 5, "tiny": 1000}
        rate = {"den": 20e9, "attic": 8e9, "tiny": 8e9}
        swarm_file = {"nodes": [{"name": name, "memory_bytes": memory[kind],
                                 "weight_bytes_per_second": [rate[kind], rate[kind] / 4]}
                                for name in names for kind in [name.split("-")[0]]],
                      "link": {"seconds": 1e-4, "bytes_per_second": 110e6}}
        layers = json.loads(swarm.hearth("show", swarm.MODEL, "--json")[1])["layers"]
        for words in (("--optimise", "throughput"), ("--optimise", "latency"), ("--stages", "4")):
            code, out, err = self.plan(swarm_file, "--json", *words)
            self.assertEqual(code, 0, err)
            plan = json.loads(out)
            ranges = plan["ranges"]
            self.assertEqual([0] + [one["layers"][1] for one in ranges],
                             [one["layers"][0] for one in ranges] + [layers])
            placed = [node["node"] for one in ranges for node in one["replicas"]]
            spare = {node["node"]: node["why"] for node in plan["spares"]}
            self.assertEqual(sorted(placed + list(spare)), sorted(names))
            self.assertIn("holds no layer", spare["tiny"])
            for one in ranges:
                for node in one["replicas"]:
                    self.assertLessEqual(one["weight_bytes"] + one["kv_bytes"],
                                         node["memory_bytes"])
            self.assertLessEqual(plan["all_tokens_per_second"],
                                 plan["all_tokens_per_second_bound"] * 1.000001)
            self.assertEqual(len(plan["way"]), len(ranges))
        self.assertEqual(len(ranges), 4)
        code, out, err = self.plan(swarm_file, "--optimise", "throughput")
        self.assertEqual(code, 0, err)
        self.assertRegex(out, r"RANGE +LAYERS +REPLICAS")
        self.assertRegex(out, r"\nden-0 +\d+ +\d+-\d+ ")
        self.assertRegex(out, r"no placement of these 41 nodes gives more than [\d.]+ tokens/s")
        self.assertIn("spare tiny: ", out)


class FromAServer(unittest.TestCase):
    def plan(self, server, *words):
        code, out, err = swarm.hearth("plan", swarm.MODEL, "--json", "--host", server.api, *words)
        self.assertEqual(code, 0, err)
        return json.loads(out)

    def test_what_the_server_places_by_counts_unless_another_is_said(self):
        with swarm.Swarm(2, "--stages", "2", "--optimise", "throughput") as s:
            self.assertEqual(s.state()["optimise"], "throughput")
            plan = self.plan(s)
            self.assertEqual(plan["objective"], "throughput")
            self.assertEqual([len(p["stages"]) for p in plan["pipelines"]], [2])
            plan = self.plan(s, "--stages", "1", "--optimise", "latency")
            self.assertEqual(plan["objective"], "latency")
            self.assertEqual([len(p["stages"]) for p in plan["pipelines"]], [1, 1])

    def test_layers_are_placed_by_what_was_measured(self):
        with swarm.Swarm(3, "--stages", "2", "--optimise", "latency") as s:
            state = s.state()
            self.assertEqual(len(state["measured"]["nodes"]), 3)
            self.assertEqual(len(state["measured"]["links"]), 6)
            stages = sorted(node["layers"] for node in state["nodes"] if node["epoch"])
            self.assertEqual(len(stages), 2)
            self.assertEqual(stages[0][1], stages[1][0])
            spare = [node for node in state["nodes"] if node["state"] == "free"]
            # Of equal workers no one is quicker.
            self.assertRegex(spare[0]["spare"], "makes the pipeline (slower|no quicker)")
            status = swarm.hearth("status", "--host", s.api)[1]
            self.assertIn(f"spare   {spare[0]['name']}: using it in place of another", status)
            self.assertGreater(self.plan(s)["pipelines"][0]["tokens_per_second"], 0)
            prompt = ("Say hi", "-n", "8", "--temp", "0", "--seed", "1")
            here = swarm.hearth("run", s.model, *prompt, "--host", s.api)
            alone = swarm.hearth("run", "--local", swarm.MODEL, *prompt)
            self.assertEqual(here[:2], alone[:2], here[2] + alone[2])

    def test_who_starts_again_has_its_place_without_being_measured_anew(self):
        with swarm.Swarm(2, "--stages", "2", "--optimise", "latency") as s:
            body = failover_test.request(s.model, 3)
            alone = failover_test.Stream(s.api, body)
            alone.join(swarm.PATIENCE_S)
            expected = alone.answer()
            before = s.state()["measured"]
            stream = failover_test.Stream(s.api, body)
            swarm.wait_until(lambda: len(stream.ids) >= 20, "the first tokens")
            os.kill(failover_test.stage_pid(s, 1)[0], signal.SIGKILL)
            stream.join(swarm.PATIENCE_S)
            self.assertEqual(stream.answer(), expected)
            self.assertEqual(s.state()["measured"], before)

    def test_by_hand(self):
        with swarm.Swarm(3, "--place", "local-2:0-10,local-1:11-29") as s:
            placed = {node["name"]: node["layers"] for node in s.state()["nodes"] if node["epoch"]}
            self.assertEqual(placed, {"local-2": [0, 11], "local-1": [11, 30]})
        with swarm.Swarm(1, "--place", "local-1:0-10,attic:11-29", ready=False) as s:
            swarm.wait_until(lambda: s.state()["nodes"], "the worker")
            self.assertIn("worker attic is not connected", s.state()["missing"])
        code, _, err = swarm.hearth("serve", "--model", swarm.MODEL, "--place", "den:0-10")
        self.assertEqual(code, 1)
        self.assertIn("the model's last layer, 29", err)
        code, _, err = swarm.hearth("serve", "--model", swarm.MODEL, "--place", "den:1-29")
        self.assertNotEqual(code, 0)
        self.assertIn("must begin with 0", err)

    def test_a_server_that_measures_nothing_says_how_to_make_it(self):
        with swarm.Swarm(1) as s:
            code, _, err = swarm.hearth("plan", swarm.MODEL, "--host", s.api)
            self.assertEqual(code, 3)
            self.assertIn("without --stages", err)


if __name__ == "__main__":
    swarm.main()
