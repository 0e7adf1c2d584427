"""Runs one prompt with Anthropic's agent library, which drives Claude Code, and prints what came of it.

    python agent_sdk_driver.py PROMPT FOLDER MODE

MODE is `whole`, or `stream` for the pieces of an answer as they come. The output is one JSON object.
"""

import asyncio
import json
import sys

from claude_agent_sdk import (
    AssistantMessage,
    ClaudeAgentOptions,
    ResultMessage,
    StreamEvent,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
    UserMessage,
    query,
)


async def run(prompt, folder, mode):
    options = ClaudeAgentOptions(
        cwd=folder,
        allowed_tools=["Bash", "Read"],
        # Where Custody's hooks and address stand.
        setting_sources=["user"],
        include_partial_messages=mode == "stream",
    )
    seen = {"texts": [], "calls": [], "results": [], "streamed": "", "ended": None}
    async for message in query(prompt=prompt, options=options):
        note(message, seen)
    return seen


def note(message, seen):
    if isinstance(message, StreamEvent):
        seen["streamed"] += message.event.get("delta", {}).get("text", "")
    elif isinstance(message, AssistantMessage):
        seen["texts"] += [block.text for block in message.content if isinstance(block, TextBlock)]
        seen["calls"] += [block.name for block in message.content if isinstance(block, ToolUseBlock)]
    elif isinstance(message, UserMessage) and isinstance(message.content, list):
        results = [block for block in message.content if isinstance(block, ToolResultBlock)]
        seen["results"] += [{"text": str(block.content), "is_error": bool(block.is_error)} for block in results]
    elif isinstance(message, ResultMessage):
        seen["ended"] = message.result


if __name__ == "__main__":
    print(json.dumps(asyncio.run(run(*sys.argv[1:4]))))
