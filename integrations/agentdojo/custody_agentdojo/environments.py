"""AgentDojo's environments, loaded quickly.

A full measurement loads two thousand of them. AgentDojo parses each with PyYAML's Python parser, in a
tenth of a second; the C parser gives the same objects in a tenth of that.
"""

from __future__ import annotations

from collections.abc import Mapping

import yaml
from agentdojo.functions_runtime import TaskEnvironment
from agentdojo.task_suite.task_suite import TaskSuite, read_suite_file, validate_injections

Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def load_environment(suite: TaskSuite, injections: Mapping[str, str]) -> TaskEnvironment:
    """What `suite.load_and_inject_default_environment(injections)` returns."""
    text = read_suite_file(suite.name, "environment.yaml", suite.data_path)
    defaults = suite.get_injection_vector_defaults()
    validate_injections(dict(injections), defaults)
    return suite.environment_type.model_validate(yaml.load(text.format(**{**defaults, **injections}), Loader))
