"""The web pages in Chromium. HEARTH_BROWSER_PYTHON is a Python with the packages of pages.txt.

Each page is looked at by axe-core in both themes and at two widths; the browser's own log must hold
no error.
"""

import http.server
import importlib.util
import json
import os
import pathlib
import shutil
import sys
import tempfile
import threading
import unittest

PYTHON = os.environ.get("HEARTH_BROWSER_PYTHON", "")
CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
if not os.path.exists(PYTHON) or not CHROMIUM or not DRIVER:
    print("HEARTH_BROWSER_PYTHON names no file, or chromium and chromium-driver are not installed: "
          "the pages are not run")
    sys.exit(77)
if importlib.util.find_spec("selenium") is None:
    os.execv(PYTHON, [PYTHON, *sys.argv])

from selenium import webdriver
from selenium.common.exceptions import (ElementClickInterceptedException,
                                        StaleElementReferenceException)
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select

import cluster
import swarm

AXE = pathlib.Path(importlib.util.find_spec("axe_playwright_python").submodule_search_locations[0],
                   "axe.min.js").read_text()
VIEWS = ("chat", "swarm", "plan", "ledger", "keys", "connect")
WIDE, NARROW = (1280, 900), (360, 740)
# Where the pictures of the documents are written, when they are made anew.
PICTURES = os.environ.get("HEARTH_PICTURES", "")


class Browser:
    def __init__(self):
        options = webdriver.ChromeOptions()
        options.binary_location = CHROMIUM
        self.folder = tempfile.TemporaryDirectory()
        for flag in ("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
                     "--force-device-scale-factor=1",
                     "--host-resolver-rules=MAP evil.example 127.0.0.1", f"--user-data-dir={self.folder.name}"):
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        self.driver = webdriver.Chrome(options=options, service=Service(DRIVER))
        self.driver.set_script_timeout(swarm.PATIENCE_S)
        self.driver.set_page_load_timeout(swarm.PATIENCE_S)
        self.shape(WIDE)

    def close(self):
        self.driver.quit()
        self.folder.cleanup()

    def shape(self, size, dark=False):
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
            "width": size[0], "height": size[1], "deviceScaleFactor": 1, "mobile": size == NARROW})
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]})

    def open(self, url):
        self.driver.get(url)
        self.see("#main > *")

    def view(self, name):
        self.driver.execute_script("location.hash = arguments[0]", f"#/{name}")
        swarm.wait_until(lambda: self.find(f'nav a[data-view="{name}"][aria-current]'), name)

    def find(self, selector):
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def see(self, selector):
        return swarm.wait_until(lambda: self.find(selector), selector)[0]

    def press(self, text, within="body"):
        """Clicks the last button with this text: that of the newest message. The page may draw itself
        anew between the look and the click: then it is looked for again."""
        def pressed():
            try:
                found = [each for each in self.find(f"{within} button")
                         if each.text == text and each.is_displayed()]
                if found:
                    found[-1].click()
                return found
            except (StaleElementReferenceException, ElementClickInterceptedException):
                return None
        swarm.wait_until(pressed, f"the button {text}")

    def press_labelled(self, label):
        """The button with this accessible name, as press() does."""
        def pressed():
            try:
                found = self.find(f'button[aria-label="{label}"]')
                if found:
                    found[0].click()
                return found
            except (StaleElementReferenceException, ElementClickInterceptedException):
                return None
        swarm.wait_until(pressed, label)

    def texts(self, selector):
        return self.driver.execute_script(
            "return [...document.querySelectorAll(arguments[0])].map(each => each.innerText)", selector)

    def text(self, selector="#main"):
        return "\n".join(self.texts(selector))

    def faults(self):
        """What the browser complains of; that the network was away belongs to what is tested."""
        return [each["message"] for each in self.driver.get_log("browser")
                if each["level"] == "SEVERE" and "net::ERR_" not in each["message"]]

    def axe(self):
        self.driver.execute_cdp_cmd("Runtime.evaluate", {"expression": AXE})
        return self.driver.execute_async_script("""
            const done = arguments[0];
            axe.run().then(all => done(all.violations.map(each =>
                [each.id, each.nodes.map(node => node.html.slice(0, 200))])));""")

    def picture(self, name, dark):
        if not PICTURES:
            return
        self.driver.execute_script(
            "document.activeElement.blur(); document.getElementById('main').scrollTop = 0")
        self.driver.save_screenshot(os.path.join(PICTURES, f"{name}-{'dark' if dark else 'light'}.png"))

    def answered(self, messages):
        """Once the page shows so many messages and none is being written."""
        swarm.wait_until(lambda: len(self.find(".message")) == messages and not self.find(".busy"),
                         f"{messages} messages")
        return self.texts(".message.assistant .body")

    def say(self, text):
        field = self.see("#prompt")
        field.send_keys(text)
        field.send_keys(Keys.ENTER)


