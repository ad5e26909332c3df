"""How a resource type is made known to MiniStack's CloudFormation, and faults inside its steps."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from hyperpod_ray_sandbox.aws.emulator.context import Context
from hyperpod_ray_sandbox.aws.emulator.errors import ServiceError
from hyperpod_ray_sandbox.aws.emulator.execution import Execution

Json = dict[str, Any]
Created = tuple[str, Json]


@dataclass(frozen=True, kw_only=True)
class ResourceType:
    """One CloudFormation resource type.

    `create(logical_id, properties, stack)` and `update(id, old, new, stack)` return the physical id and the attributes
    for `Fn::GetAtt`; `delete(id, properties)`. `replacing` are the create-only properties; `name` is the property that
    holds a custom name, if any; `blocking` types wait, so they run on a worker thread; `read(id, properties)` returns
    the properties as they are now for drift detection (None: gone), of which `drifting` are compared.
    """

    type: str
    create: Callable[[str, Json, str], Created]
    delete: Callable[[str, Json], object]
    update: Callable[[str, Json, Json, str], Created] | None = None
    replacing: tuple[str, ...] = ()
    name: str = ""
    blocking: bool = False
    read: Callable[[str, Json], Json | None] | None = None
    drifting: frozenset[str] = frozenset()


class Registry:
    """The resource types of MiniStack's CloudFormation, ours added."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._hooks = context.hooks
        self._provisioners = context.hooks.provisioners
        self._blocking: set[str] = set()
        original = self._hooks.stacks._runs_on_worker_thread
        faults = context.faults
        # a step that is to be delayed may not hold up the event loop either
        self._hooks.stacks._runs_on_worker_thread = lambda resource_type: (
            resource_type in self._blocking or original(resource_type) or faults.concerns(resource_type)
        )

        self._let_outputs_change_alone()

    def _let_outputs_change_alone(self) -> None:
        """A change set that changes outputs only can be executed; MiniStack compares resources and calls it empty.

        https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/using-cfn-updating-stacks-changesets.html
        """
        cloudformation = self._hooks.cloudformation
        original = cloudformation._ACTION_HANDLERS["CreateChangeSet"]

        def create(parameters: Json) -> Any:
            answer = original(parameters)
            name = (parameters.get("ChangeSetName") or [""])[0]
            stacks = {stack.get("StackId"): stack for stack in cloudformation._stacks.values()}
            for change_set in cloudformation._change_sets.values():
                if change_set["ChangeSetName"] != name or change_set["ChangeSetType"] != "UPDATE":
                    continue
                before = (stacks.get(change_set["StackId"]) or {}).get("_template", {}).get("Outputs", {})
                empty = change_set["Status"] == "FAILED" and not change_set["Changes"]
                if empty and before != change_set["_template"].get("Outputs", {}):
                    change_set |= {"Status": "CREATE_COMPLETE", "ExecutionStatus": "AVAILABLE", "StatusReason": ""}
            return answer

        cloudformation._ACTION_HANDLERS["CreateChangeSet"] = create

    def add(self, types: Iterable[ResourceType]) -> None:
        """Make resource types known."""
        for resource_type in types:
            handler: Json = {"create": resource_type.create, "delete": resource_type.delete}
            if resource_type.update:
                handler["update"] = resource_type.update
            self._provisioners._RESOURCE_HANDLERS[resource_type.type] = handler
            self._provisioners._REPLACING_PROPERTIES[resource_type.type] = resource_type.replacing
            if resource_type.name:
                self._provisioners._CUSTOM_NAME_REPLACEMENT[resource_type.type] = {"name": resource_type.name}
            if resource_type.blocking:
                self._blocking.add(resource_type.type)
            if resource_type.read:
                self._hooks.drift._DRIFT_READERS[resource_type.type] = (resource_type.read, resource_type.drifting)

    def wrap(self, resource_type: str, step: str, wrapper: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
        """Put something around one step of a type MiniStack has."""
        handler = self._provisioners._RESOURCE_HANDLERS[resource_type]
        handler[step] = wrapper(handler[step])

    def enable_faults(self, execution: Execution) -> None:
        """Judge the steps of every type there is now, custom resources included, and let faults strike in them."""
        handlers = self._provisioners._RESOURCE_HANDLERS
        for resource_type, handler in handlers.items():
            for step in ("create", "update", "delete"):
                if step in handler:
                    handler[step] = self._faulty(
                        resource_type, step, execution.judged(resource_type, step, handler[step])
                    )
        # MiniStack looks Custom::… up by these names, not in the dictionary
        for step in ("create", "update", "delete"):
            name = f"_custom_resource_{step}"
            original = getattr(self._provisioners, name)
            setattr(self._provisioners, name, self._faulty("Custom", step, execution.judged("Custom", step, original)))

    def _faulty(self, resource_type: str, step: str, original: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any, **kwargs: Any) -> Any:
            # the custom-resource functions get the type, `Custom::Something`, as their fourth argument
            name = (
                kwargs.get("resource_type") or (args[3] if len(args) > 3 else resource_type)
                if resource_type == "Custom"
                else resource_type
            )
            fault = self._context.faults.strike(name, step)
            if fault:
                raise ServiceError(fault.code, f'Resource handler returned message: "{fault.message}"')
            return original(*args, **kwargs)

        return run


def stack_name(logical_id: str, stack: str, context: Context, length: int) -> str:
    """Return the physical name CloudFormation would make up."""
    return str(context.hooks.provisioners._physical_name(stack, logical_id, max_len=length))
