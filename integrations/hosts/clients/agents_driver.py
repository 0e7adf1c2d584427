"""Runs a plan with OpenAI's agent library, which runs the calls of its model itself, and prints what came of it."""

import asyncio
import json

import agents
import driver
import openai
from agents import Agent, FunctionTool, OpenAIResponsesModel, Runner


class Agents(driver.Driver):
    library_error = openai.OpenAIError

    def __init__(self, base_url, headers):
        super().__init__(None)
        self.base_url, self.headers = base_url, headers

    def agent(self, entry):
        """One agent for each entry, with tools that write down that they ran."""
        return asyncio.run(self.run_agent(entry))

    async def run_agent(self, entry):
        ran = []
        client = openai.AsyncOpenAI(
            api_key="sk-dummy", base_url=self.base_url, default_headers=self.headers, max_retries=0
        )
        agent = Agent(
            name="scripted",
            model=OpenAIResponsesModel(model="gpt-scripted", openai_client=client),
            tools=[tool_of(tool, entry, ran) for tool in driver.TOOLS],
        )
        prompt = driver.prompt(entry)[0]["content"]
        if entry.get("stream"):
            run = Runner.run_streamed(agent, prompt)
            kinds = [event.type async for event in run.stream_events()]
            return {"text": run.final_output, "ran": ran, "events": len(kinds)}
        run = await Runner.run(agent, prompt)
        return {"text": run.final_output, "ran": ran}


def tool_of(tool, entry, ran):
    async def invoke(_, arguments):
        ran.append([tool["name"], json.loads(arguments)])
        return entry["result"] if tool["name"] == "Read" else "It ran."

    return FunctionTool(
        name=tool["name"],
        description=tool["description"],
        params_json_schema=driver.SCHEMA,
        on_invoke_tool=invoke,
        strict_json_schema=False,
    )


if __name__ == "__main__":
    agents.set_tracing_disabled(True)
    driver.main(Agents)
