"""Starts and stops programs on one core, and reads their CPU time, memory and descriptors from /proc."""

import os
import signal
import socket
import subprocess
import time
from pathlib import Path

START_SECONDS_MAX = 120
STOP_SECONDS_MAX = 10
TICKS = os.sysconf("SC_CLK_TCK")


class Failed(Exception):
    """A program did not start, or ended early."""


class Program:
    """A program with its children, in a process group of its own."""

    started: list["Program"] = []

    def __init__(self, name: str, command: list[str], folder: Path, core: int, environment: dict | None = None):
        self.name = name
        self.log = folder / f"{name}.log"
        with open(self.log, "w") as log:
            # The kernel ends the program if this process is killed.
            self.process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "TERM", "taskset", "-c", str(core), *command], cwd=folder, stdin=subprocess.PIPE, stdout=log, stderr=log,
                env=os.environ | (environment or {}), start_new_session=True,
            )
        Program.started.append(self)

    def wait_for_port(self, port: int) -> None:
        """Waits until the program accepts connections."""
        deadline = time.monotonic() + START_SECONDS_MAX
        while time.monotonic() < deadline and self.process.poll() is None:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                return
            except OSError:
                time.sleep(0.05)
        raise Failed(f"{self.name} did not start:\n{self.log_end()}")

    def wait_for_line(self, marker: str) -> str:
        """Waits for a line of output with this text and returns it."""
        deadline = time.monotonic() + START_SECONDS_MAX
        while time.monotonic() < deadline:
            lines = self.log.read_text(errors="replace").splitlines()
            found = next((line for line in lines if marker in line), None)
            if found:
                return found
            if self.process.poll() is not None:
                break
            time.sleep(0.05)
        raise Failed(f"{self.name} did not start:\n{self.log_end()}")

    def log_end(self) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-12:])

    def stop(self) -> None:
        """Ends the program and its children. A program that ignores SIGTERM is killed."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(self.process.pid, number)
                self.process.wait(STOP_SECONDS_MAX)
            except (ProcessLookupError, subprocess.TimeoutExpired):
                continue
        self.process.stdin.close()

    @classmethod
    def stop_all(cls) -> None:
        for program in reversed(cls.started):
            program.stop()
        cls.started.clear()

    def pids(self) -> list[int]:
        """Returns the program and its descendants."""
        parents = {}
        for entry in Path("/proc").iterdir():
            fields = stat(entry.name) if entry.name.isdigit() else None
            if fields:
                parents[int(entry.name)] = int(fields[1])
        found = [self.process.pid]
        for pid in found:
            found.extend(child for child, parent in parents.items() if parent == pid)
        return found

    def cpu_seconds(self) -> float:
        fields = [stat(pid) for pid in self.pids()]
        # Children that have ended count with their parent.
        return sum(sum(map(int, found[11:15])) for found in fields if found) / TICKS

    def resident_mib(self) -> float:
        return sum(resident_kib(pid) for pid in self.pids()) / 1024

    def descriptors(self) -> int:
        return sum(len(os.listdir(f"/proc/{pid}/fd")) for pid in self.pids())


def stat(pid: int | str) -> list[str] | None:
    """Returns the fields of /proc/PID/stat behind the name, or None if the process has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return None


def resident_kib(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("VmRSS:")), 0)


def busy_seconds(core: int) -> float:
    """Returns the time that a core was not idle."""
    line = next(line for line in Path("/proc/stat").read_text().splitlines() if line.startswith(f"cpu{core} "))
    user, nice, system, _, _, *interrupts = map(int, line.split()[1:8])
    return (user + nice + system + sum(interrupts)) / TICKS


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
