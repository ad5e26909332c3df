"""Headless Chromium by its DevTools protocol: a page's text, size, console, requests and screenshot. Needs no driver.

`apt-get install chromium-headless-shell` (Debian) or `chromium` installs one; CHROMIUM names another.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

import websocket

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
SECONDS = 600.0


def chromium() -> str:
    """The browser's path."""
    found = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
    assert found, f"no {', '.join(NAMES)}: apt-get install chromium-headless-shell, or set CHROMIUM"
    return found


class Browser:
    """One browser process with one tab. A context manager."""

    def __init__(self) -> None:
        self._profile = tempfile.TemporaryDirectory(prefix="chromium-", ignore_cleanup_errors=True)
        self._number = 0
        self.events: list[dict[str, Any]] = []

    def __enter__(self) -> Browser:
        self._process = subprocess.Popen(
            [
                chromium(), "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-proxy-server",
                "--disable-background-networking", "--disable-component-update", "--no-first-run",
                "--remote-debugging-port=0", "--remote-allow-origins=*", f"--user-data-dir={self._profile.name}",
                "about:blank",
            ],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        port_file = Path(self._profile.name) / "DevToolsActivePort"
        end = time.monotonic() + SECONDS
        while not port_file.is_file() or not port_file.read_text().strip():
            assert time.monotonic() < end and self._process.poll() is None, "the browser did not start"
            time.sleep(0.05)
        port = port_file.read_text().split()[0]
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(f"http://127.0.0.1:{port}/json/list", timeout=SECONDS) as answer:
            tab = next(one for one in json.load(answer) if one["type"] == "page")
        self._socket = websocket.create_connection(
            tab["webSocketDebuggerUrl"], timeout=SECONDS, http_no_proxy=["127.0.0.1"]
        )
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.send(f"{domain}.enable")
        return self

    def __exit__(self, *error: object) -> None:
        self._socket.close()
        self._process.terminate()
        self._process.wait(600)
        self._profile.cleanup()

    def send(self, method: str, **params: Any) -> dict[str, Any]:
        """One command and its result; events on the way are kept."""
        self._number += 1
        self._socket.send(json.dumps({"id": self._number, "method": method, "params": params}))
        while True:
            message = json.loads(self._socket.recv())
            if message.get("id") == self._number:
                assert "error" not in message, message
                return dict(message["result"])
            if "method" in message:
                self.events.append(message)

    def look(self, *, width: int, height: int = 900, dark: bool = False) -> None:
        """Set the size and the theme that the user prefers."""
        self.send(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 500
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.send("Emulation.setEmulatedMedia", features=[scheme])

    def open(self, url: str) -> None:
        """Go to an address and wait until it has loaded."""
        self.send("Page.navigate", url=url)
        self.until("document.readyState === 'complete'")

    def run(self, script: str) -> Any:
        """The value of an expression in the page."""
        result = self.send("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in result, result["exceptionDetails"]
        return result["result"].get("value")

    def until(self, script: str) -> None:
        """Wait until an expression in the page is true."""
        end = time.monotonic() + SECONDS
        while not self.run(script):
            assert time.monotonic() < end, f"never true: {script}"
            time.sleep(0.1)

    def screenshot(self, path: Path, *, most: int = 6000) -> None:
        """The whole page as a picture, `most` pixels high at most."""
        size = self.send("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": min(size["height"], most), "scale": 1}
        data = self.send("Page.captureScreenshot", format="png", clip=clip, captureBeyondViewport=True)["data"]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(base64.b64decode(data))

    def complaints(self) -> list[str]:
        """What the console, the security policy and scripts said since the last call that is no good."""
        self.run("0")
        events, self.events = self.events, []
        found = []
        for event in events:
            params = event["params"]
            if event["method"] == "Runtime.exceptionThrown":
                found.append(json.dumps(params["exceptionDetails"])[:500])
            elif event["method"] == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
                found.append(f"{params['entry']['text']} {params['entry'].get('url', '')}")
            elif event["method"] == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
                found.append(json.dumps(params["args"])[:500])
            elif event["method"] == "Network.requestWillBeSent":
                url = params["request"]["url"]
                if not url.startswith(("http://127.0.0.1:", "data:", "about:", "blob:http://127.0.0.1:")):
                    found.append(f"a request to {url}")
        return found

    def too_wide(self) -> list[str]:
        """Elements that make the whole page scroll sideways; what scrolls inside its own box does not count."""
        return list(
            self.run(
                """(() => {
  const width = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth <= width) return [];
  return [...document.querySelectorAll("body *")].filter((one) => {
    if (one.getBoundingClientRect().right <= width + 1) return false;
    for (let up = one.parentElement; up; up = up.parentElement)
      if (["auto", "scroll", "hidden", "clip"].includes(getComputedStyle(up).overflowX)) return false;
    return true;
  }).map((one) => `${one.tagName}.${one.className} ${one.textContent.slice(0, 40)}`).slice(0, 8)
    .concat([`scrollWidth ${document.documentElement.scrollWidth}`]);
})()"""
            )
        )
