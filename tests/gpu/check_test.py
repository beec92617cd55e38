"""tests/gpu/check and tests/gpu/against-llamacpp with a driver, tools and programs that are scripts of
this test: whatever is missing, refuses, fails or hangs, there is a table and the right exit code. With
HEARTH_EMULATED_SUITE the exactness suite is the real one on the emulator."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
EMULATED = os.environ.get("HEARTH_EMULATED_SUITE")

# Python loads this module before a script: it stands for the driver's library and for the time, which
# is up as soon as a file says so.
DRIVER = """
import ctypes
import os
import subprocess
import time

real = ctypes.CDLL
real_time = time.monotonic
UP = os.path.join(os.environ["FAKES"], "time_is_up")


def wait(process, timeout=None):
    while process.poll() is None:
        if timeout is not None and os.path.exists(UP):
            raise subprocess.TimeoutExpired(process.args, timeout)
        time.sleep(0.002)
    return process.returncode


subprocess.Popen.wait = wait
time.monotonic = lambda: real_time() + (1e6 if os.path.exists(UP) else 0.0)


class Driver:
    def cuInit(self, flags):
        return {init}

    def cuDeviceGetCount(self, count):
        count._obj.value = {cards}
        return 0

    def cuDeviceGet(self, device, number):
        device._obj.value = number

    def cuDeviceGetName(self, name, length, device):
        name.value = b"NVIDIA of the driver"

    def cuDeviceGetAttribute(self, value, attribute, device):
        value._obj.value = {{75: 8, 76: 9}}[attribute]

    def cuDriverGetVersion(self, version):
        version._obj.value = 12040


def open_library(name, *rest, **more):
    return Driver() if name == "libcuda.so.1" else real(name, *rest, **more)


ctypes.CDLL = open_library
"""

SUITE = """
echo "[==========] Running 3 tests from 2 test suites."
for test in CudaRows.One CudaRows.Two Overlap.Three; do
  echo "[ RUN      ] $test"
  echo "[       OK ] $test (1 ms)"
done
echo "[==========] 3 tests from 2 test suites ran. (3 ms total)"
echo "[  PASSED  ] 3 tests."
"""
UNEQUAL = """
echo "[==========] Running 3 tests from 1 test suite."
echo "[ RUN      ] CudaRows.One"
echo "[       OK ] CudaRows.One (1 ms)"
echo "[ RUN      ] Types/CudaProduct.Two/0"
echo "[  FAILED  ] Types/CudaProduct.Two/0, where GetParam() = Q4_K (2 ms)"
echo "[ RUN      ] CudaRows.Three"
echo "[       OK ] CudaRows.Three (1 ms)"
echo "[  FAILED  ] Types/CudaProduct.Two/0, where GetParam() = Q4_K"
exit 1
"""
DIES = """
echo "[==========] Running 3 tests from 1 test suite."
echo "[ RUN      ] CudaRows.One"
echo "[       OK ] CudaRows.One (1 ms)"
echo "[ RUN      ] CudaRows.Two"
echo "cudaMemcpy: an illegal memory access was encountered" >&2
kill -KILL $$
"""
HANGS = """
echo "[==========] Running 3 tests from 1 test suite."
echo "[ RUN      ] CudaRows.One"
sleep 600 &
echo $! > "$FAKES/sleeper"
echo > "$FAKES/time_is_up"
wait
"""
SANITIZER = """
echo "========= COMPUTE-SANITIZER"
echo "$2 $6" >> "$FAKES/sanitized"
"$5" "$6"
echo "========= ERROR SUMMARY: 0 errors"
"""
BENCH = """
echo '{"what": "peaks", "bandwidth": 3e12, "operations": 1.5e15}'
echo '{"what": "product Q4_K, 1 rows", "microseconds": 20, "bytes": 3e7, "operations": 1e8,
 "floor_microseconds": 10, "floor_of": "bandwidth"}' | tr -d '\\n'
