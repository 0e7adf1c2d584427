"""Runs the official Python client against the server it is told, and prints what each step returned."""

import asyncio
import json
import sys

from mcp import Client, StdioServerParameters


async def step(client, entry: dict):
    match entry["do"]:
        case "tools":
            return await client.list_tools()
        case "prompts":
            return await client.list_prompts()
        case "resources":
            return await client.list_resources()
        case "prompt":
            return await client.get_prompt(entry["name"], entry.get("arguments"))
        case "read":
            return await client.read_resource(entry["uri"])
        case "call":
            return await client.call_tool(entry["name"], entry.get("arguments", {}))


async def perform(client, entry: dict):
    try:
        return (await step(client, entry)).model_dump(mode="json", by_alias=True, exclude_none=True)
    except Exception as error:
        return {"raised": type(error).__name__, "says": str(error)}


async def main() -> None:
    told = json.load(sys.stdin)
    program, *arguments = told["command"]
    server = StdioServerParameters(command=program, args=arguments, env=told["env"])
    async with Client(server, mode=told["mode"], read_timeout_seconds=60) as client:
        results = [await perform(client, entry) for entry in told["steps"]]
    print(json.dumps(results))


asyncio.run(main())
