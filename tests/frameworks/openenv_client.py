"""For OpenEnv's environment: answers each of its tasks by the list, in a session of its own, and prints a line for each."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

from openenv.core.generic_client import GenericEnvClient

sys.path.append(str(Path(__file__).parents[2] / "examples/frameworks"))
import scripted_model


async def episode(url: str, problem: str) -> dict[str, object]:
    async with GenericEnvClient(base_url=url, message_timeout_s=600) as client:
        await client.reset(problem=problem)
        try:
            result = await client.step({"answer": scripted_model.answer(problem)})
        except RuntimeError as error:
            return {"problem": problem, "error": str(error)}
        return {"problem": problem, "reward": result.reward, "verdict": result.observation["verdict"]}


async def main(url: str) -> None:
    problems = scripted_model.ANSWERS["right"] | scripted_model.ANSWERS["wrong"]
    for line in await asyncio.gather(*(episode(url, problem) for problem in problems)):
        print(json.dumps(line))


asyncio.run(main(sys.argv[1]))
