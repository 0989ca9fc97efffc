"""A local worker process, which ``ProcessPool`` starts: does the tasks that come on standard input,
until it ends.

``python -m dualview.engines.variational.sharded.serving PROCESSES THREADS``
"""

import os
import pickle
import sys
from typing import Any

from threadpoolctl import threadpool_limits

from dualview.engines.variational.sharded import work
from dualview.numerics import parallel


def serve(n_processes: int, n_threads: int) -> None:
    """Answer until nobody asks. What libraries print goes to standard error."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    parallel.limit(n_threads)
    with threadpool_limits(1):
        while True:
            try:
                source, tasks = pickle.load(sys.stdin.buffer)
            except EOFError:
                return
            answer: tuple[list[Any] | None, Exception | None]
            try:
                answer = work.run(source, tasks, n_processes), None
            except Exception as error:
                answer = None, error
            pickle.dump(answer, answers, protocol=pickle.HIGHEST_PROTOCOL)
            answers.flush()


if __name__ == "__main__":
    serve(int(sys.argv[1]), int(sys.argv[2]))
