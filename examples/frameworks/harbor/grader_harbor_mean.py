# /// script
# dependencies = []
# ///
"""Harbor's mean without what is unscored, which its own counts as 0. Harbor runs this file: -i REWARDS -o METRIC."""

import argparse
import json
from pathlib import Path


def mean_of_scored(lines: list[str]) -> dict[str, float]:
    """Return the mean of the rewards that there are, and the numbers of both kinds. lines: an object of rewards, or null, in each."""
    rewards = [json.loads(line) for line in lines]
    scored = [reward["reward"] for reward in rewards if reward is not None]
    mean = {"mean_of_scored": sum(scored) / len(scored)} if scored else {}
    return mean | {"scored": len(scored), "unscored": len(rewards) - len(scored)}


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("-i", "--input-path", type=Path, required=True)
    parser.add_argument("-o", "--output-path", type=Path, required=True)
    options = parser.parse_args()
    options.output_path.write_text(json.dumps(mean_of_scored(options.input_path.read_text("utf-8").splitlines())), "utf-8")