echo
"""
ENGINE = """
case "$*" in
  *--help*) echo "  --device TEXT" ;;
  *) echo '[{"n_prompt": 512, "n_parallel": 1, "avg_ts": 9000.0},
 {"n_prompt": 0, "n_parallel": 1, "avg_ts": 150.0}, {"n_prompt": 0, "n_parallel": 8, "avg_ts": 900.0},
 {"n_prompt": 0, "n_parallel": 64, "avg_ts": 4000.0}]' ;;
esac
"""
MEASURE = """
case "$1" in
  make-model) echo model > "$2" ;;
  hashes) echo "the hashes" ;;
  soak) echo '{"compared": 2000, "unequal": 0, "first_unequal": ""}' ;;
esac
"""
SMI = """
case "$*" in
  *-l*) echo 1980; echo > "$FAKES/clock"; exec sleep 600 ;;
  *) echo "NVIDIA of the test, 570.10, 9.0, 1980 MHz, 2619 MHz, 700.00 W, 41" ;;
esac
"""
# Writes the programs that a build would make.
CMAKE = """
case "$1" in
  --version) echo "cmake version 3.25.1" ;;
  -S) echo "$*" >> "$FAKES/configured" ;;
  --build)
    mkdir -p "$2/tests/gpu" "$2/tests/tools" "$2/bin"
    cp "$FAKES/hearth_gpu_tests" "$FAKES/hearth_gpu_bench" "$2/tests/gpu/"
    cp "$FAKES/hearth-engine" "$2/"
    cp "$FAKES/hearth-measure" "$2/tests/tools/"
    cp "$FAKES"/llama-* "$2/bin/" 2>/dev/null || true ;;
esac
"""


class Machine(unittest.TestCase):
    """A machine whose PATH has nothing but fakes and the tools of the shell."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name).resolve()
        self.tools = self.folder / "bin"
        self.tools.mkdir()
        for name in ("sh", "cat", "cp", "mkdir", "sleep", "tr", "env"):
            (self.tools / name).symlink_to(f"/bin/{name}")
        (self.tools / "python3").symlink_to(sys.executable)
        for name, text in (("cmake", CMAKE), ("nvcc", ""), ("ninja", ""), ("nvidia-smi", SMI),
                           ("git", "echo abc1234"), ("compute-sanitizer", SANITIZER)):
            self.tool(name, text)
        for name, text in (("hearth_gpu_tests", SUITE), ("hearth_gpu_bench", BENCH),
                           ("hearth-engine", ENGINE), ("hearth-measure", MEASURE)):
            self.program(name, text)
        self.driver()

    def tool(self, name, text):
        path = self.tools / name
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)

    def program(self, name, text):
        path = self.folder / name
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)

    def driver(self, cards=1, init=0):
        (self.folder / "sitecustomize.py").write_text(DRIVER.format(cards=cards, init=init))

    def start(self, script, *words):
        environment = {"PATH": str(self.tools), "PYTHONPATH": str(self.folder), "CUDA_HOME": "",
                       "FAKES": str(self.folder), "HOME": str(self.folder),
                       "PYTHONDONTWRITEBYTECODE": "1"}
        return subprocess.Popen([ROOT / "tests/gpu" / script, *map(str, words), "--build",
                                 self.folder / "build"], env=environment, text=True,
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE)

    def check(self, *words, script="check"):
        """Exit code, standard output, standard error."""
        process = self.start(script, *words)
        out, err = process.communicate(timeout=300)
        return process.returncode, out, err

    def rows(self, text):
        """{what: measured} of the table, which must be there."""
        head = "| what | measured | floor | share of the floor |\n|---|---|---|---|\n"
        self.assertIn(head, text)
        lines = text.split(head, 1)[1].splitlines()
        cells = [line.strip("|").split("|") for line in lines]
        self.assertEqual({len(row) for row in cells} - {4}, set(), text)
        return {row[0].strip(): row[1].strip() for row in cells}

    def table(self, expected, *words):
        """The rows of a run that must end with that code."""
        code, out, err = self.check(*words)
        self.assertEqual(code, expected, out + err)
        self.assertNotIn("Traceback", err)
        return self.rows(out)

    def read(self, name):
        path = self.folder / name
        return path.read_text() if path.exists() else ""


