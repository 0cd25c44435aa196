"""The answer in a sentence, the same in the terminal and on the page."""

from __future__ import annotations

from tachograph_collector.ledger.books import Books
from tachograph_collector.report.model import RunReport
from tachograph_collector.report.text import count, duration, hours, instant, joined, percent, visible


def headline(run: RunReport) -> str:
    """``78.4 % of 3 d 4 h was kept; 11.2 h lost to 4 failures, 3.1 h restarting, 0.9 h saving.``"""
    books = run.books
    if not books.wall_us:
        return "Nothing to book: the run has no length."
    kept, wall = percent(books.goodput), duration(books.wall_us)
    within = " within the window" if run.window is not None else ""
    so_far = " so far" if books.status == "running" and not within else ""
    first = f"{kept} of {wall}{within} was kept{so_far}"
    lost, restart, saving = (books.accounts_us[account] for account in ("lost", "restart", "checkpoint"))
    rest = [f"{hours(lost)} lost{_to(books)}"] if lost else ["nothing lost"]
    rest += [f"{hours(restart)} restarting"] if restart else []
    rest += [f"{hours(saving)} saving"] if saving else []
    return f"{first}; {', '.join(rest)}."


def _to(books: Books) -> str:
    causes = [count(books.num_failures, "failure")] if books.num_failures else []
    causes += [count(books.num_rollbacks, "rollback")] if books.num_rollbacks else []
    causes += [count(books.num_unexplained_stops, "unexplained stop")] if books.num_unexplained_stops else []
    return f" to {joined(causes)}" if causes else ""


def run_line(run: RunReport) -> str:
    """Whose run, what became of it, when, and how many attempts it took."""
    books = run.books
    start, end = instant(books.start_us), instant(books.end_us)
    if start[:10] == end[:10]:
        end = end[11:]
    when = f"{start} to {end} UTC" if run.has_clock else "no clock in this log: durations only"
    parts = [visible(books.run or "(no name)", 80), books.status, when, count(books.num_attempts, "attempt")]
    if run.steps is not None:
        parts.append(count(run.steps, "step"))
    if books.world_size is not None:
        parts.append(count(books.world_size, "GPU"))
    if run.window is not None:
        parts.append("only what lies within the window")
    return " · ".join(parts)


def cause_words(category: str | None) -> str:
    """A failure's category or a rollback's reason for people: ``gpu memory``; None is ``unknown``."""
    return visible(category or "unknown", 40).replace("_", " ")
