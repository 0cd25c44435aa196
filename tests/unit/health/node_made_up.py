"""What tests of health share: a made-up kernel log, processes, and runs of a check's looks without threads."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from tachograph_agent.health.finding import Finding
from tachograph_agent.health.kernel_log import KernelLog
from tachograph_agent.health.runner import Health

T0 = 1_900_000_000.0
XID = "NVRM: Xid (PCI:0000:3b:00): {}, pid=77, name=python, made up"


def at_once(work: Callable[[], None]) -> None:
    """Instead of a thread."""
    work()


class Says:
    """A check that finds what it is told to at each look: findings, or an exception that it raises."""

    timeout_s = 10.0

    def __init__(self, *looks: Iterable[Finding] | BaseException, name: str = "made", every_s: float = 1.0) -> None:
        self.name = name
        self.every_s = every_s
        self.looks = list(looks)
        self.num_looks = 0
        self.num_settled = 0

    def look(self) -> Iterable[Finding]:
        self.num_looks += 1
        found = self.looks.pop(0) if self.looks else []
        if isinstance(found, BaseException):
            raise found
        return found

    def settle(self) -> None:
        self.num_settled += 1


def run(health: Health, num_looks: int, begin_s: float = 0.0, every_s: float = 1.0) -> list[list[dict[str, object]]]:
    """What is told at each of so many turns."""
    return [health.run_due(begin_s + number * every_s) for number in range(num_looks)]


class Kernel:
    """A kernel's log as a file, and a machine that can be booted anew. The clock stands at ``now_s`` past ``T0``."""

    def __init__(self, folder: Path) -> None:
        self.device = folder / "kmsg"
        self.boot_id = folder / "boot_id"
        self.state = folder / "state"
        self.state.mkdir()
        self.now_s = 1000.0
        self.boot("b1")

    def boot(self, boot_id: str) -> None:
        """Begin anew: another boot id, an empty log, numbers from 0."""
        self.boot_id.write_text(boot_id + "\n")
        self.device.write_bytes(b"")
        self.number = 0

    def say(self, *texts: str, facility: int = 0, since_boot_s: float = 5.0) -> None:
        """Add a record for each text."""
        with self.device.open("a") as file:
            for text in texts:
                file.write(f"{facility * 8 + 4},{self.number},{int(since_boot_s * 1e6)},-;{text}\n SUBSYSTEM=made\n")
                self.number += 1

    def check(self) -> KernelLog:
        """The check of an agent that has just started."""
        return KernelLog(self.state, self.device, self.boot_id, lambda: T0 + self.now_s)
