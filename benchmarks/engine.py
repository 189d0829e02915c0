"""What the hybrid engine finds, and how fast.

python -m benchmarks.engine quality --data FOLDER --work FOLDER                  # public development halves
python -m benchmarks.engine quality … --cross-encoder FOLDER                     # and a cross-encoder's order
python -m benchmarks.engine sample --work FOLDER                                 # languages, conversations
python -m benchmarks.engine latency --work FOLDER --passages 10000 100000        # made-up passages

`--data` holds `dev/` and `passages/` (see `benchmarks.engine_data`). Passages are stored once in `--work`;
a broken run is taken up again.
"""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path

from benchmarks.engine_latency import latency
from benchmarks.engine_quality import quality
from benchmarks.engine_sample import sample


def main() -> None:
    """Read the command line and run."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.engine")
    parser.add_argument("part", choices=["quality", "sample", "latency"])
    parser.add_argument("--data", type=Path)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--cross-encoder", type=Path, help="folder of a model to measure beside (quality)")
    parser.add_argument("--passages", type=int, nargs="+", default=[10_000])
    parser.add_argument("--searches", type=int, default=200)
    arguments = parser.parse_args()
    if arguments.part == "quality":
        if arguments.data is None:
            parser.error("quality needs --data")
        asyncio.run(quality(arguments.data, arguments.work, arguments.cross_encoder))
    elif arguments.part == "sample":
        asyncio.run(sample(arguments.work))
    else:
        for passages in arguments.passages:
            asyncio.run(latency(arguments.work, passages, arguments.searches))


if __name__ == "__main__":
    main()
