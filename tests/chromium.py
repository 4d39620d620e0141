"""A headless Chromium, asked over its DevTools pipe: what a page has become, and what its console says."""

import json
import os
import selectors
import shutil
import subprocess
import time

PATIENCE_S = 120


class Chromium:
    """Starts the browser. `close` ends it."""

    def __init__(self, profile):
        program = shutil.which("chromium")
        assert program, "there is no chromium: scripts/setup.sh installs it"
        requests, self._requests = os.pipe()
        self._answers, answers = os.pipe()

        def take_pipes():  # Chromium reads requests from descriptor 3 and writes answers to 4
            kept = os.dup(requests), os.dup(answers)
            for given, wanted in zip(kept, (3, 4), strict=True):
                os.dup2(given, wanted)

        self._process = subprocess.Popen(
            [program, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
             "--hide-scrollbars", f"--user-data-dir={profile}", "--remote-debugging-pipe", "about:blank"],
            preexec_fn=take_pipes, close_fds=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            start_new_session=True)
        os.close(requests)
        os.close(answers)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._answers, selectors.EVENT_READ)
        self._unread = b""
        self._count = 0
        self.events = []

    def close(self):
        self.call("Browser.close")
        self._process.wait(PATIENCE_S)

    def _read(self, deadline):
        while b"\0" not in self._unread:
            assert self._selector.select(max(0, deadline - time.monotonic())), "the browser does not answer"
            data = os.read(self._answers, 1 << 20)
            assert data, "the browser has ended"
            self._unread += data
        message, _, self._unread = self._unread.partition(b"\0")
        return json.loads(message)

    def call(self, method, session=None, **parameters):
        """Calls a method of the DevTools protocol. Returns its result; events on the way are kept."""
        self._count += 1
        request = {"id": self._count, "method": method, "params": parameters} | ({"sessionId": session} if session else {})
        os.write(self._requests, json.dumps(request).encode() + b"\0")
        deadline = time.monotonic() + PATIENCE_S
        while (answer := self._read(deadline)).get("id") != self._count:
            self.events.append(answer)
        assert "error" not in answer, (method, answer)
        return answer["result"]

    def wait_for(self, session, event, **parameters):
        """Waits until the session has had this event with these parameters."""
        deadline = time.monotonic() + PATIENCE_S
        while not any(each["method"] == event and each.get("sessionId") == session
                      and parameters.items() <= each["params"].items() for each in self.events):
            self.events.append(self._read(deadline))


class Tab:
    """A page in a tab of its own."""

    def __init__(self, browser, url, *, width=1400, height=1000, dark=False, script=True):
        self.browser = browser
        target = browser.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = browser.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.call("Emulation.setEmulatedMedia",
                  features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        if not script:
            self.call("Emulation.setScriptExecutionDisabled", value=True)
        self.call("Page.setLifecycleEventsEnabled", enabled=True)
        # Page.loadEventFired does not tell the page from about:blank, whose event may come late.
        loader = self.call("Page.navigate", url=url)["loaderId"]
        browser.wait_for(self.session, "Page.lifecycleEvent", loaderId=loader, name="load")

    def call(self, method, **parameters):
        return self.browser.call(method, self.session, **parameters)

    def evaluate(self, expression):
        """Returns the JSON value of a JavaScript expression."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def _events(self, *methods):
        return [event for event in self.browser.events
                if event.get("sessionId") == self.session and event["method"] in methods]

    def complaints(self):
        """Returns errors, warnings and refusals of the console."""
        self.evaluate("0")  # events before this answer have come
        return self._events("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded")

    def loaded(self):
        """Returns the addresses that were asked for, without the data in a page."""
        urls = [event["params"]["request"]["url"] for event in self._events("Network.requestWillBeSent")]
        return [url for url in urls if not url.startswith("data:")]
