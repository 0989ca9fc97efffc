"""Results by their tasks in a file, from which a run that was stopped continues."""

import json
from dataclasses import asdict
from pathlib import Path

from benchmarks.profiles.fits import Result, Task
from dualview.files.writing import make_folder, write_whole


class Records:
    """Results that are kept; in memory alone without a file, which is whole at any time."""

    def __init__(self, path: Path | None = None) -> None:
        self.path = path
        self.found: dict[Task, Result] = {}
        if path is None:
            return
        make_folder(path.parent)
        for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
            content = json.loads(line)
            content["result"]["inside"] = tuple(content["result"]["inside"])
            self.found[Task(**content["task"])] = Result(**content["result"])

    def add(self, task: Task, result: Result) -> None:
        """Keep a result."""
        self.found[task] = result
        if self.path is not None:
            lines = [
                json.dumps({"task": asdict(task), "result": asdict(result)}) + "\n"
                for task, result in self.found.items()
            ]
            write_whole(self.path, "".join(lines).encode())
