"""Build a policy from `replication.policy.class`."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Mapping
from typing import cast

from twinlog.errors import ConfigError
from twinlog.policy.replication import DefaultReplicationPolicy, IdentityReplicationPolicy, ReplicationPolicy

CLASS_KEY = "replication.policy.class"

# Strimzi's class is the identity policy from before Kafka had one (3.0).  It did not rename heartbeats; twinlog's
# does, because the heartbeats of two clusters in one topic cannot be told apart.
JAVA_CLASSES: Mapping[str, type[DefaultReplicationPolicy]] = {
    "org.apache.kafka.connect.mirror.DefaultReplicationPolicy": DefaultReplicationPolicy,
    "org.apache.kafka.connect.mirror.IdentityReplicationPolicy": IdentityReplicationPolicy,
    "io.strimzi.kafka.connect.mirror.IdentityReplicationPolicy": IdentityReplicationPolicy,
}

QUESTIONS = tuple(
    name for name, _ in inspect.getmembers(ReplicationPolicy, inspect.isfunction) if not name.startswith("_")
)


def policy_from_config(
    class_name: str, properties: Mapping[str, str], source_alias: str
) -> ReplicationPolicy:
    """Build the policy that `class_name` names: one of MM2's Java classes, or the user's own Python class.

    A Python class is named `package.module.Class` or `package.module:Class`.  Its class method
    `from_properties(properties, source_alias)` builds it if it has one, else a call without arguments.  `properties`
    are the flow's, with MM2's names.  Raises ConfigError if there is no such class or it is not a policy.
    """
    name = class_name.strip()
    kind: type = JAVA_CLASSES.get(name) or _python_class(name)
    missing = [question for question in QUESTIONS if not callable(getattr(kind, question, None))]
    if missing:
        raise _refused(
            name, f"does not answer {', '.join(missing)}", "derive it from DefaultReplicationPolicy"
        )
    try:
        build = getattr(kind, "from_properties", None)
        policy = kind() if build is None else build(properties, source_alias)
    except ConfigError:
        raise
    except Exception as error:  # a user's code: any error of it becomes one line
        raise _refused(
            name, f"cannot be built: {error}", "see from_properties in twinlog.policy.load"
        ) from error
    return cast("ReplicationPolicy", policy)


def _python_class(name: str) -> type:
    found = re.fullmatch(r"(?P<module>\w+(?:\.\w+)*)[.:](?P<name>\w+)", name)
    if found is None:
        raise _refused(name, "is not a class name", "name a class as package.module.Class")
    try:
        kind = getattr(importlib.import_module(found["module"]), found["name"])
    except ImportError as error:
        hint = f"make {found['module']} importable; of Java's policies there are {', '.join(JAVA_CLASSES)}"
        raise _refused(name, f"cannot be imported: {error}", hint) from error
    except AttributeError as error:
        raise _refused(name, f"does not exist in {found['module']}", "check the class's name") from error
    if not isinstance(kind, type):
        raise _refused(name, "is not a class", "name a class, not a function or a value")
    return kind


def _refused(name: str, why: str, hint: str) -> ConfigError:
    return ConfigError(f"{CLASS_KEY}: {name!r} {why}", hint=hint, key=CLASS_KEY, value=name)
