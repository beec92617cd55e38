"""The program as a person uses it: verbs, streams, exit codes, downloads."""

import hashlib
import http.server
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import threading
import time
import unittest

import swarm
from terminal import Terminal


class Verbs(unittest.TestCase):
    def test_usage_errors_exit_2(self):
        for words in ([], ["frob"], ["run"], ["run", "m", "--temp", "hot"], ["serve", "--bogus"],
                      ["completion", "tcsh"], ["bench", "model"]):
            code, out, err = swarm.hearth(*words)
            self.assertEqual(code, 2, words)
            self.assertEqual(out, "")
            self.assertIn("hearth", err)

    def test_wrong_words_are_named_first_with_the_nearest_known(self):
        for words, start, near in ((["stauts"], "unknown command 'stauts'", "'status'"),
                                   (["bogus"], "unknown command 'bogus'", ""),
                                   (["run", "--nope"], "unknown option '--nope'", ""),
                                   (["run", "m", "hi", "--tmep", "1"], "unknown option '--tmep'",
                                    "'--temp'")):
            code, out, err = swarm.hearth(*words)
            self.assertEqual((code, out), (2, ""), words)
            self.assertTrue(err.startswith("hearth: " + start), err)
            self.assertIn(near, err.splitlines()[0])

    def test_values_out_of_range_reach_no_server(self):
        asked = []

        class Server(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                asked.append(self.path)
                self.send_error(500)

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        host = f"127.0.0.1:{server.server_port}"
        for words, option, limit in ((["--temp", "9999"], "--temp", "100"),
                                     (["--top-p", "2"], "--top-p", "at most 1"),
                                     (["-n", "-1"], "--predict", "from 0"),
                                     (["--top-k", "-5"], "--top-k", "from 0"),
                                     (["--timeout", "-1"], "--timeout", "from 0")):
            code, out, err = swarm.hearth("run", "m", "hi", "--host", host, *words)
            self.assertEqual((code, out), (2, ""), words)
            self.assertIn(option, err)
            self.assertIn(limit, err)
        code, _, err = swarm.hearth("serve", "-m", swarm.MODEL, "--port", "99999")
        self.assertEqual(code, 2)
        self.assertIn("--port", err)
        self.assertIn("65535", err)
        self.assertEqual(asked, [])
        server.shutdown()
        server.server_close()

    def test_help_and_version(self):
        code, out, _ = swarm.hearth("--help")
        self.assertEqual(code, 0)
        for verb in ("serve", "worker", "run", "status", "top", "ps", "ls", "show", "pull", "bench"):
            self.assertIn(verb, out)
        code, out, _ = swarm.hearth("run", "--help")
        self.assertIn("HEARTH_HOST", out)
        self.assertEqual(swarm.hearth("--version")[0], 0)
        version = json.loads(swarm.hearth("version", "--json")[1])
        self.assertIn(version["isa"], ("scalar", "avx2", "avx512"))

    def test_no_server_exits_3_and_says_what_to_do(self):
        for words in (["status"], ["status", "-w"], ["top"], ["ps"], ["run", "m", "hi"]):
            code, out, err = swarm.hearth(*words, "--host", "127.0.0.1:9")
            self.assertEqual((code, out), (3, ""), words)
            self.assertIn("hearth serve", err)
            self.assertNotIn("reach Couldn't", err)

    def test_a_hostile_server_steers_no_terminal_and_ends_nothing(self):
        """Whatever it answers, the client says a sentence and ends by itself."""
        said = {"body": b"", "type": "text/event-stream"}

        class Server(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                self.rfile.read(int(self.headers["Content-Length"]))
                self.send_response(200)
                self.send_header("Content-Type", said["type"])
                self.send_header("Content-Length", str(len(said["body"])))
                self.end_headers()
                self.wfile.write(said["body"])

            do_GET = do_DELETE = lambda self: self.send_error(404)

            def log_message(self, *words):
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
        self.addCleanup(server.server_close)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.shutdown)
        words = ("run", "m", "hi", "--host", f"127.0.0.1:{server.server_port}")
        steering = "a\x1b]0;owned\x07\x1b[2J\x1b]52;c;eA==\x07\u009b2Jz"
        chunk = {"object": "chat.completion.chunk", "choices": [
            {"index": 0, "delta": {"content": steering}, "finish_reason": "stop"}]}
        said["body"] = b"data: " + json.dumps(chunk).encode() + b"\n\ndata: [DONE]\n\n"
        code, out, err = swarm.hearth(*words)
        self.assertEqual((code, out), (0, steering + "\n"), err)
        seen = Terminal(*words)
        self.assertEqual(seen.process.wait(swarm.PATIENCE_S), 0)
        seen.reader.join(swarm.PATIENCE_S)
        os.close(seen.main)
        self.assertIn(b"a\\x1b]0;owned\\x07", seen.seen)
        for byte in (b"\x1b]", b"\x1b[2J", b"\x07", b"\xc2\x9b"):
            self.assertNotIn(byte, seen.seen)
        for odd in ({"error": {"message": 1}}, {"error": [1]}, {"error": "no"}, {"error": {}},
                    {"hearth": {"receipt": 5}}, {"hearth": 7}, {"hearth": {"salt": []}},
                    {"choices": 7}, {"choices": [7]}, {"choices": [{"delta": 7}]},
                    {"choices": [{"delta": {"content": {}}}]}, {"choices": [{"index": "x"}]},
                    {"choices": [{"finish_reason": 3}]}, {"usage": "u"}, {"usage": {"x": {}}},
                    {"timings": [1]}, {"id": {}}, {"created": "x"}, {"model": 1}, [], 1, None, "x"):
            said["body"] = b"data: " + json.dumps(odd).encode() + b"\n\ndata: [DONE]\n\n"
            for more in ((), ("--json", "--verify=full")):
                code, _, err = swarm.hearth(*words, *more)
                self.assertGreaterEqual(code, 0, f"{odd} {more}: {err}")
                self.assertLess(code, 100, f"{odd} {more}: {err}")
                self.assertNotIn("terminate called", err)

    def test_a_result_that_cannot_be_written_is_a_failure(self):
        with tempfile.TemporaryDirectory() as home, open("/dev/full", "w") as full:
            for words in (["--help"], ["version"], ["ls"], ["completion", "bash"],
                          ["key", "create", "x", "--data-dir", home + "/data"],
                          ["run", "--local", str(swarm.MODEL), "Hi", "-n", "2"]):
                done = subprocess.run([swarm.HEARTH, *words], stdout=full, text=True,
                                      stderr=subprocess.PIPE, timeout=swarm.PATIENCE_S)
                self.assertEqual(done.returncode, 1, words)
                self.assertIn("cannot write to standard output", done.stderr)

    def test_what_is_no_host_is_refused(self):
        for host in ("127.1", "https://127.0.0.1", "user@den", "[::1"):
            code, out, err = swarm.hearth("run", "m", "hi", "--host", host)
            self.assertEqual((code, out), (2, ""), host)
            self.assertIn("e.g. 127.0.0.1:11500", err)

    def test_broken_utf8_is_refused(self):
        for words in (["m", b"\xff hello"], ["m", "hi", "--system", b"\xfe"]):
            done = subprocess.run([swarm.HEARTH, "run", *words], capture_output=True)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(b"UTF-8", done.stderr)

    def test_completion(self):
        for shell in ("bash", "zsh", "fish"):
            code, out, _ = swarm.hearth("completion", shell)
            self.assertEqual(code, 0)
            self.assertIn("__complete", out)
        _, out, _ = swarm.hearth("completion", "bash")
        found = subprocess.run(["bash", "-c", out + '\nCOMP_WORDS=(hearth sta); COMP_CWORD=1; '
                                'PATH="$(dirname "$0"):$PATH" _hearth; echo "${COMPREPLY[@]}"',
                                os.path.abspath(swarm.HEARTH)], capture_output=True, text=True)
        self.assertEqual(found.stdout.strip(), "status", found.stderr)
        _, out, _ = swarm.hearth("__complete", "--", "run", "--to")
        self.assertIn("--token-ids", out.split())

    def test_completion_in_each_shell_that_is_here(self):
        fish = "hearth completion fish | source\n"
        starts = {"bash": (["bash", "--norc", "-i"], b". <(hearth completion bash)"),
                  "zsh": (["zsh", "-f", "-i"], b"source <(hearth completion zsh)"),
                  "fish": (["fish", "-N", "-c"], b"")}
        cases = (("hearth stat", b"status"), ("hearth status --wai", b"--wait"),
                 ("hearth run al", b"alpha"), ("hearth run m --token", b"--token-ids"),
                 ("hearth serve --log-level w", b"warn"), ("hearth worker --model al", b"alpha"),
                 ("hearth bench mo", b"model"), ("hearth completion f", b"fish"),
                 ("hearth pull ./a-", b"./a-file"))
        with tempfile.TemporaryDirectory() as folder:
            os.symlink(os.path.abspath(swarm.HEARTH), os.path.join(folder, "hearth"))
            for name in ("alpha.gguf", "a-file"):
                pathlib.Path(folder, name).write_text("x")
            env = {"PATH": folder + ":" + os.environ["PATH"], "HEARTH_MODELS": folder,
                   "HOME": folder, "ZDOTDIR": folder, "TERM": "xterm"}
            for shell, (program, start) in starts.items():
                if shutil.which(shell) is None:
                    continue
                with self.subTest(shell):
                    if shell == "fish":  # asks it directly: its line editor paints too much
                        for line, word in cases + (("hearth ", b"status"),):
                            done = subprocess.run([*program, fish + f"complete -C '{line}'"],
                                                  cwd=folder, env={**os.environ, **env},
                                                  capture_output=True)
                            self.assertIn(word, done.stdout.split(), (line, done.stderr))
                        continue
                    terminal = Terminal(program=program, env={**env, "PS1": "ready> "},
                                        cwd=folder)
                    # Keys typed before the shell reads them would meet a plain terminal.
                    terminal.await_text(b"ready> ")
                    terminal.run(start + b"; echo sour''ced\r", b"\nsourced", b"ready> ")
                    for line, word in cases:
                        # The shell runs what it has completed: echo shows the last word whole.
                        head, _, _ = line.rpartition(" ")
                        terminal.run(b"\x15" + line.encode() + b"\t\x01echo : \x05:\r",
                                     b"\n: " + head.encode() + b" " + word, b"ready> ")
                    terminal.leave(self, b"\x15exit 0\r")

    def test_flag_beats_environment_beats_file(self):
        with tempfile.TemporaryDirectory() as folder:
            config = pathlib.Path(folder, "hearth.toml")
            config.write_text('[run]\nhost = "127.0.0.1:7"\n')
            env = {"HEARTH_CONFIG": str(config)}
            _, _, err = swarm.hearth("run", "m", "hi", env=env)
            self.assertIn("127.0.0.1:7/", err)
            env["HEARTH_HOST"] = "127.0.0.1:8"
            _, _, err = swarm.hearth("run", "m", "hi", env=env)
            self.assertIn("127.0.0.1:8/", err)
            _, _, err = swarm.hearth("run", "m", "hi", "--host", "127.0.0.1:9", env=env)
            self.assertIn("127.0.0.1:9/", err)
            config.write_text('[run]\nhosst = "127.0.0.1:7"\n')
            code, _, err = swarm.hearth("run", "m", "hi", env=env)
            self.assertEqual(code, 2)
            self.assertIn("hosst", err)


class LocalRun(unittest.TestCase):
    def test_answer_alone_on_stdout(self):
        code, out, err = swarm.hearth("run", "--local", swarm.MODEL,
                                      "What is the capital of France?", "--temp", "0",
                                      "--verbose")
        self.assertEqual(code, 0, err)
        self.assertIn("Paris", out)
        for name in ("total duration", "load duration", "prompt eval count", "prompt eval rate",
                     "eval count", "eval rate"):
            self.assertIn(name, err)
            self.assertNotIn(name, out)

    def test_stdin_json_and_seed(self):
        words = ("run", "--local", swarm.MODEL, "--seed", "3", "-n", "8", "--json")
        code, one, err = swarm.hearth(*words, stdin="Tell me a joke.\n")
        self.assertEqual(code, 0, err)
        _, two, _ = swarm.hearth(*words, stdin="Tell me a joke.\n")
        one, two = json.loads(one), json.loads(two)
        self.assertEqual(one["token_ids"], two["token_ids"])
        self.assertEqual(one["seed"], 3)
        self.assertEqual(one["completion_tokens"], 8)

    def test_timeout_says_so(self):
        code, out, err = swarm.hearth("run", "--local", swarm.MODEL, "Count.", "-n", "4000",
                                      "--ignore-eos", "--timeout", "1.5")
        self.assertEqual(code, 124)
        self.assertIn("1.5 seconds (--timeout)", err)
        self.assertTrue(out.endswith("\n"), "what came in time is shown, and ends its line")

    def test_stop_string_is_not_shown(self):
        code, out, _ = swarm.hearth("run", "--local", swarm.MODEL, "1 2 3 4 5 6", "--raw", "-n",
                                    "40", "--temp", "0", "--stop", "9")
        self.assertEqual(code, 0)
        self.assertNotIn("9", out)

    def test_isa_can_be_forced_and_is_checked(self):
        ids = {}
        for isa in ("scalar", "avx2", "avx512", "neon", "i8mm"):
            code, out, err = swarm.hearth("run", "--local", swarm.MODEL, "One two", "--raw", "-n",
                                          "3", "--temp", "0", "--token-ids",
                                          env={"HEARTH_ISA": isa})
            if code == 0:
                ids[isa] = out
            else:
                self.assertIn(isa, err)  # this processor lacks it
        self.assertEqual(len(set(ids.values())), 1, ids)
        code, _, err = swarm.hearth("run", "--local", swarm.MODEL, "Hi", env={"HEARTH_ISA": "mmx"})
        self.assertEqual(code, 1)
        self.assertIn("scalar", err)

    def test_bad_files(self):
        with tempfile.NamedTemporaryFile(suffix=".gguf") as file:
            file.write(b"GGUF but not really")
            file.flush()
            code, out, err = swarm.hearth("run", "--local", file.name, "hi")
            self.assertEqual((code, out), (1, ""))
            self.assertIn("hearth:", err)
        code, _, err = swarm.hearth("run", "--local", "/nonexistent.gguf", "hi")
        self.assertEqual(code, 1)
        self.assertIn("hearth pull", err)

    def test_bench_json_has_llama_bench_fields(self):
        code, out, err = swarm.hearth("bench", "model", swarm.MODEL, "-p", "16", "-n", "8", "-b",
                                      "1,2", "-t", "1", "-r", "2", "--json")
        self.assertEqual(code, 0, err)
        rows = json.loads(out)
        self.assertEqual([(r["n_prompt"], r["n_gen"], r["n_parallel"]) for r in rows],
                         [(16, 0, 1), (0, 8, 1), (0, 8, 2)])
        self.assertTrue(all(r["avg_ts"] > 0 and len(r["samples_ts"]) == 2 for r in rows))

    def test_measure_names_each_kernel_beside_the_peak(self):
        words = [os.environ["HEARTH_MEASURE"], "kernels", "--isa", "scalar"]
        done = subprocess.run([*words, "--type", "q4_1", "--tokens", "1", "--seconds", "0.001",
                               "-t", "1", "--json"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = json.loads(done.stdout)
        self.assertEqual({r["kernel"] for r in rows},
                         {"matmul", "quantize", "rms_norm", "rms_norm_quantize", "swiglu_quantize",
                          "geglu_quantize", "rope", "kv_write", "residual_round",
                          "residual_expand", "attention/512", "attention/4096"})
        self.assertTrue(all(r["ns"] > 0 and r["peak_gb_s"] > 0 and r["peak_gops"] > 0
                            for r in rows))
        done = subprocess.run([*words, "--type", "Q9_9"], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("Q4_K", done.stderr)


class Chat(unittest.TestCase):
    WORDS = ("run", "--local", swarm.MODEL, "--temp", "0")

    def test_ctrl_c_stops_the_answer_alone(self):
        for env in ({}, {"TERM": "dumb"}):
            with self.subTest(env):
                chat = Terminal(*self.WORDS, "-n", "400", "--ignore-eos", env=env)
                chat.await_text(b">>> ")
                chat.command(b"/set parameter seed 5", b"")
                chat.command(b"/show", b"seed               5")
                chat.type(b'"""Count\rslowly."""\r')
                begin = len(chat.seen)
                swarm.wait_until(lambda: len(chat.seen) > begin + 400, "some answer")
                prompts = chat.seen.count(b">>> ")
                chat.type(b"\x03")
                chat.await_text(b">>> ", prompts + 1)
                self.assertIsNone(chat.process.poll(), "Ctrl-C stops the answer, not the program")
                chat.type(b"half a line\x03")
                chat.await_text(b"Use Ctrl-D or /bye to leave.")
                chat.command(b"/show", b"model ")
                chat.leave(self, b"\x04" if not env else b"\r\x04")

    def test_parameters(self):
        chat = Terminal(*self.WORDS)
        chat.await_text(b">>> ")
        chat.command(b"/set", b"temperature        0  (from 0 to 100)")
        chat.command(b"/set temp 0.5", b"")
        chat.command(b"/set n 7", b"")
        chat.command(b"/set seed 11", b"")
        chat.command(b"/set top_p 0.25", b"")
        chat.command(b"/set", b"seed               11")
        for line in (b"temperature        0.5 ", b"num_predict        7 ", b"top_p              0.25 "):
            self.assertIn(line, chat.seen)
        chat.command(b"/set temperature 9999", b"temperature: '9999' is refused")
        chat.command(b"/set tmep 1", b"unknown parameter 'tmep'; did you mean")
        chat.command(b"/hlep", b"did you mean '/help'?")
        chat.command(b"/help", b"/set NAME VALUE")
        chat.leave(self)

    def test_a_paste_of_several_lines_is_one_message(self):
        chat = Terminal(*self.WORDS, "-n", "3", "--verbose")
        chat.await_text(b">>> ")
        chat.type("\033[200~one \u00e4\rtwo\rthree\033[201~".encode())
        chat.await_text(b"three")
        chat.command(b"", b"eval count")
        self.assertEqual(chat.seen.count(b"eval rate"), 2)  # of the prompt and of the answer
        chat.leave(self)

    def test_arrows_and_history(self):
        chat = Terminal(*self.WORDS)
        chat.await_text(b">>> ")
        chat.command(b"/set seed 1\x1b[D2", b"")  # left arrow, then 2: 21
        chat.command(b"/set", b"seed               21")
        chat.command(b"\x1b[A\x1b[A5", b"")  # two lines up: /set seed 21, and a 5 behind it
        chat.command(b"/set", b"seed               215")
        chat.command("/set stop \u00e4\u00f6\x7f\u00fc".encode(), b"")  # one character is erased
        chat.command(b"/set", "stop               \u00e4\u00fc".encode())
        chat.leave(self)


class RangeServer(http.server.BaseHTTPRequestHandler):
    """A small hub: Range, HEAD with the hub's headers, and one connection cut half way."""

    data = b""
    cuts = 0
    ranges = []

    def log_message(self, *_):
        pass

    def do_HEAD(self):
        self.send_response(200)
        self.send_header("Content-Length", str(len(self.data)))
        self.send_header("X-Linked-Etag", '"%s"' % hashlib.sha256(self.data).hexdigest())
        self.send_header("X-Linked-Size", str(len(self.data)))
        self.send_header("X-Repo-Commit", "0123abc")
        self.end_headers()

    def do_GET(self):
        begin = 0
        if header := self.headers.get("Range"):
            begin = int(header.removeprefix("bytes=").rstrip("-"))
            RangeServer.ranges.append(begin)
        self.send_response(206 if begin else 200)
        body = self.data[begin:]
        self.send_header("Content-Length", str(len(body)))
        if begin:
            size = len(self.data)
            self.send_header("Content-Range", f"bytes {begin}-{size - 1}/{size}")
        self.end_headers()
        if RangeServer.cuts > 0:
            RangeServer.cuts -= 1
            self.wfile.write(body[:len(body) // 2])
            self.wfile.flush()
            self.connection.close()
            return
        self.wfile.write(body)


class Pull(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.env = {"HEARTH_MODELS": self.folder.name, "HEARTH_CACHE_DIR": self.folder.name}
        RangeServer.data = pathlib.Path(swarm.MODEL).read_bytes()
        RangeServer.cuts, RangeServer.ranges = 0, []
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), RangeServer)
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()
        self.base = f"http://127.0.0.1:{self.server.server_port}"

    def tearDown(self):
        self.server.shutdown()
        self.server.server_close()
        self.folder.cleanup()

    def test_local_path_list_and_show(self):
        code, out, err = swarm.hearth("pull", swarm.MODEL, "--name", "demo", env=self.env)
        self.assertEqual(code, 0, err)
        self.assertTrue(out.strip().endswith("demo.gguf"))
        models = json.loads(swarm.hearth("ls", "--json", env=self.env)[1])
        self.assertEqual([m["name"] for m in models], ["demo"])
        self.assertEqual(models[0]["sha256"], hashlib.sha256(RangeServer.data).hexdigest())
        _, out, _ = swarm.hearth("ls", env=self.env)
        self.assertIn(models[0]["sha256"][:12], out)
        shown = json.loads(swarm.hearth("show", "demo", "--json", env=self.env)[1])
        self.assertEqual((shown["layers"], shown["hidden_size"]), (30, 576))

    def test_a_cut_connection_is_resumed_by_range(self):
        RangeServer.cuts = 2
        code, out, err = swarm.hearth("pull", self.base + "/m.gguf", env=self.env)
        self.assertEqual(code, 0, err)
        self.assertEqual(len(RangeServer.ranges), 2)
        self.assertTrue(all(begin > 0 for begin in RangeServer.ranges))
        self.assertEqual(pathlib.Path(out.strip()).read_bytes(), RangeServer.data)

    def test_a_killed_pull_is_resumed(self):
        partial = pathlib.Path(self.folder.name, ".m.incomplete")
        partial.write_bytes(RangeServer.data[:1000])
        url = self.base + "/m.gguf"
        pathlib.Path(str(partial) + ".json").write_text(json.dumps({"sha256": "", "url": url}))
        self.assertEqual(swarm.hearth("pull", url, env=self.env)[0], 0)
        self.assertEqual(RangeServer.ranges, [1000])

    def test_hub_reference_is_verified(self):
        env = {**self.env, "HF_ENDPOINT": self.base}
        code, _, err = swarm.hearth("pull", "hf:org/repo/a.gguf", env=env)
        self.assertEqual(code, 0, err)
        self.assertIn("verifying sha256", err)

    def test_wrong_digest_and_wrong_sources(self):
        code, _, err = swarm.hearth("pull", self.base + "/m.gguf", "--sha256", "0" * 64,
                                    env=self.env)
        self.assertEqual(code, 1)
        self.assertIn("expected " + "0" * 64, err)
        self.assertEqual(json.loads(swarm.hearth("ls", "--json", env=self.env)[1]), [])
        for source, word in (("ftp://x/y.gguf", "https"), ("http://192.0.2.1/y.gguf", "https"),
                             ("nothing-here", "smollm2-135m"), ("hf:broken", "hf:org/repo")):
            code, _, err = swarm.hearth("pull", source, env=self.env)
            self.assertEqual(code, 1, source)
            self.assertIn(word, err)
        _, _, err = swarm.hearth("pull", "http://192.0.2.1/y.gguf", env=self.env)
        self.assertIn("127.0.0.1", err)  # where http is taken
        self.assertIn("pull its path", err)
        _, _, err = swarm.hearth("pull", "http://127.0.0.1:9/y.gguf", env=self.env)
        self.assertIn("cannot reach http://127.0.0.1:9/y.gguf (", err)
        RangeServer.data = b"this is no model"
        code, _, err = swarm.hearth("pull", self.base + "/m.gguf", env=self.env)
        self.assertEqual(code, 1)
        self.assertIn("GGUF", err)
        self.assertEqual(list(pathlib.Path(self.folder.name).glob("*.gguf")), [])


if __name__ == "__main__":
    swarm.main()
