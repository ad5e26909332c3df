"""When CloudFormation answers: as late as its clients lose nothing by.

The cdk CLI looks at a stack as soon as `ExecuteChangeSet` or `DeleteStack` has answered, and then every 5 seconds. Most
stacks need less here, so an immediate answer makes the CLI sleep through the rest of its 5 seconds. The answer waits
for the stack instead, for less than one such pause, and so does the answer to the CLI's own look (`DescribeStacks`,
known by its user agent). What the stack does is the same, and no other client notices.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any
from urllib.parse import parse_qs

from hyperpod_ray_sandbox.aws.emulator.context import Context

Json = dict[str, Any]
OPERATIONS = ("ExecuteChangeSet", "DeleteStack")
LOOK, CLI = "DescribeStacks", "aws-cdk"
LONGEST_SECONDS = 4.5
PAUSE_SECONDS = 0.05


def answer_at_the_end(context: Context) -> None:
    """Let the operations that begin something answer when it has ended, or after 4.5 seconds."""
    handlers = context.hooks.app.SERVICE_HANDLERS
    original = handlers["cloudformation"]

    async def handle(method: str, path: str, headers: Json, body: bytes, query: Any) -> Any:
        answer = await original(method, path, headers, body, query)
        form = parse_qs(body.decode("utf-8", "replace")) if body else dict(query or {})
        action = _first(form, "Action")
        looks = action == LOOK and CLI in str(headers.get("user-agent", ""))
        if answer[0] >= 400 or not (looks or action in OPERATIONS):
            return answer
        # arn:aws:cloudformation:REGION:ACCOUNT:stack/NAME/ID, or the name
        name = _first(form, "StackName").partition(":stack/")[2].partition("/")[0] or _first(form, "StackName")
        if not looks:
            await asyncio.sleep(PAUSE_SECONDS)  # what was begun says so a moment later
        waited = await _ended(context, name, goes=action == "DeleteStack")
        # a look tells what it sees at its end
        return await original(method, path, headers, body, query) if looks and waited else answer

    handlers["cloudformation"] = handle


async def _ended(context: Context, name: str, *, goes: bool) -> bool:
    """Wait for the end of what a stack does; return whether there was anything to wait for."""
    # the stores are kept by account and region, which this request's own context carries
    stacks = context.hooks.cloudformation._stacks
    start = time.monotonic()
    while time.monotonic() < start + LONGEST_SECONDS:
        stack = stacks.get(name)
        if stack is None or not _moves(str(stack["StackStatus"]), goes=goes):
            return time.monotonic() - start > PAUSE_SECONDS
        await asyncio.sleep(PAUSE_SECONDS)
    return True


def _moves(status: str, *, goes: bool) -> bool:
    if goes:
        return status not in ("DELETE_COMPLETE", "DELETE_FAILED")
    # a stack whose first change set waits for its execution stays REVIEW_IN_PROGRESS by itself
    return status.endswith("_IN_PROGRESS") and status != "REVIEW_IN_PROGRESS"


def _first(form: Any, name: str) -> str:
    value = form.get(name, "")
    return str(value[0] if isinstance(value, list) and value else value or "")
