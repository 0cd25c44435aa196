"""What the pages say can be followed: links lead somewhere, commands exist."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from urllib.parse import unquote

import click
import pytest
import tree
from commands import all_commands

_LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)[^)]*\)")
_HEADING = re.compile(r"^#+ +(.+?) *#*$", re.MULTILINE)
_TARGET = re.compile(r"^([a-z-]+):(?!=)", re.MULTILINE)


def anchors(text: str) -> set[str]:
    """The anchors that a page's headings get: lower case, blanks to hyphens, punctuation dropped."""
    plain = (re.sub(r"[`*]|\]\(.*?\)|\[", "", heading) for heading in _HEADING.findall(tree.prose(text)))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in plain}


def dead_links(page: Path) -> list[str]:
    """The relative links of a page that lead nowhere."""
    dead = []
    for link in _LINK.findall(tree.prose(page.read_text())):
        if re.match(r"[a-z]+:", link):
            continue
        file, _, anchor = unquote(link).partition("#")
        target = page.parent / file if file else page
        if not target.exists() or (anchor and target.suffix == ".md" and anchor not in anchors(target.read_text())):
            dead.append(link)
    return dead


def unknown_commands(page_text: str, targets: set[str], commands: dict[str, click.Command]) -> list[str]:
    """The ``make`` and ``tachograph`` lines of a page's shell blocks that nobody could type with success."""
    wrong = []
    for line in tree.shell_lines(page_text):
        for words in _simple_commands(line):
            if words[:1] == ["make"]:
                wrong += [f"make {word}" for word in words[1:] if "=" not in word and word not in targets]
            elif words[:1] == ["tachograph"]:
                wrong += _unknown_words(words, commands)
    return wrong


def _simple_commands(line: str) -> list[list[str]]:
    """The words of each command of a line, without what is set before it; a line that a shell can't read has none."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split, lexer.commenters = True, ""
    simple: list[list[str]] = [[]]
    try:
        for token in lexer:
            if set(token) <= set("|&;"):
                simple.append([])
            elif simple[-1] or not re.fullmatch(r"[A-Z_]+=.*", token):
                simple[-1].append(token)
    except ValueError:
        return []
    return simple


def _unknown_words(words: list[str], commands: dict[str, click.Command]) -> list[str]:
    named = [word for word in words[1:] if not word.startswith("-")]
    name = named[0] if named else ""
    if isinstance(commands.get(name), click.Group) and name:
        name = " ".join(named[:2])
    command = commands.get(name)
    if command is None:
        return [f"tachograph {name}"]
    options = {option for each in (command, commands[""]) for param in each.params for option in param.opts}
    options |= {option for param in command.params for option in param.secondary_opts} | {"--help", "--version"}
    given = [word.partition("=")[0] for word in words[1:] if word.startswith("-") and len(word) > 1]
    return [f"tachograph {name} {option}" for option in given if option not in options]


@pytest.mark.parametrize("page", tree.pages(), ids=lambda page: str(page.relative_to(tree.REPOSITORY)))
def test_every_relative_link_of_a_page_resolves(page: Path) -> None:
    assert dead_links(page) == []


@pytest.mark.parametrize("page", tree.pages(), ids=lambda page: str(page.relative_to(tree.REPOSITORY)))
def test_every_command_that_a_page_shows_can_be_typed(page: Path) -> None:
    targets = set(_TARGET.findall((tree.REPOSITORY / "Makefile").read_text()))
    assert unknown_commands(page.read_text(), targets, all_commands()) == []


def test_the_readme_shows_the_two_commands() -> None:
    lines = tree.shell_lines((tree.REPOSITORY / "README.md").read_text())
    assert "make demo" in lines
    assert "make test" in lines


def test_every_top_level_folder_says_what_belongs_there() -> None:
    folders = {path.relative_to(tree.REPOSITORY).parts[0] for path in tree.files()}
    named = {name for name in folders if (tree.REPOSITORY / name).is_dir() and not name.startswith(".")}
    silent = [name for name in sorted(named) if not (tree.REPOSITORY / name / "README.md").exists()]
    assert silent == []


def test_dead_links_are_found_and_code_and_comments_are_not_links(tmp_path: Path) -> None:
    (tmp_path / "there.md").write_text("# A `code` heading, with 2 words\n")
    page = tmp_path / "page.md"
    page.write_text(
        "[a](there.md) [b](there.md#a-code-heading-with-2-words) [c](#own) [d](https://example.org/x)\n"
        "[e](gone.md) ![f](gone.png 'title') [g](there.md#gone)\n\n# Own\n"
        "<!-- [h](gone2.md) -->\n```\n[i](gone3.md)\n```\n"
    )
    assert dead_links(page) == ["gone.md", "gone.png", "there.md#gone"]


def test_commands_that_nobody_could_type_are_found() -> None:
    replay = click.Command("replay", params=[click.Option(["--json/--no-json"]), click.Option(["-o", "--output"])])
    commands = {"": click.Group("tachograph"), "replay": replay}
    page = (
        "```console\n$ make demo && make X=1 dmeo\nit's what make prints\n"
        "$ zcat LOG | tachograph replay - --json --no-json -o FILE | jq '.runs[] | {run}'\n"
        "$ TACHOGRAPH_RUN=x tachograph replay LOG --jsno  # a slip\n$ tachograph rpelay LOG\n```\n"
        "```python\ntachograph = 1\n```\n"
    )
    assert unknown_commands(page, {"demo"}, commands) == ["make dmeo", "tachograph replay --jsno", "tachograph rpelay"]
