"""A headless Chromium driven over its DevTools protocol through two pipes: no driver, no package, no port."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome", "chromium-headless-shell")
PATIENCE_S = 60


def chromium() -> str:
    """The program's path; skips the test where none is installed."""
    named = os.environ.get("ROOFEXP_CHROMIUM")
    found = named or next((path for name in NAMES if (path := shutil.which(name))), None)
    if found is None:
        pytest.skip("no Chromium on the PATH (Debian: apt-get install chromium), and ROOFEXP_CHROMIUM names none")
    return found


class Browser:
    """One browser with one page. ``errors`` collects what the page and its console complained of."""

    def __init__(self) -> None:
        self.errors: list[str] = []
        self._profile = tempfile.TemporaryDirectory(prefix="chromium-", ignore_cleanup_errors=True)
        to_read, self._write = map(_high, os.pipe())
        self._read, to_write = map(_high, os.pipe())
        options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"]
        options += ["--remote-debugging-pipe", f"--user-data-dir={self._profile.name}", "about:blank"]
        # the browser reads commands from descriptor 3 and answers on 4
        script = f'exec "$0" "$@" 3<&{to_read} 4>&{to_write} {to_read}<&- {to_write}>&-'
        self._process = subprocess.Popen(
            ["bash", "-c", script, chromium(), *options],
            pass_fds=(to_read, to_write),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_read)
        os.close(to_write)
        self._number, self._buffer, self._session = 0, b"", None
        targets = self.ask("Target.getTargets")["targetInfos"]
        page = next(target["targetId"] for target in targets if target["type"] == "page")
        self._session = self.ask("Target.attachToTarget", targetId=page, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{domain}.enable")

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        os.close(self._write)  # it ends when its pipe does
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._read)
        self._profile.cleanup()

    def ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        """One command and its result; raises RuntimeError for what the browser refuses."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        until = time.monotonic() + PATIENCE_S
        while time.monotonic() < until:
            answer = self._next()
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error'].get('message')}")
                return answer["result"]
            self._notice(answer)
        raise RuntimeError(f"{method}: no answer in {PATIENCE_S} s")

    def open(self, url: str, width: int = 1280, height: int = 900, dark: bool = False, phone: bool = False) -> None:
        """Loads a page in a window of that many CSS pixels and waits until it is complete."""
        self.ask(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=height, deviceScaleFactor=2 if phone else 1, mobile=phone,
        )  # fmt: skip
        self.look("prefers-color-scheme", "dark" if dark else "light")
        refused = self.ask("Page.navigate", url=url).get("errorText")
        if refused:
            raise RuntimeError(f"{url}: {refused}")
        self.until("document.readyState === 'complete' && location.href !== 'about:blank'")

    def look(self, feature: str, value: str) -> None:
        self.ask("Emulation.setEmulatedMedia", features=[{"name": feature, "value": value}])

    def run(self, script: str) -> Any:
        """The value of a JavaScript expression, promises awaited."""
        done = self.ask("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in done:
            details = done["exceptionDetails"]
            raise RuntimeError(details.get("exception", {}).get("description") or details["text"])
        return done["result"].get("value")

    def until(self, condition: str, patience_s: float = PATIENCE_S) -> None:
        end = time.monotonic() + patience_s
        while not self.run(condition):
            if time.monotonic() > end:
                raise RuntimeError(f"not within {patience_s} s: {condition}")
            time.sleep(0.05)

    def press(self, key: str, code: int, text: str = "") -> None:
        """A key, as the keyboard sends it; ``code`` is its virtual key code."""
        for kind in ("keyDown", "keyUp"):
            extra = {"text": text} if text and kind == "keyDown" else {}
            self.ask("Input.dispatchKeyEvent", type=kind, key=key, windowsVirtualKeyCode=code, **extra)

    def screenshot(self, file: Path, whole: bool = False) -> None:
        shot = self.ask("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        file.write_bytes(base64.b64decode(shot["data"]))

    def pdf(self) -> bytes:
        printed = self.ask(
            "Page.printToPDF", preferCSSPageSize=True, printBackground=False, transferMode="ReturnAsBase64"
        )
        return base64.b64decode(printed["data"])

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            piece = os.read(self._read, 1 << 20)
            if not piece:
                raise RuntimeError("the browser ended")
            self._buffer += piece
        line, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(line)

    def _notice(self, event: dict[str, Any]) -> None:
        found = event.get("params", {})
        if event.get("method") == "Runtime.exceptionThrown":
            details = found["exceptionDetails"]
            self.errors.append(details.get("exception", {}).get("description") or details["text"])
        elif event.get("method") == "Runtime.consoleAPICalled" and found["type"] in ("error", "warning", "assert"):
            self.errors.append(" ".join(str(part.get("value") or part.get("description")) for part in found["args"]))
        elif event.get("method") == "Log.entryAdded" and found["entry"]["level"] in ("error", "warning"):
            self.errors.append(found["entry"]["text"])


def _high(descriptor: int) -> int:
    """The same under a number that the shell's own 3 and 4 do not meet."""
    moved = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 20)
    os.close(descriptor)
    return moved
