"""The `moiety` command as a user runs it: a process of its own, forked from one that has imported it."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from child_processes import END_S, PROCESSES, run_child, start_the_fork_server

from cli.entry import main


def moiety(*arguments: object, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run the command to its end; its output is text."""
    start_the_fork_server()
    command = tuple(map(str, arguments))
    with tempfile.TemporaryDirectory() as folder:
        out, err = Path(folder) / "out", Path(folder) / "err"
        work = (command_in_child, (out, err, os.getcwd(), command, {**os.environ, **environ}))
        process = PROCESSES.Process(target=run_child, args=work)
        process.start()
        process.join(END_S)
        if process.exitcode is None:
            process.kill()
            raise subprocess.TimeoutExpired(command, END_S)
        told = [path.read_text(encoding="utf-8") for path in (out, err)]
        return subprocess.CompletedProcess(command, process.exitcode, *told)


def command_in_child(out: Path, err: Path, folder: str, command: tuple[str, ...], environment: dict[str, str]) -> None:
    """Be the process that the script `moiety` starts."""
    for descriptor, path in ((1, out), (2, err)):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT), descriptor)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = ["moiety", *command]
    main()
