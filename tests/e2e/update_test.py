"""hearth update --check with manifests that deploy/sign-release signs, from a file and over HTTP."""

import datetime
import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

import file_server

HEARTH = os.environ["HEARTH_BINARY"]
SIGN = pathlib.Path(__file__).resolve().parents[2] / "deploy/sign-release"
if not shutil.which("openssl"):
    print("openssl is not installed")
    sys.exit(77)


class Update(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.key = cls.sign("--new-key", cls.folder / "key.pem").decode().strip()
        cls.package = cls.folder / "hearth_99.0.0_amd64.deb"
        cls.package.write_bytes(b"a package")
        cls.manifest = cls.make("99.0.0")

    @staticmethod
    def sign(*words):
        return subprocess.run([SIGN, *map(str, words)], stdout=subprocess.PIPE, check=True,
                              timeout=120).stdout

    @classmethod
    def make(cls, version, days=1, date=None):
        until = datetime.date.today() + datetime.timedelta(days)
        return cls.sign("--key", cls.folder / "key.pem", "--version", version, "--until", until,
                        "--date", date or datetime.date.today(), "--text", "What is new.", cls.package)

    def check(self, source, *words, key=None):
        if isinstance(source, bytes):
            path = self.folder / "manifest"
            path.write_bytes(source)
            source = path
        # No key and no address of this machine's own.
        clean = {name: value for name, value in os.environ.items() if not name.startswith("HEARTH_")}
        done = subprocess.run(
            [HEARTH, "update", "--check", "--from", source, "--key", key or self.key, *words],
            capture_output=True, text=True, timeout=120, env={**clean, "HOME": str(self.folder)})
        return done.returncode, done.stdout, done.stderr

    def refused(self, code, says, *words, **rest):
        found, out, err = self.check(*words, **rest)
        self.assertEqual((found, out), (code, ""), err)
        self.assertIn(says, err)

    def test_a_newer_release_is_named(self):
        code, out, err = self.check(self.manifest)
        self.assertEqual(code, 0, err)
        self.assertIn("hearth 99.0.0", out)
        self.assertIn(hashlib.sha256(b"a package").hexdigest(), out)
        code, out, _ = self.check(self.manifest, "--json")
        told = json.loads(out)
        self.assertTrue(told["newer"])
        self.assertEqual(told["files"], [{"name": self.package.name, "bytes": 9,
                                          "sha256": hashlib.sha256(b"a package").hexdigest()}])

    def test_this_version_is_the_newest(self):
        own = json.loads(subprocess.run([HEARTH, "version", "--json"], capture_output=True,
                                        timeout=120, check=True).stdout)["version"]
        code, out, err = self.check(self.make(own))
        self.assertEqual(code, 0, err)
        self.assertIn("is the newest release", out)

    def test_over_http_with_bounds(self):
        server = file_server.Server(self.manifest)
        self.addCleanup(server.close)
        code, out, err = self.check(server.url)
        self.assertEqual(code, 0, err)
        self.assertIn("hearth 99.0.0", out)
        server.data = b"\n" * 200_000
        self.refused(1, "at most 131072 bytes", server.url)
        server.status = 404
        self.refused(1, "404", server.url)

    def test_what_is_not_the_projects_is_refused(self):
        self.refused(5, "signature of the release manifest is wrong",
                     self.manifest.replace(b"What is new.", b"What is old."))
        other = self.sign("--new-key", self.folder / "other.pem").decode().strip()
        self.refused(5, "not signed with the key", self.manifest, key=other)
        self.refused(1, "no release manifest", b"<html>")
        self.refused(5, "may hide newer releases", self.make("99.0.0", -1, "2026-01-01"))

    def test_a_key_is_never_overwritten(self):
        before = (self.folder / "key.pem").read_bytes()
        again = subprocess.run([SIGN, "--new-key", self.folder / "key.pem"], capture_output=True,
                               text=True, timeout=120)
        self.assertEqual(again.returncode, 1)
        self.assertIn("exists", again.stderr)
        self.assertEqual((self.folder / "key.pem").read_bytes(), before)
        self.assertEqual((self.folder / "key.pem").stat().st_mode & 0o777, 0o600)


if __name__ == "__main__":
    unittest.main()