class Pages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.swarm = swarm.Swarm(3)
        cls.addClassCleanup(cls.swarm.stop)

    def setUp(self):
        self.browser = Browser()
        self.addCleanup(self.browser.close)

    def set(self, **values):
        """Settings of the chat."""
        self.browser.press("Settings")
        for name, value in values.items():
            field = self.browser.see(f"#set-{name}")
            if field.tag_name == "select":
                Select(field).select_by_value(value)
            else:
                field.clear()
                field.send_keys(value)
        self.browser.press("Done")

    def test_a_chat(self):
        b = self.browser
        b.open(self.swarm.api)
        self.set(max_tokens="40", temperature="0.7")
        b.say("Name three rivers.")
        [first] = b.answered(2)
        self.assertTrue(first)
        self.assertRegex(b.text(".facts"), r"(?s)\d+ tokens.*tokens/s.*first token")
        # The same seed gives the same answer; without it another one begins a branch.
        b.press("Repeat")
        self.assertEqual(b.answered(2), [first])
        self.assertIn("the same answer, bit for bit", b.text(".facts"))
        self.assertIn("2 of 2", b.text(".facts"))
        b.press("Ask again")
        b.answered(2)
        self.assertIn("3 of 3", b.text(".facts"))
        b.press("‹")
        self.assertIn("2 of 3", b.text(".facts"))
        # A receipt, whose command is true.
        b.press("Receipt")
        swarm.wait_until(lambda: "Checked in this browser" in b.text("dialog"), "the proof")
        self.assertEqual(b.axe(), [])
        b.see("dialog details summary").click()
        command = b.see("dialog pre").text.split()
        self.assertEqual(command[:2], ["hearth", "verify"])
        swarm.wait_until(lambda: swarm.hearth(*command[1:], self.swarm.data_dir)[0] == 0, "receipts")
        b.press("Close")
        # A second turn, and the first one edited: a branch beside it.
        b.say("And a lake?")
        b.answered(4)
        b.press("Edit", ".message:nth-child(1)")
        area = b.see(".message textarea")
        area.clear()
        area.send_keys("Name a mountain.")
        b.press("Send", ".message")
        b.answered(2)
        self.assertIn("Name a mountain.", b.text(".message.user"))
        b.press("‹", ".message:nth-child(1)")
        b.answered(4)
        # All of it is there after the page is loaded anew.
        b.open(self.swarm.api)
        swarm.wait_until(lambda: "Name three rivers." in b.text(".shelf"), "the kept conversation")
        b.press("Name three rivers.", ".shelf")
        b.answered(4)
        self.assertEqual(b.faults(), [])

    def test_a_false_receipt_is_not_proved(self):
        b = self.browser
        status, answer = self.swarm.post("/v1/chat/completions", {
            "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 8, "verify": "spot"})
        self.assertEqual(status, 200, answer)
        name = answer["hearth"]["receipt"]
        b.open(f"{self.swarm.api}/#/ledger/{name}")
        swarm.wait_until(lambda: "Checked in this browser" in b.text(), "the proof")
        self.assertEqual(b.axe(), [])
        # Each lie of a server about these receipts, and what the page says to it.
        faults = b.driver.execute_async_script("""
            const [name, done] = arguments;
            (async () => {
              const {checkAnswer, Wrong} = await import('/pages/receipt.js');
              const told = await (await fetch(`/api/v1/receipts/${name}`)).json();
              const flip = (text, at) => {
                const bytes = Uint8Array.from(atob(text), c => c.charCodeAt(0));
                bytes[at] ^= 1;
                return btoa(String.fromCharCode(...bytes));
              };
              const lies = {
                root: t => { const lines = t.checkpoint.split('\\n'); lines[2] = flip(lines[2], 0); t.checkpoint = lines.join('\\n'); },
                size: t => { t.checkpoint = t.checkpoint.replace(/\\n([0-9]+)\\n/, (all, n) => `\\n${Number(n) + 1}\\n`); },
                unsigned: t => { t.checkpoint = t.checkpoint.split('\\n').filter(line => !line.startsWith('\\u2014')).join('\\n'); },
                payer: t => { t.receipts[0].bytes = flip(t.receipts[0].bytes, 10); },
                worker: t => { t.receipts[0].bytes = flip(t.receipts[0].bytes, 41 + 224); },
                entry: t => { t.receipts[0].entry += 1; },
                short: t => { t.receipts[0].proof.pop(); },
                long: t => { t.receipts[0].proof.push(t.receipts[0].proof[0]); },
                sibling: t => { t.receipts[0].proof[0] = flip(t.receipts[0].proof[0], 31); },
                twice: t => { t.receipts.push(t.receipts[0]); },
                missing: t => { t.receipts.pop(); },
                none: t => { t.receipts = []; },
              };
              const out = {};
              for (const [lie, tell] of Object.entries(lies)) {
                const copy = structuredClone(told);
                tell(copy);
                try { await checkAnswer(name, copy); out[lie] = 'proved'; }
                catch (error) { out[lie] = error instanceof Wrong ? 'wrong' : String(error); }
              }
              const other = '0'.repeat(28);
              out.other = await checkAnswer(other, told).then(() => 'proved', error => error instanceof Wrong ? 'wrong' : String(error));
              out.truth = await checkAnswer(name, told).then(found => found.receipts.length, String);
              done(out);
            })();""", name)
        self.assertEqual(faults.pop("truth"), 3, "one of each stage")
        self.assertEqual(set(faults.values()), {"wrong"}, faults)
        self.assertIn("Standings", b.text())
        self.assertEqual(b.faults(), [])

    def test_stop(self):
        b = self.browser
        b.open(self.swarm.api)
        self.set(max_tokens="4000", temperature="1.5")
        b.say("Tell me a long story.")
        swarm.wait_until(lambda: b.text(".message.assistant .body"), "the first words")
        b.press("Stop")
        b.answered(2)
        self.assertIn("stopped", b.text(".facts"))
        swarm.wait_until(lambda: self.swarm.state()["running"] == 0, "the end of the request")
        b.say("Hello")  # the conversation goes on
        swarm.wait_until(lambda: len(b.find(".message")) == 4, "the next answer")
        b.press("Stop")
        b.answered(4)
        self.assertEqual(b.faults(), [])

    def test_a_restart_of_the_server_in_the_middle(self):
        b = self.browser
        with tempfile.TemporaryDirectory() as folder:
            port = swarm.free_port()
            s = swarm.Swarm(1, data_dir=folder, port=port)
            try:
                b.open(s.api)
                self.set(max_tokens="300", temperature="1.5", seed="7")
                b.say("Tell me a long story.")
                swarm.wait_until(lambda: b.text(".message.assistant .body"), "the first words")
                s.stop()
                swarm.wait_until(lambda: "Reconnecting" in b.text(".message"), "the lost connection")
                swarm.wait_until(lambda: "Reconnecting" in b.text("#pulse"), "the state")
                s = swarm.Swarm(1, data_dir=folder, port=port)
                [through] = b.answered(2)
                swarm.wait_until(lambda: "serving" in b.text("#pulse"), "the state")
                b.press("Repeat")
                self.assertEqual(b.answered(2), [through])
            finally:
                s.stop()

    def test_each_page_in_each_form(self):
        b = self.browser
        b.open(self.swarm.api)
        self.set(max_tokens="60", temperature="0.2", seed="11")
        b.say("Why is the sky blue?")
        b.answered(2)
        state = self.swarm.state()
        for dark in (False, True):
            for size in (WIDE, NARROW, (3840, 2160)):
                b.shape(size, dark)
                for name in VIEWS:
                    b.view(name)
                    self.assertEqual(b.axe(), [], (name, size, dark))
                    wide = b.driver.execute_script("return document.documentElement.scrollWidth")
                    self.assertLessEqual(wide, size[0], (name, size, dark))
                    self.assertTrue(b.find("h1"), name)
                if PICTURES and size == WIDE:
                    self.picture(dark)
        b.shape(WIDE)
        b.view("chat")
        b.press("Settings")
        self.assertEqual(b.axe(), [])
        b.press("Done")
        b.view("swarm")
        for node in state["nodes"]:
            self.assertIn(node["name"], b.text("table"))
            begin, end = node["layers"]
            self.assertIn(f"layers {begin}-{end - 1}", b.text("table"))
        self.assertEqual(b.faults(), [])

    def picture(self, dark):
        b = self.browser
        for name in ("chat", "ledger", "connect"):
            b.view(name)
            if name == "chat":
                b.find(".shelf li button")[0].click()
                b.answered(2)
            if name == "ledger":
                swarm.wait_until(lambda: "Standings" in b.text(), "the ledger")
            b.picture(name, dark)

    def test_keyboard_alone(self):
        b = self.browser
        b.open(self.swarm.api)
        keys = lambda *all: webdriver.ActionChains(b.driver).send_keys(*all).perform()
        webdriver.ActionChains(b.driver).send_keys("Hello").key_down(Keys.SHIFT).send_keys(
            Keys.ENTER).key_up(Keys.SHIFT).perform()
        self.assertEqual(b.find(".message"), [], "Shift+Enter starts a new line")
        b.see("#prompt").clear()
        b.driver.execute_script("document.querySelector('.skip').focus()")
        self.assertEqual(b.driver.switch_to.active_element.text, "Skip to content")
        seen = set()
        for _ in range(20):
            keys(Keys.TAB)
            seen.add(b.driver.switch_to.active_element.text)
        self.assertLessEqual({"Chat", "Swarm", "Plan", "Ledger", "Keys", "Connect", "New chat", "Settings"}, seen)

    # What a model, a user or a name may hold becomes text.
    def test_no_text_becomes_a_script(self):
        marks = ["<script>{}</script>", "<img src=x onerror={}>", "<svg onload={}>",
                 "<iframe srcdoc='<script>{}</script>'>", "<a href='javascript:{}'>x</a>",
                 "[x](javascript:{})", "[x](JaVaScRiPt:{})", "[x](&#106;avascript:{})",
                 "[x](data:text/html,<script>{}</script>)", "![x](https://evil.example/{})",
                 "![x](javascript:{})", "<https://x' onmouseover='{}>", "[x](vbscript:{})",
                 '[x](https://a "\' onclick=\'{}")', "`<script>{}</script>`",
                 "```html\n<script>{}</script>\n```", "```\" onclick={}\nx\n```",
                 "| <b onclick={}>a | b |\n|---|---|\n| <script>{}</script> | x |",
                 "- <details open ontoggle={}>", "> <math href='javascript:{}'>",
                 "# <style onload={}>", "**<object data='javascript:{}'>**",
                 "<form action='javascript:{}'><input type=submit>", "<base href='//evil.example'>{}",
                 "<meta http-equiv=refresh content='0;url=javascript:{}'>"]
        code = ["parent.broken=1", "window.broken=1", "alert(1)", "fetch('//evil.example')"]
        payloads = [mark.replace("{}", each) for mark in marks for each in code]
        self.assertEqual(len(payloads), 100)
        b = self.browser
        b.open(self.swarm.api)
        found = b.driver.execute_async_script("""
            const [payloads, done] = arguments;
            (async () => {
              const {blocks, renderBlock} = await import('/pages/markdown.js');
              const place = document.createElement('div');
              document.getElementById('main').append(place);
              const bad = [];
              for (const text of payloads) {
                place.replaceChildren(...blocks(text).map(block => renderBlock(block)));
                for (const element of place.querySelectorAll('*')) {
                  if (/^(script|img|svg|iframe|object|embed|form|base|meta|style|math|link)$/i.test(element.tagName)) bad.push([text, element.tagName]);
                  for (const {name, value} of element.attributes) {
                    if (name.startsWith('on') || name === 'style' || name === 'src') bad.push([text, name]);
                    if (name === 'href' && !/^(https?:|mailto:)/.test(value)) bad.push([text, value]);
                  }
                  if (element.tagName !== 'BUTTON') element.click && element.tagName !== 'A' && element.click();
                }
                await new Promise(resolve => setTimeout(resolve));
              }
              place.remove();
              done({bad, broken: window.broken ?? null});
            })();""", payloads)
        self.assertEqual(found, {"bad": [], "broken": None})
        # The same as a message, and as a title of the shelf.
        self.set(max_tokens="4")
        b.say(payloads[0].replace("{", "") + payloads[4])
        b.answered(2)
        self.assertIn("<script>", b.text(".message.user"))
        self.assertIsNone(b.driver.execute_script("return window.broken ?? null"))
        self.assertEqual(b.faults(), [])

    # Long texts of marks, which a careless parser needs for ever.
    def test_hostile_texts_are_rendered_in_time(self):
        b = self.browser
        b.open(self.swarm.api)
        texts = ["*" * 20000, "**a" * 6000, "[" * 20000, "[a](" * 5000, "`" * 9999 + "a", "> " * 5000 + "x",
                 "- " * 5000, "|a" * 5000 + "\n" + "|-" * 5000, "_a_" * 6000, "~~" * 9000, "<" * 20000,
                 "http://" * 3000, "1. " * 4000, "\\" * 20001, "# " * 9000, "`a" * 9000]
        ratio = b.driver.execute_async_script("""
            const [texts, done] = arguments;
            import('/pages/markdown.js').then(({blocks, renderBlock}) => {
              const spent = text => { const begin = performance.now(); blocks(text).forEach(each => renderBlock(each)); return performance.now() - begin; };
              const plain = Math.max(spent('plain words '.repeat(2000)), 1);
              done(texts.map(text => spent(text) / plain));
            });""", texts)
        # Against an ordinary text of that length on the same machine; a quadratic parser of these
        # texts needs thousands of times as long.
        for text, each in zip(texts, ratio):
            self.assertLess(each, 2000, text[:20])

    # A page of another site can neither read nor act, also from this machine.
    def test_a_strangers_page(self):
        class Site(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                self.send_response(200)
                self.send_header("Content-Type", "text/html")
                self.end_headers()
                self.wfile.write(b"<!doctype html><title>evil</title><iframe id=f></iframe>")

            def log_message(self, *_):
                pass
        site = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Site)
        self.addCleanup(site.server_close)
        threading.Thread(target=site.serve_forever, daemon=True).start()
        self.addCleanup(site.shutdown)
        b = self.browser
        before = self.swarm.state()["totals"]["admitted"]
        b.driver.get(f"http://evil.example:{site.server_address[1]}/")
        got = b.driver.execute_async_script("""
            const [api, done] = arguments;
            (async () => {
              const out = {};
              const body = JSON.stringify({messages: [{role: 'user', content: 'x'}], max_tokens: 1});
              for (const [name, path, options] of [
                ['read', '/api/v1/state', {}], ['models', '/v1/models', {}],
                ['post', '/v1/chat/completions', {method: 'POST', body, headers: {'Content-Type': 'application/json'}}],
                ['simple', '/v1/chat/completions', {method: 'POST', body, headers: {'Content-Type': 'text/plain'}}],
                ['delete', '/v1/requests', {method: 'DELETE'}],
                ['token', '/api/v1/tokens', {method: 'POST', body: '{}', headers: {'Content-Type': 'text/plain'}}],
                ['revoke', '/api/v1/keys/0123456789abcdef', {method: 'DELETE'}]]) {
                try { const r = await fetch(api + path, options); out[name] = r.status + await r.text(); }
                catch (error) { out[name] = 'refused'; }
              }
              for (const [name, path] of [['opaque', '/v1/chat/completions']]) {
                try { await fetch(api + path, {method: 'POST', mode: 'no-cors', body}); out[name] = 'sent'; }
                catch (error) { out[name] = 'refused'; }
              }
              const frame = document.getElementById('f');
              frame.src = api + '/';
              await new Promise(resolve => { frame.onload = resolve; frame.onerror = resolve; });
              try { out.frame = frame.contentDocument ? 'readable' : 'closed'; } catch { out.frame = 'closed'; }
              done(out);
            })();""", self.swarm.api)
        for name in ("read", "models", "post", "simple", "delete", "token", "revoke"):
            self.assertTrue(got[name] == "refused" or got[name].startswith("403"), (name, got[name]))
        self.assertNotIn("hearth", got["read"] + got["models"])
        self.assertEqual(got["frame"], "closed")
        b.driver.switch_to.frame("f")
        self.assertNotIn("New chat", b.driver.page_source)
        self.assertEqual(self.swarm.state()["totals"]["admitted"], before, "nothing was computed")
        # A name that is made to lead here is no name of this machine.
        b.driver.get(f"http://evil.example:{self.swarm.api.rsplit(':', 1)[1]}/")
        self.assertIn("host_not_allowed", b.driver.page_source)


class Plan(unittest.TestCase):
    """A server that measures its nodes."""

    def test_the_plan_of_each_model(self):
        b = Browser()
        self.addCleanup(b.close)
        with swarm.Swarm(2, plain=True) as s:
            swarm.wait_until(lambda: len(s.state().get("measured", {}).get("nodes", [])) == 2, "figures")
            b.open(f"{s.api}/#/plan")
            swarm.wait_until(lambda: "fits" in b.texts("main .tag"), "the plan")
            code, out, err = swarm.hearth("plan", swarm.MODEL, "--json", "--host", s.api)
            self.assertEqual(code, 0, err)
            for stage in json.loads(out)["pipelines"][0]["stages"]:
                self.assertIn(stage["node"], b.text("main table"))
            self.assertIn("Tokens a second, one stream", b.text())
            swarm.wait_until(lambda: not b.find('[data-act="again"][disabled]'), "all plans")
            for dark in (False, True):
                for size in (WIDE, NARROW):
                    b.shape(size, dark)
                    self.assertEqual(b.axe(), [], (size, dark))
                b.shape(WIDE, dark)
                b.picture("plan", dark)
            self.assertEqual(b.faults(), [])


class Login(unittest.TestCase):
    """A server that asks for keys."""

    def test_a_key_is_asked_for(self):
        with tempfile.TemporaryDirectory() as folder:
            folder = os.path.join(folder, "data")
            cluster.init(folder)
            keys = {}
            for name, *words in (("user",), ("host", "--admin")):
                code, out, err = swarm.hearth("key", "create", name, *words, "--data-dir", folder)
                self.assertEqual(code, 0, err)
                keys[name] = out.strip()
            address = "127.0.0.1"
            with swarm.Swarm(1, "--host", "0.0.0.0", data_dir=folder, ready=False) as s:
                url = f"http://{address}:{s.api.rsplit(':', 1)[1]}"
                b = Browser()
                self.addCleanup(b.close)
                b.open(url)
                self.assertIn("asks for an API key", b.text())
                self.assertEqual(b.axe(), [])
                b.see("#key").send_keys("hk1.0000000000000000.wrong", Keys.ENTER)
                swarm.wait_until(lambda: "does not know this key" in b.text(), "the refusal")
                field = b.see("#key")
                field.clear()
                field.send_keys(keys["user"], Keys.ENTER)
                b.see("#prompt")
                swarm.wait_until(lambda: b.find("select option"), "the model")
                b.view("swarm")
                swarm.wait_until(lambda: "needs an admin key" in b.text(), "what is missing")
                # In this tab only: another one is asked again.
                self.assertIsNone(b.driver.execute_script("return localStorage.getItem('hearth.key')"))
                b.view("connect")
                b.press("Forget the key")
                b.view("chat")
                swarm.wait_until(lambda: "asks for an API key" in b.text(), "the question")
                b.see("#key").send_keys(keys["host"])
                b.see("#remember").click()
                b.see("#key").send_keys(Keys.ENTER)
                b.see("#prompt")
                b.view("swarm")
                swarm.wait_until(lambda: "Machines" in b.text(), "the swarm")
                b.open(url)
                b.see("#prompt")


class Manage(cluster.Cluster):
    """What an admin does in the browser; each button's outcome is looked up with the verbs."""

    def setUp(self):
        super().setUp()
        self.init()
        self.key = self.good(self.home, "key", "create", "host", "--admin")
        self.swarm = swarm.Swarm(1, data_dir=self.home)
        self.addCleanup(self.swarm.stop)
        self.browser = Browser()
        self.addCleanup(self.browser.close)

    def open(self, view):
        """Also on this machine a key is asked for; until then nothing can be managed."""
        b = self.browser
        b.open(self.swarm.api)
        b.view(view)
        b.see("details.panel summary").click()
        self.assertEqual(b.axe(), [])
        b.see("#key").send_keys(self.key, Keys.ENTER)

    def clean(self, name):
        for dark in (False, True):
            for size in (WIDE, NARROW):
                self.browser.shape(size, dark)
                self.assertEqual(self.browser.axe(), [], (size, dark))
                wide = self.browser.driver.execute_script("return document.documentElement.scrollWidth")
                self.assertLessEqual(wide, size[0])
            self.browser.shape(WIDE, dark)
            self.browser.picture(name, dark)
        self.browser.shape(WIDE)

    def see_text(self, text, selector="#main"):
        swarm.wait_until(lambda: text in self.browser.text(selector), text)

    def see_no_dialog(self):
        swarm.wait_until(lambda: not self.browser.find("dialog"), "the end of the dialog")

    def node(self):
        return self.swarm.state()["nodes"][0]

    def test_a_machine_joins_and_is_removed(self):
        b = self.browser
        self.open("swarm")
        b.press("Add a machine: make a join token")
        self.assertEqual(b.axe(), [])
        b.press("Make the token", "dialog")
        words = b.see("dialog pre").text.split()
        self.assertEqual(words[:2], ["hearth", "join"])
        drawn = b.see("dialog svg.qr")
        self.assertGreater(drawn.size["width"], 200)
        self.assertEqual(b.axe(), [])
        b.press("Done", "dialog")
        # Another one, which is revoked.
        spare = json.loads(self.good(self.home, "token", "create", "--json"))["id"]
        b.see(f'button[aria-label="Revoke the join token {spare}"]')
        self.assertEqual(b.axe(), [])
        b.press_labelled(f"Revoke the join token {spare}")
        b.press("Revoke", "dialog")
        self.see_no_dialog()
        states = {each["id"]: each["state"] for each in json.loads(self.good(self.home, "token", "list", "--json"))}
        self.assertEqual(sorted(states.values()), ["revoked", "valid"])
        self.assertEqual(states[spare], "revoked")
        self.good(self.folder("attic"), "join", words[2], "--no-worker", "--name", "attic")
        self.see_text("attic")
        self.clean("swarm")
        self.assertIn("attic", self.names())
        b.see('button[aria-label="Remove attic"]').click()
        b.press("Remove", "dialog")
        self.see_no_dialog()
        swarm.wait_until(lambda: "attic" not in self.names(), "the roster without it")
        swarm.wait_until(lambda: "attic" not in b.text("table"), "the page without it")
        self.assertEqual(b.faults(), [])

    def test_a_machine_that_asks_is_let_in(self):
        b = self.browser
        self.open("swarm")
        b.press("Let machines ask for 10 minutes")
        self.see_text("None asks now")
        address = self.swarm.info["control"]
        process, log = self.start(self.folder("attic"), "join", address, "--name", "attic", "--yes",
                                  "--no-worker")
        b.see('button[aria-label="Let attic in"]').click()
        shown = b.see("dialog .words").text
        self.assertIn(shown, log.read_text(errors="replace"), "both sides show the same words")
        b.see("#owner").send_keys("ann")
        b.press("The words are the same: let it in", "dialog")
        self.see_no_dialog()
        self.assertEqual(process.wait(swarm.PATIENCE_S), 0, log.read_text(errors="replace"))
        self.see_text("ann", "table")
        self.assertEqual(b.faults(), [])

    def test_a_worker_is_paused_and_resumed(self):
        b = self.browser
        self.open("swarm")
        name = self.node()["name"]
        b.see(f'button[aria-label="Pause {name}"]').click()
        self.assertEqual(b.axe(), [])
        Select(b.see("#how")).select_by_value("pause")
        Select(b.see("#hours")).select_by_value("1")
        b.press("Pause", "dialog")
        self.see_no_dialog()
        self.see_text("an admin of the cluster", "table")
        away = self.node()["away"]
        self.assertEqual((away["drain"], away["why"]), (False, "an admin of the cluster"))
        self.assertTrue(away["until"])
        self.assertFalse(self.swarm.state()["ready"])
        b.see(f'button[aria-label="Resume {name}"]').click()
        swarm.wait_until(lambda: self.swarm.state()["ready"], "the worker's return")
        self.assertNotIn("away", self.node())
        self.assertEqual(b.faults(), [])

    def test_keys_are_made_shown_once_and_revoked(self):
        b = self.browser
        self.open("keys")
        b.press("Create a key")
        b.see("#name").send_keys("laptop <b>")
        rate = b.see("#rate")
        rate.clear()
        rate.send_keys("600")
        Select(b.see("#level")).select_by_value("regular")
        b.see("#trust").send_keys("den, attic,")
        b.press("Create the key", "dialog")
        made = b.see("dialog pre").text
        b.press("Done", "dialog")
        self.see_text("laptop <b>", "table")
        for limit in ("600 requests a minute", "computed by den, attic", "by nodes from regular on"):
            self.assertIn(limit, b.text("table"))
        self.assertNotIn(made.split(".")[2], b.driver.page_source)
        self.clean("keys")
        models = lambda: swarm.http("GET", self.swarm.api + "/v1/models",
                                    headers={"Authorization": "Bearer " + made})[0]
        self.assertEqual(models(), 200)
        b.see('button[aria-label="Revoke laptop <b>"]').click()
        b.press("Revoke", "dialog")
        self.see_no_dialog()
        self.assertEqual(models(), 401)
        swarm.wait_until(lambda: "laptop" not in b.text("table"), "the list without it")
        # What this browser stores, and that it goes.
        self.see_text("in this tab only")
        b.press("Clear everything…")
        b.press("Clear everything", "dialog")
        self.see_no_dialog()
        self.see_text("Only an admin key")
        self.assertEqual(b.driver.execute_script("return sessionStorage.length + localStorage.length"), 0)
        self.assertEqual(b.faults(), [])


if __name__ == "__main__":
    swarm.main()