EXACT = "exactness on the card against the scalar table"


class Check(Machine):
    def test_a_machine_with_everything_gets_a_whole_table_and_0(self):
        file = self.folder / "table.md"
        self.program("hearth_gpu_bench",
                     'while [ ! -e "$FAKES/clock" ]; do sleep 0.01; done' + BENCH)
        code, out, err = self.check("-o", file)
        self.assertEqual((code, err), (0, ""), out)
        self.assertEqual(file.read_text(), out)
        self.assertIn("NVIDIA of the test, compute capability 9.0, driver 570.10", out)
        self.assertIn("commit abc1234", out)
        rows = self.rows(out)
        self.assertEqual(rows[EXACT], "3 of 3 tests equal in every bit")
        self.assertEqual(rows["machine code of the kernels"].split(":")[0], "not run")
        for name in ("memcheck", "racecheck", "initcheck"):
            self.assertEqual(rows[f"compute-sanitizer {name}"], "0 errors, 3 tests")
        self.assertEqual(rows["product Q4_K, 1 rows"], "20.0 us")
        self.assertEqual(rows["decode, batch 8, 0.00 GB"], "900.0 tokens/s")
        self.assertEqual(rows["clock while the kernels ran"],
                         "1980 MHz (1980 to 1980, 1 readings)")
        self.assertEqual(rows["hashes, card and CPU"], "equal")
        self.assertEqual(sum(what.startswith("soak") for what in rows), 2)
        self.assertIn("-DHEARTH_CUDA_ARCHITECTURES=90-real -DHEARTH_WARNINGS_ARE_ERRORS=OFF",
                      self.read("configured"))

    def test_sections_can_be_chosen(self):
        rows = self.table(0, "--only", "exactness,soak")
        self.assertIn(EXACT, rows)
        self.assertFalse([what for what in rows if "sanitizer" in what or "hashes" in what], rows)
        rows = self.table(0, "--only", "build")
        self.assertEqual(len(rows), 3, rows)
        code, _, err = self.check("--only", "exactnes")
        self.assertEqual(code, 2)
        self.assertIn("no section exactnes; the sections are build, code, exactness, sanitizer", err)

    def test_no_card(self):
        for cards, init, why in ((0, 0, "the NVIDIA driver knows no card"),
                                 (1, 803, "the NVIDIA driver does not start (CUDA error 803)")):
            self.driver(cards, init)
            code, out, err = self.check()
            self.assertEqual((code, out, err), (
                77, f"No card answers here, so nothing was checked: {why}.\n", ""))

    def test_without_git_and_nvidia_smi_the_driver_is_asked(self):
        (self.tools / "git").unlink()
        (self.tools / "nvidia-smi").unlink()
        code, out, err = self.check()
        self.assertEqual((code, err), (0, ""), out)
        self.assertIn("NVIDIA of the driver, compute capability 8.9, driver unknown (for CUDA 12.4)",
                      out)
        self.assertIn("commit unknown", out)
        self.assertEqual(self.rows(out)["clock while the kernels ran"], "clocks unknown")
        self.assertIn("ARCHITECTURES=89-real", self.read("configured"))

    def test_an_nvidia_smi_that_refuses_is_done_without(self):
        self.tool("nvidia-smi", 'echo "Failed to initialize NVML: Driver/library mismatch"; exit 18')
        self.assertEqual(self.table(0, "--only", "exactness")[EXACT],
                         "3 of 3 tests equal in every bit")

    def test_a_sanitizer_that_cannot_run_is_no_finding(self):
        for text, said in (
                ('echo "========= Error: Device not supported. Please refer to the manual"; exit 1',
                 "not run: Error: Device not supported. Please refer to the manual"),
                ('"$5"; echo "========= Error: Device not supported."\n'
                 'echo "========= ERROR SUMMARY: 0 errors"', "not run: Error: Device not supported."),
                ('echo "========= ERROR SUMMARY: 0 errors"',
                 "not run: the tool ended with 0 before any test"),
                ("exit 127", "not run: the tool ended with 127 before any test")):
            self.tool("compute-sanitizer", text)
            rows = self.table(0, "--only", "sanitizer")
            for name in ("memcheck", "racecheck", "initcheck"):
                self.assertEqual(rows[f"compute-sanitizer {name}"], said)
        (self.tools / "compute-sanitizer").unlink()
        self.assertEqual(self.table(0, "--only", "sanitizer")["compute-sanitizer racecheck"],
                         "not run: there is no compute-sanitizer")

    def test_what_a_sanitizer_finds_is_a_finding(self):
        self.tool("compute-sanitizer", """
"$5"
if [ "$2" != racecheck ]; then echo "========= ERROR SUMMARY: 0 errors"; exit 0; fi
echo "========= Error: Race reported between Write access at wide.cuh:80"
echo "========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)"
exit 9""")
        rows = self.table(1, "--only", "sanitizer")
        self.assertEqual(rows["compute-sanitizer memcheck"], "0 errors, 3 tests")
        self.assertEqual(rows["compute-sanitizer racecheck"],
                         "1 hazard displayed (1 error, 0 warnings), 3 tests; the tool ended with 9")
        self.assertEqual(rows["compute-sanitizer initcheck"], "0 errors, 3 tests")

    def test_a_test_that_fails_only_under_the_sanitizer_is_a_finding(self):
        self.tool("compute-sanitizer", '"$5" | sed "s/       OK/  FAILED /"\n'
                                       'echo "========= ERROR SUMMARY: 0 errors"; exit 1')
        (self.tools / "sed").symlink_to("/bin/sed")
        rows = self.table(1, "--only", "sanitizer")
        self.assertEqual(rows["compute-sanitizer memcheck"],
                         "0 errors, 0 tests; the tool ended with 1")

    def test_unequal_bits_are_named_and_looked_at_with_memcheck(self):
        self.program("hearth_gpu_tests", UNEQUAL)
        rows = self.table(1, "--only", "exactness,kernels")
        self.assertEqual(rows[EXACT],
                         "2 of 3 tests equal in every bit; UNEQUAL: Types/CudaProduct.Two/0")
        self.assertIn("memcheck --gtest_filter=Types/CudaProduct.Two/0\n", self.read("sanitized"))
        self.assertIn("compute-sanitizer memcheck over what failed", rows)
        self.assertEqual(rows["product Q4_K, 1 rows"], "20.0 us")

    def test_a_suite_that_dies_leaves_its_results_and_the_test_under_way(self):
        self.program("hearth_gpu_tests", DIES)
        rows = self.table(1, "--only", "exactness,model")
        self.assertEqual(rows[EXACT], "1 of 3 tests equal in every bit; the suite ended by signal 9 "
                                      "in CudaRows.Two")
        self.assertIn("memcheck --gtest_filter=CudaRows.Two\n", self.read("sanitized"))
        self.assertEqual(rows["hashes, card and CPU"], "equal")

    def test_a_suite_without_tests_is_no_success(self):
        self.program("hearth_gpu_tests", "exit 0")
        self.assertEqual(self.table(1, "--only", "exactness")[EXACT],
                         "0 of 0 tests equal in every bit; the suite ended with 0")
        self.program("hearth_gpu_tests", "echo no card; exit 77")
        self.assertEqual(self.table(1, "--only", "exactness")[EXACT],
                         "failed: the CUDA runtime finds no card, though the driver does")

    def test_a_section_that_fails_is_a_row_and_the_next_one_begins(self):
        self.program("hearth_gpu_bench", BENCH + "echo out of memory >&2; exit 1")
        self.program("hearth-engine", ENGINE.replace("echo '[", "exit 4; echo '["))
        rows = self.table(1, "--only", "kernels,model,soak")
        self.assertEqual(rows["product Q4_K, 1 rows"], "20.0 us")
        self.assertEqual(rows["times of the kernels"], "failed: the measurement ended with 1")
        self.assertEqual(rows["a model on the card"], "failed: hearth-engine bench model ended with 4")
        self.assertIn("soak, 1 round at once, card and lone runs on the CPU", rows)

    def test_a_model_or_a_file_that_is_not_there(self):
        rows = self.table(1, "--only", "model,soak", "--model", "absent.gguf")
        self.assertIn("No such file", rows["a model on the card"])
        code, out, err = self.check("--only", "soak", "-o", self.folder / "absent/table.md")
        self.assertEqual(code, 0)
        self.assertIn("cannot write", err)
        self.assertEqual(len(self.rows(out)), 3)

    def test_machine_code_with_findings(self):
        self.tool("cuobjdump", "echo > kernels.cubin")
        self.tool("nvdisasm", 'cat "$FAKES/listing"')
        self.tool("c++filt", 'echo "fused(hearth::Args)"')
        (self.folder / "listing").write_text(
            '\t.section\t.text.fused,"ax",@progbits\n        /*0000*/   FFMA R0, R1, R2, R3 ;\n')
        code, out, err = self.check("--only", "code")
        self.assertEqual(code, 1, err)
        self.assertEqual(self.rows(out)["machine code of the kernels"], "1 kernels, 1 findings")
        self.assertIn("does not know this kernel", err)

    def test_an_answer_of_another_form_is_a_row(self):
        self.program("hearth-engine", ENGINE.replace("avg_ts", "rate"))
        rows = self.table(1, "--only", "model,soak")
        self.assertEqual(rows["a model on the card"], "failed: KeyError: 'avg_ts'")

    def test_unequal_hashes_and_tokens(self):
        self.program("hearth-measure", MEASURE.replace('"the hashes"', '"$*"').replace(
            '"unequal": 0', '"unequal": 1').replace('_unequal": ""', '_unequal": "round 7"')
            + '\n[ "$1" != soak ] || exit 6')
        rows = self.table(1, "--only", "model,soak")
        self.assertEqual(rows["hashes, card and CPU"], "UNEQUAL")
        self.assertEqual(rows["soak, rounds of all cores at once, card and lone runs on the CPU"],
                         "2000 tokens compared, 1 UNEQUAL: round 7")

    def test_a_build_that_fails_leaves_out_what_needs_it(self):
        self.tool("cmake", CMAKE.replace(
            "--build)", '--build)\ncase "$*" in *hearth_gpu_tests*) echo warning: x >&2; exit 2;; esac'))
        rows = self.table(1)
        self.assertEqual(rows["build of the exactness suite"], f"failed: cmake --build "
                         f"{self.folder / 'build'} ended with 2")
        self.assertNotIn(EXACT, rows)
        self.assertEqual(rows["hashes, card and CPU"], "equal")

    def test_tools_that_are_missing_or_too_old_are_named(self):
        for change, said in (
                (lambda: (self.tools / "nvcc").unlink(),
                 "failed: there is no CUDA compiler (nvcc) on the path or in $CUDA_HOME/bin"),
                (lambda: self.tool("cmake", "echo cmake version 3.22.1"),
                 "failed: CMake must be 3.25 or newer, not 'cmake version 3.22.1'; `pip install "
                 "cmake` gets one"),
                (lambda: (self.tools / "cmake").unlink(),
                 "failed: cmake cannot be started: No such file or directory")):
            change()
            rows = self.table(1, "--only", "exactness,soak")
            self.assertEqual(set(rows.values()), {said})
            self.assertEqual(list(rows), ["build of the exactness suite", "build of the engine"])

    def test_the_time_limit_ends_a_section_and_begins_no_other(self):
        self.program("hearth_gpu_tests", HANGS)
        file = self.folder / "table.md"
        rows = self.table(1, "--only", "exactness,kernels", "--seconds", "5000", "-o", file)
        self.assertRegex(rows[EXACT], r"^0 of 3 tests equal in every bit; the suite was not done "
                                      r"after 900 s in CudaRows.One$")
        self.assertEqual(rows["build of the kernels' times"],
                         "not run: the 5000 s of --seconds were over")
        self.assertEqual(self.rows(file.read_text()), rows)
        self.assert_sleeper_is_gone()

    def assert_sleeper_is_gone(self):
        """What the suite has started ends with it."""
        pid = int(self.read("sleeper"))
        for _ in range(12_000):
            state = pathlib.Path(f"/proc/{pid}/stat")
            if not state.exists() or state.read_text().rpartition(")")[2].split()[0] == "Z":
                return
            time.sleep(0.01)
        os.kill(pid, signal.SIGKILL)
        self.fail("the suite's child outlived the check")

    def test_a_check_that_is_ended_has_written_its_rows(self):
        self.program("hearth_gpu_bench", HANGS.replace("time_is_up", "unused"))
        file = self.folder / "table.md"
        process = self.start("check", "--only", "exactness,kernels", "-o", file)
        for _ in range(12_000):
            if self.read("sleeper").endswith("\n") or process.poll() is not None:
                break
            time.sleep(0.01)
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=300)
        self.assertEqual(process.returncode, 143, err)
        self.assertEqual(self.rows(out)[EXACT], "3 of 3 tests equal in every bit")
        self.assertEqual(file.read_text(), out)
        self.assert_sleeper_is_gone()

    @unittest.skipUnless(EMULATED, "HEARTH_EMULATED_SUITE is not set")
    def test_the_suite_of_the_emulator(self):
        self.program("hearth_gpu_tests", f'exec "{EMULATED}" --gtest_filter="CudaRows.*" "$@"')
        row = self.table(0, "--only", "exactness")[EXACT]
        self.assertRegex(row, r"^(\d+) of \1 tests equal in every bit$")
        self.assertGreater(int(row.split()[0]), 3)


