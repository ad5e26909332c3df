"""Posts to a webhook that a job has ended.

The text has the run's name, how the job ended and after how long: no command, no path and no variable, which may hold
what a chat must not. The address is a secret: no message has it.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
import urllib.error
import urllib.request

TRIES, WAIT_S, LIMIT_S = 3, 5.0, 10.0
LONGEST_NAME = 100
RUN_NAME_VARIABLE = "RUN_NAME"


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """An address that sends the message elsewhere is not the one that was given."""

    def redirect_request(self, *_: object) -> None:
        return None


def text(code: int, seconds: float) -> str:
    """What is posted of a command that ended with an exit code, or by a signal where the code is negative."""
    name = os.environ.get(RUN_NAME_VARIABLE, "")[:LONGEST_NAME] or "job"
    minutes = round(seconds / 60)
    after = f"{minutes // 60} h {minutes % 60} min" if minutes >= 60 else f"{minutes} min"
    if code < 0:
        return f"{name} was ended by {signal.Signals(-code).name} after {after}"
    return f"{name} succeeded after {after}" if code == 0 else f"{name} failed with exit code {code} after {after}"


def post(address: str, message: str) -> bool:
    """Post a message; whether somebody took it. What fails is said in the log, and changes no job's end."""
    failure = "it is no https address"
    for attempt in range(TRIES if address.startswith("https://") else 0):
        if attempt:
            time.sleep(WAIT_S)
        try:
            request = urllib.request.Request(  # noqa: S310 (https, see above)
                address, data=json.dumps({"text": message}).encode(), headers={"Content-Type": "application/json"}
            )
            with urllib.request.build_opener(_NoRedirect).open(request, timeout=LIMIT_S):
                return True
        except urllib.error.HTTPError as error:
            failure = f"it answered {error.code}"
            if error.code < 500:
                break
        except (OSError, ValueError) as error:
            failure = type(error).__name__
    sys.stderr.write(f"warning: the webhook of notify was not reached: {failure}. Fix: correct the secret's address\n")
    return False
