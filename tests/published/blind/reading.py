"""Reads what a source published without showing the measured values.

A source is a git repository at a commit. Its files are read from the repository itself, so that no table need be looked
at; `masked` hides every digit of a text that is to be shown.
"""
import csv
import html
import io
import re
import subprocess


class Clone:
    """A repository on this machine, bare or not, at one commit."""

    def __init__(self, git_dir, commit):
        self.git_dir, self.commit = git_dir, commit

    def _git(self, *words):
        done = subprocess.run(["git", f"--git-dir={self.git_dir}", *words], capture_output=True)
        if done.returncode != 0:
            raise FileNotFoundError(f"{' '.join(words)}: {done.stderr.decode().strip()}")
        return done.stdout.decode("utf-8", "replace")

    def text(self, path):
        return self._git("show", f"{self.commit}:{path}")

    def hash(self, path):
        """Git's hash of a file: the same for the same content."""
        return self._git("rev-parse", f"{self.commit}:{path}").strip()

    def files(self, folder=""):
        """Paths of all files below `folder`, in the order of their names."""
        where = [folder] if folder else []
        return self._git("ls-tree", "-r", "--name-only", self.commit, *where).splitlines()


def masked(text):
    """`text` with # for every digit."""
    return re.sub(r"[0-9]", "#", text)


def number(cell):
    """The first number of a cell, such as 1234.5 of "1,234.5 img/s"; None where there is none."""
    found = re.search(r"[0-9]+(\.[0-9]+)?", cell.replace(",", ""))
    return float(found.group()) if found else None


def plain(cell):
    """A cell without tags, links and footnote marks: "NGC PyTorch bsz=96"."""
    cell = re.sub(r"<sup>.*?</sup>", "", cell)
    cell = re.sub(r"<br\s*/?>", " ", cell)
    cell = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", cell)
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", cell)).split())


def markdown_tables(text):
    """Every pipe table as (headings above it, outermost first; names of columns; rows of (line, cells))."""
    headings, table = {}, None
    for at, line in enumerate([*text.splitlines(), ""], 1):
        title = re.match(r"(#+)\s+(.*)", line)
        if title:
            depth = len(title.group(1))
            headings = {level: name for level, name in headings.items() if level < depth}
            headings[depth] = title.group(2).strip()
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")] if "|" in line else None
        if cells is None:
            if table and table[2]:
                yield table
            table = None
        elif table is None:
            table = ([headings[level] for level in sorted(headings)], [plain(cell) for cell in cells], [])
        elif not all(re.fullmatch(r":?-+:?", cell) for cell in cells):
            table[2].append((at, cells))


def csv_rows(text):
    """Rows of a CSV as (line, {column: cell})."""
    reader = csv.DictReader(io.StringIO(text))
    return [(reader.line_num, row) for row in reader]