class AgainstLlama(Machine):
    def setUp(self):
        super().setUp()
        (self.folder / "CMakeLists.txt").write_text("")
        self.program("llama-bench", "echo '" + json.dumps(
            [{"n_prompt": 512, "n_gen": 0, "avg_ts": 10000.0},
             {"n_prompt": 0, "n_gen": 64, "avg_ts": 100.0}]) + "'")
        self.batched("-fa,   --flash-attn [on|off|auto]", "on")

    def batched(self, help_line, word):
        """llama-batched-bench, which takes that word behind -fa and no other."""
        self.program("llama-batched-bench", f"""
case "$*" in
  *--help*) echo "{help_line}" ;;
  *"-fa {word}"*) echo '{{"pl": 8, "speed_tg": 1000.0}}'; echo '{{"pl": 64, "speed_tg": 5000.0}}' ;;
  *) exit 1 ;;
esac""")

    def test_medians_of_interleaved_rounds(self):
        for help_line, word in (("-fa,   --flash-attn [on|off|auto]", "on"),
                                ("-fa,   --flash-attn     enable Flash Attention", "-c")):
            self.batched(help_line, word)
            code, out, err = self.check(self.folder, "--rounds", "2", script="against-llamacpp")
            self.assertEqual((code, err), (0, ""), out)
            self.assertEqual(out.count("round "), 2)
            for row in ("| prefill of 512 | 9000.0 | 10000.0 | 0.90 |",
                        "| decode, batch 1 | 150.0 | 100.0 | 1.50 |",
                        "| decode, batch 8 | 900.0 | 1000.0 | 0.90 |",
                        "| decode, batch 64 | 4000.0 | 5000.0 | 0.80 |"):
                self.assertIn(row, out)
        self.assertTrue((self.folder / "build-llamacpp").is_dir())

    def test_what_fails_is_said_in_a_sentence(self):
        self.program("llama-bench", "echo no kernel image >&2; exit 3")
        code, _, err = self.check(self.folder, script="against-llamacpp")
        self.assertEqual(code, 1)
        self.assertRegex(err, r"^llama-bench -m \S+ ended with 3\nno kernel image\n$")


if __name__ == "__main__":
    unittest.main(verbosity=2)
