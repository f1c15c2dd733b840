"""A worker process: takes the places of cells on stdin, gives their values on stdout.

The first line it reads is the sweep as JSON, every further line the place of a cell. An answer is
a header (the length, negative for an error in JSON) and that many bytes. The worker ends with
its input, and so with the process that started it.
"""

import json
import os
import struct
import sys
import threading
import time
import traceback

__all__ = ["HEADER", "main"]

HEADER = struct.Struct("<q")


def main() -> None:
    """Answer until the input ends."""
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever prints must not get between the answers
    from attnlaw.sweeps.cells import compute
    from attnlaw.sweeps.grid import Sweep

    sweep = Sweep(**json.loads(sys.stdin.readline()))
    for line in sys.stdin:
        try:
            payload = compute(sweep, int(line)).astype("<f8").tobytes()
            header = HEADER.pack(len(payload))
        except Exception as error:
            text = str(error) if isinstance(error, ValueError) else traceback.format_exc()
            notes = getattr(error, "__notes__", [])
            payload = json.dumps([type(error).__name__, text, notes]).encode()
            header = HEADER.pack(-len(payload))
        try:
            answers.write(header + payload)
            answers.flush()
        except BrokenPipeError:  # nobody listens any more, and so there is nobody to tell
            os._exit(1)


def _end_with(parent: int) -> None:
    """End in the middle of a cell, too, when the process that wants it is gone."""
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)
