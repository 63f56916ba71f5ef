"""Options of a command as fields of dataclasses, so that commands can share them."""

import dataclasses
import inspect
from collections.abc import Callable
from typing import Any, get_type_hints


def grouped(command: Callable[..., int | None]) -> Callable[..., Any]:
    """The command with one option for each field of its arguments that are dataclasses."""
    groups: dict[str, Any] = {}
    options: list[inspect.Parameter] = []
    hints = get_type_hints(command, include_extras=True)
    for name, parameter in inspect.signature(command).parameters.items():
        if not dataclasses.is_dataclass(hints[name]):
            options.append(parameter.replace(annotation=hints[name]))
            continue
        groups[name] = hints[name]
        of = get_type_hints(hints[name], include_extras=True)
        for field in dataclasses.fields(groups[name]):
            options.append(
                parameter.replace(name=field.name, default=field.default, annotation=of[field.name])
            )
    signature = inspect.Signature(options)

    def run(*words: Any, **given: Any) -> int | None:
        bound = signature.bind(*words, **given)
        bound.apply_defaults()
        said = dict(bound.arguments)
        for name, group in groups.items():
            said[name] = group(**{f.name: said.pop(f.name) for f in dataclasses.fields(group)})
        return command(**said)

    run.__name__, run.__doc__ = command.__name__, command.__doc__
    run.__annotations__ = {option.name: option.annotation for option in options}
    vars(run)["__signature__"] = signature
    return run
