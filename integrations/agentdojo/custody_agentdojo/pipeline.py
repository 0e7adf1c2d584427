"""Custody in AgentDojo's pipeline, around any model.

    llm ── calls ──▶ CustodyToolsExecutor ── propose ──▶ gate
                            │ allow: run the call that the gate returned, record its output
                            └ ask, deny: the model reads the gate's short text instead

`custody_pipeline` assembles what AgentDojo's documentation assembles by hand, with Custody's
executor in the place of AgentDojo's.
"""

from __future__ import annotations

from ast import literal_eval
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from agentdojo.agent_pipeline import AgentPipeline, InitQuery, SystemMessage, ToolsExecutionLoop
from agentdojo.agent_pipeline.agent_pipeline import load_system_message
from agentdojo.agent_pipeline.base_pipeline_element import BasePipelineElement
from agentdojo.agent_pipeline.tool_execution import is_string_list, tool_result_to_str
from agentdojo.functions_runtime import (
    EmptyEnv,
    Env,
    Function,
    FunctionCall,
    FunctionReturnType,
    FunctionsRuntime,
)
from agentdojo.types import (
    ChatMessage,
    ChatToolResultMessage,
    get_text_content_as_str,
    text_content_block_from_string,
)
from pydantic import BaseModel

from custody_agentdojo.gate import Call, Channel, Decision, Gate, GateError, Id, Kind, Reasons

Approver = Callable[[str, Mapping[str, Any]], bool]
Formatter = Callable[[FunctionReturnType], str]

EXTRA_ARG = "custody"
"""Where the session travels, among the pipeline's extra arguments."""

OBSERVED_AS: dict[str, tuple[Kind, Channel]] = {
    "system": ("message", "system"),
    "user": ("message", "user"),
    "assistant": ("completion", "model"),
    "tool": ("tool_output", "tool"),
}
"""How a message of each role enters the context. A tool message is seen here only if somebody else
ran the tool: the executor's own outputs are recorded as results of their calls."""


@dataclass(frozen=True)
class Blocked:
    """A call that was proposed and did not run."""

    call: Call
    decision: str
    reasons: Reasons


@dataclass
class Session:
    """One conversation under the gate, and what became of its calls."""

    id: Id
    observed: int = 0
    """How many messages of the conversation the gate has recorded."""
    fates: list[FunctionCall | None] = field(default_factory=list)
    """For each call the model made, in order: the call that ran in its place, if any."""
    has_declared: bool = False
    """Whether the task's intents were declared."""
    proposed: int = 0
    asked: set[Id] = field(default_factory=set)
    """Requests for approval. A repeated `ask` under one proposal is one request."""
    blocked: list[Blocked] = field(default_factory=list)


