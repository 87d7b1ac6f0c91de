"""A browser, by the W3C's WebDriver protocol, with nothing but Python itself."""

import base64
import json
import os
import re
import shutil
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

ELEMENT = "element-6066-11e4-a52e-4f735466cecf"


class Browser:
    """Chromium without a window, of this size, in light or dark."""

    def __init__(self, width=1280, height=800, is_dark=False, is_phone=False):
        self.profile = tempfile.mkdtemp(prefix="simba-browser.")
        self.driver = subprocess.Popen(
            ["chromedriver", "--port=0"], stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, text=True,
            env=dict(os.environ, HOME=self.profile))
        for line in self.driver.stdout:
            found = re.search(r"started successfully on port (\d+)", line)
            if found:
                break
        self.base = f"http://127.0.0.1:{found[1]}"
        arguments = ["--headless=new", "--no-sandbox", "--disable-gpu",
                     "--disable-dev-shm-usage", "--hide-scrollbars",
                     f"--user-data-dir={self.profile}",
                     f"--window-size={width},{height}"]
        if is_dark:
            arguments.append("--force-dark-mode")
        options = {"args": arguments}
        if is_phone:
            options["mobileEmulation"] = {"deviceMetrics": {
                "width": width, "height": height, "pixelRatio": 2}}
        reply = self.ask("POST", "/session", {"capabilities": {"alwaysMatch": {
            "goog:chromeOptions": options,
            "goog:loggingPrefs": {"browser": "ALL"}}}})
        self.base += f"/session/{reply['sessionId']}"
        if not is_phone:
            self.cdp("Emulation.setDeviceMetricsOverride", width=width,
                     height=height, deviceScaleFactor=1, mobile=False)
        self.cdp("Emulation.setEmulatedMedia", features=[{
            "name": "prefers-color-scheme",
            "value": "dark" if is_dark else "light"}])

    def ask(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            self.base + path, data, {"Content-Type": "application/json"},
            method=method)
        try:
            with urllib.request.urlopen(request, timeout=150) as reply:
                return json.load(reply)["value"]
        except urllib.error.HTTPError as error:
            raise RuntimeError(json.load(error)["value"]["message"]) from None

    def cdp(self, command, **parameters):
        """Chromium's own protocol."""
        return self.ask("POST", "/goog/cdp/execute", {
            "cmd": command, "params": parameters})

    def metrics(self):
        return {entry["name"]: entry["value"] for entry in
                self.cdp("Performance.getMetrics")["metrics"]}

    def go(self, url):
        self.ask("POST", "/url", {"url": url})

    def run(self, script, *arguments):
        """The value of a JavaScript function body."""
        return self.ask("POST", "/execute/sync",
                        {"script": script, "args": list(arguments)})

    def find(self, css):
        return self.ask("POST", "/element", {
            "using": "css selector", "value": css})[ELEMENT]

    def click(self, css):
        """A page that is drawn anew meanwhile has another element there."""
        for _ in range(20):
            try:
                self.ask("POST", f"/element/{self.find(css)}/click", {})
                return
            except RuntimeError as error:
                if "stale element" not in str(error):
                    raise
        raise RuntimeError(f"{css} does not stay")

    def type(self, css, text):
        self.ask("POST", f"/element/{self.find(css)}/value", {"text": text})

    def keys(self, *keys):
        """Press keys, wherever the focus is."""
        actions = []
        for key in keys:
            actions += [{"type": "keyDown", "value": key},
                        {"type": "keyUp", "value": key}]
        self.ask("POST", "/actions", {"actions": [
            {"type": "key", "id": "keyboard", "actions": actions}]})

    def text(self, css):
        return self.run("return document.querySelector(arguments[0])"
                        "?.innerText ?? ''", css)

    def messages(self):
        """What the page complained about since it was asked last."""
        return [entry["message"] for entry in
                self.ask("POST", "/se/log", {"type": "browser"})]

    def shoot(self, path):
        with open(path, "wb") as file:
            file.write(base64.b64decode(self.ask("GET", "/screenshot")))

    def close(self):
        try:
            self.ask("DELETE", "")
        finally:
            self.driver.terminate()
            self.driver.wait()
            shutil.rmtree(self.profile, ignore_errors=True)


def within(seconds, condition):
    """True as soon as the condition is; how long that took is in .took."""
    begin = time.monotonic()
    while not condition():
        if time.monotonic() - begin > seconds:
            return False
        time.sleep(0.01)
    within.took = time.monotonic() - begin
    return True
