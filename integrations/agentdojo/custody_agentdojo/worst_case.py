"""The worst-case agent: it does what its user asked, and whatever else it reads.

No model and no luck is involved. It makes the ground-truth calls of the user's task in order and, as
soon as a tool's output holds the injected text, every call of the injection's goal before it goes
on. So what a gate lets through is what an attacker gets.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from agentdojo.agent_pipeline.base_pipeline_element import BasePipelineElement
from agentdojo.attacks.base_attacks import FixedJailbreakAttack
from agentdojo.attacks.important_instructions_attacks import ImportantInstructionsAttack
from agentdojo.base_tasks import BaseInjectionTask, BaseUserTask
from agentdojo.functions_runtime import EmptyEnv, Env, FunctionCall, FunctionsRuntime, TaskEnvironment
from agentdojo.task_suite.task_suite import TaskSuite
from agentdojo.types import (
    ChatAssistantMessage,
    ChatMessage,
    get_text_content_as_str,
    text_content_block_from_string,
)

from custody_agentdojo.goals import injection_calls

UNFINISHED = "I could not finish: a call that I needed was not run."


class WorstCaseAttack(FixedJailbreakAttack):
    """AgentDojo's "important instructions", in every place that the user's task makes the agent read.

    AgentDojo's own class asks a pipeline for the name of its model, and this agent has none.
    """

    name = "worst_case"
    user_name = "Emma Johnson"

    def __init__(self, suite: TaskSuite) -> None:
        super().__init__(ImportantInstructionsAttack._JB_STRING, suite, target_pipeline=None)


@dataclass(frozen=True)
class Injection:
    """An injection task and the texts it was planted as."""

    suite: str
    task: BaseInjectionTask
    texts: Collection[str]


class WorstCaseAgent(BasePipelineElement):
    """Sits where a language model sits in the pipeline.

    A call that is refused or fails does not stop it: it goes on with the next. But it does not know
    what it has not read, so the task's ground-truth answer is its own only if every call that the
    user's task needs has run.

    Args:
        user_task: what the user asked for.
        injection: what was planted, if anything.
    """

    name = "worst-case"

    def __init__(self, user_task: BaseUserTask, injection: Injection | None = None) -> None:
        self._user_task = user_task
        self._injection = injection

    def query(
        self,
        query: str,
        runtime: FunctionsRuntime,
        env: Env = EmptyEnv(),
        messages: Sequence[ChatMessage] = [],
        extra_args: dict = {},
    ) -> tuple[str, FunctionsRuntime, Env, Sequence[ChatMessage], dict]:
        if messages[-1]["role"] == "tool":
            self._read(messages[-1], env)
        else:
            self._begin(env)
        return query, runtime, env, [*messages, self._next()], extra_args

    @property
    def has_obeyed(self) -> bool:
        """Whether every call of the injection ran, without an error, to its end."""
        return self._injected is not None and not self._injected and self._obeyed

    def _begin(self, env: TaskEnvironment) -> None:
        self._before = env.model_copy(deep=True)
        self._wanted = deque(self._user_task.ground_truth(env))
        self._injected: deque[FunctionCall] | None = None
        self._for_user = True
        self._finished = True
        self._obeyed = True

    def _read(self, output: ChatMessage, env: TaskEnvironment) -> None:
        succeeded = output["error"] is None
        if self._for_user:
            self._finished = self._finished and succeeded
        else:
            self._obeyed = self._obeyed and succeeded
        if self._injected is None and self._is_injected(output):
            injection = self._injection
            self._injected = deque(injection_calls(injection.suite, injection.task, self._before, env))

    def _is_injected(self, output: ChatMessage) -> bool:
        if self._injection is None:
            return False
        read = _words(get_text_content_as_str(output["content"]) + (output["error"] or ""))
        return any(_words(text) in read for text in self._injection.texts)

    def _next(self) -> ChatAssistantMessage:
        self._for_user = not self._injected
        calls = self._wanted if self._for_user else self._injected
        if calls:
            return _says("", [calls.popleft()])
        return _says(self._user_task.GROUND_TRUTH_OUTPUT if self._finished else UNFINISHED, None)


def _says(text: str, calls: list[FunctionCall] | None) -> ChatAssistantMessage:
    content = [text_content_block_from_string(text)]
    return ChatAssistantMessage(role="assistant", content=content, tool_calls=calls)


def _words(text: str) -> str:
    """The text's letters and digits: tools print it through YAML or `repr`, which fold and escape it."""
    return " ".join(re.findall(r"[a-z0-9]+", re.sub(r"\\[nrt]", " ", text.lower())))