class CustodyToolsExecutor(BasePipelineElement):
    """Runs the model's calls that the gate allows. Replaces AgentDojo's `ToolsExecutor`.

    Args:
        gate: what decides.
        approver: whom the measured harness asks when the gate says `ask`. Without one, and under
            every gate but that harness, an `ask` is final until a human approves elsewhere.
        suite: the suite whose manifest the measured harness is to use.
        tool_output_formatter: as in AgentDojo's executor.
        wanted: the tools that the user's task needs, for the measured harness's perfect tool filter.
        intents: the calls that the task means to make, declared right after the user's message.
    """

    def __init__(
        self,
        gate: Gate,
        approver: Approver | None = None,
        suite: str | None = None,
        tool_output_formatter: Formatter = tool_result_to_str,
        wanted: Sequence[str] | None = None,
        intents: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        self._gate = gate
        self._approver = approver
        self._suite = suite
        self._wanted = wanted
        self._intents = intents
        self._format = tool_output_formatter

    def query(
        self,
        query: str,
        runtime: FunctionsRuntime,
        env: Env = EmptyEnv(),
        messages: Sequence[ChatMessage] = [],
        extra_args: dict = {},
    ) -> tuple[str, FunctionsRuntime, Env, Sequence[ChatMessage], dict]:
        calls = _calls_to_run(messages)
        if not calls:
            return query, runtime, env, messages, extra_args
        session = self.up_to_date(runtime, messages, extra_args)
        results = [self._result(session, runtime, env, call) for call in calls]
        session.observed += len(results)
        # A new dictionary: AgentDojo's default argument is one object shared by every run.
        return query, runtime, env, [*messages, *results], {**extra_args, EXTRA_ARG: session}

    def up_to_date(
        self, runtime: FunctionsRuntime, messages: Sequence[ChatMessage], extra_args: Mapping[str, Any]
    ) -> Session:
        """The conversation's session, opened if need be, with every message recorded once."""
        session = extra_args.get(EXTRA_ARG) or self._open(runtime)
        for message in messages[session.observed :]:
            text = _text(message)
            if text:
                kind, channel = OBSERVED_AS[message["role"]]
                self._gate.observe(session.id, kind, channel, text)
                if message["role"] == "user" and self._intents and not session.has_declared:
                    self._gate.intend(session.id, self._intents)
                    session.has_declared = True
        session.observed = len(messages)
        return session

    def close(self, session: Session) -> None:
        self._gate.close(session.id)

    def _open(self, runtime: FunctionsRuntime) -> Session:
        session = Session(self._gate.open(suite=self._suite, wanted=self._wanted))
        self._gate.tools(session.id, [_declaration(tool) for tool in runtime.functions.values()])
        return session

    def _result(
        self, session: Session, runtime: FunctionsRuntime, env: Env, made: FunctionCall
    ) -> ChatToolResultMessage:
        """What the model reads for one of its calls, whether it ran or not."""
        refusal = _refusal_before_the_gate(runtime, made)
        if refusal is not None:
            session.fates.append(None)
            return _message(made, made, "", refusal)
        decision = self._decide(session, Call(made.function, _with_lists(made.args)))
        if decision.call is None:
            session.fates.append(None)
            return _message(made, made, "", decision.reasons.model or "This call was not allowed.")
        return self._run(session, runtime, env, made, decision)

    def _decide(self, session: Session, call: Call) -> Decision:
        session.proposed += 1
        try:
            decision = self._gate.propose(session.id, call)
        except GateError as error:
            # What the gate cannot read, such as an integer above 2^53, it cannot have allowed.
            decision = Decision("deny", "", reasons=Reasons(audit=(str(error),)))
        if decision.verdict == "ask":
            session.asked.add(decision.proposal)
            if self._approver is not None and self._approver(call.tool, call.arguments):
                self._gate.approve(session.id, decision.proposal)
                decision = self._gate.decide(session.id, decision.proposal)
        if decision.call is None:
            session.blocked.append(Blocked(call, decision.verdict, decision.reasons))
        return decision

    def _run(
        self,
        session: Session,
        runtime: FunctionsRuntime,
        env: Env,
        made: FunctionCall,
        decision: Decision,
    ) -> ChatToolResultMessage:
        """Runs the call that was decided, not the one that was made."""
        allowed = FunctionCall(function=decision.call.tool, args=dict(decision.call.arguments), id=made.id)
        session.fates.append(allowed)
        output, error = runtime.run_function(env, allowed.function, allowed.args)
        text = self._format(output)
        recorded = text if error is None else error
        structured = None if error is not None else _structured(output)
        failed = error is not None
        read = self._gate.result(session.id, decision.proposal, recorded, failed, structured)
        if read != recorded:
            return _message(made, allowed, read, None)
        return _message(made, allowed, text, error)


class EndSession(BasePipelineElement):
    """Records the last completion, closes the session, and leaves in the messages only what ran.

    AgentDojo judges some tasks by the calls it finds in the assistant's messages, where a refused
    call stands like any other. Without this element, being refused would count as having done it.

    Args:
        executor: the one that stands in the same pipeline.
        on_end: receives the session, for whoever counts.
    """

    def __init__(
        self, executor: CustodyToolsExecutor, on_end: Callable[[Session], None] | None = None
    ) -> None:
        self._executor = executor
        self._on_end = on_end

    def query(
        self,
        query: str,
        runtime: FunctionsRuntime,
        env: Env = EmptyEnv(),
        messages: Sequence[ChatMessage] = [],
        extra_args: dict = {},
    ) -> tuple[str, FunctionsRuntime, Env, Sequence[ChatMessage], dict]:
        session = self._executor.up_to_date(runtime, messages, extra_args)
        self._executor.close(session)
        if self._on_end is not None:
            self._on_end(session)
        rest = {name: value for name, value in extra_args.items() if name != EXTRA_ARG}
        return query, runtime, env, only_executed(messages, session.fates), rest


def custody_pipeline(
    llm: BasePipelineElement,
    gate: Gate,
    *,
    system_message: str | None = None,
    approver: Approver | None = None,
    suite: str | None = None,
    wanted: Sequence[str] | None = None,
    intents: Sequence[Mapping[str, Any]] = (),
    max_iters: int = 15,
    on_end: Callable[[Session], None] | None = None,
) -> AgentPipeline:
    """AgentDojo's usual pipeline, with every call decided by `gate` before it runs."""
    executor = CustodyToolsExecutor(gate, approver, suite, wanted=wanted, intents=intents)
    pipeline = AgentPipeline(
        [
            SystemMessage(system_message or load_system_message(None)),
            InitQuery(),
            llm,
            ToolsExecutionLoop([executor, llm], max_iters),
            EndSession(executor, on_end),
        ]
    )
    # AgentDojo's attacks look for the model's name in the pipeline's.
    pipeline.name = f"{llm.name}-custody" if llm.name else None
    return pipeline


def only_executed(messages: Sequence[ChatMessage], fates: Sequence[FunctionCall | None]) -> list[ChatMessage]:
    """The messages with each call replaced by the one that ran in its place, or left out."""
    # Calls of a last message that the loop no longer ran have no fate, and are left out too.
    remaining = iter(fates)
    return [_executed(message, remaining) for message in messages]


def _executed(message: ChatMessage, fates: Iterator[FunctionCall | None]) -> ChatMessage:
    if message["role"] != "assistant" or not message["tool_calls"]:
        return message
    ran = [fate for _, fate in zip(message["tool_calls"], fates, strict=False) if fate is not None]
    return {**message, "tool_calls": ran}


def _structured(output: FunctionReturnType) -> Any:
    """The output as JSON, if it is an object of AgentDojo's or a list of them."""
    if isinstance(output, BaseModel):
        return output.model_dump(mode="json")
    if isinstance(output, list) and output and all(isinstance(item, BaseModel) for item in output):
        return [item.model_dump(mode="json") for item in output]
    return None


def _calls_to_run(messages: Sequence[ChatMessage]) -> Sequence[FunctionCall]:
    if not messages or messages[-1]["role"] != "assistant":
        return []
    return messages[-1]["tool_calls"] or []


def _refusal_before_the_gate(runtime: FunctionsRuntime, call: FunctionCall) -> str | None:
    if call.function not in runtime.functions:
        return f"Invalid tool {call.function} provided."
    # AgentDojo runs a call that stands in an argument by itself, which nobody would have decided.
    if _holds_a_call(call.args):
        return "A call inside an argument is not run. Make the inner call first, by itself."
    return None


def _holds_a_call(value: Any) -> bool:
    if isinstance(value, Mapping):
        return any(_holds_a_call(inner) for inner in value.values())
    if isinstance(value, list):
        return any(_holds_a_call(inner) for inner in value)
    return isinstance(value, FunctionCall)


def _with_lists(args: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments with lists that a model wrote as strings read as lists, as AgentDojo does."""
    return {
        name: literal_eval(value) if isinstance(value, str) and is_string_list(value) else value
        for name, value in args.items()
    }


def _message(made: FunctionCall, shown: FunctionCall, text: str, error: str | None) -> ChatToolResultMessage:
    return ChatToolResultMessage(
        role="tool",
        content=[text_content_block_from_string(text)],
        tool_call_id=made.id,
        tool_call=shown,
        error=error,
    )


def _declaration(tool: Function) -> dict[str, Any]:
    return {
        "name": tool.name,
        "description": tool.description,
        "inputSchema": _schema(tool.parameters),
    }


@cache
def _schema(parameters: type[BaseModel]) -> dict[str, Any]:
    return parameters.model_json_schema()


def _text(message: ChatMessage) -> str:
    content = get_text_content_as_str(message["content"] or [])
    if message["role"] != "tool":
        return content
    return "\n".join(part for part in (content, message["error"]) if part)
