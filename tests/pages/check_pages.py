"""Pages keep what they promise: every relative link leads to a file, and to a heading where it names one; the front
page stays short; the index of mechanisms names each of its pages; no paragraph has a line over 120 columns."""
import os
import re
import sys

LEFT_OUT = {"build", ".git", "node_modules", "self", "carried"}
LONGEST_FRONT_PAGE = 160
COLUMNS = 120


def pages(root):
    for folder, folders, files in os.walk(root):
        folders[:] = [f for f in folders if f not in LEFT_OUT and not f.startswith("build")]
        for name in sorted(files):
            if name.endswith(".md"):
                yield os.path.join(folder, name)


def outside_code(text):
    """(number, line) of the lines that are no code block's."""
    code = False
    for number, line in enumerate(text.split("\n"), 1):
        if line.lstrip().startswith("```"):
            code = not code
        elif not code:
            yield number, line


def anchors(path):
    """As GitHub makes them: small letters, hyphens for spaces, no other punctuation."""
    out = set()
    with open(path, encoding="utf-8") as file:
        for _, line in outside_code(file.read()):
            if line.startswith("#"):
                title = line.lstrip("#").strip().lower()
                out.add(re.sub(r"[^\w\- ]", "", title).replace(" ", "-"))
    return out


def broken_links(path, text):
    prose = "\n".join(line for _, line in outside_code(text))
    for target in re.findall(r"\]\(([^)\s]+)\)", prose):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, heading = target.partition("#")
        file = os.path.normpath(os.path.join(os.path.dirname(path), name)) if name else path
        if not os.path.exists(file):
            yield f"no such file: {target}"
        elif heading and heading not in anchors(file):
            yield f"no such heading: {target}"


def long_lines(text):
    for number, line in outside_code(text):
        if len(line) > COLUMNS and not line.startswith(("|", "    ")) and " " in line.strip()[:COLUMNS]:
            yield f"line {number} has {len(line)} columns"


def main(root):
    wrong = []
    for path in pages(root):
        shown = os.path.relpath(path, root)
        with open(path, encoding="utf-8") as file:
            text = file.read()
        wrong += [f"{shown}: {what}" for what in broken_links(path, text)]
        if not shown.endswith("SOURCES.md") and not shown.endswith("ACCURACY.md"):
            wrong += [f"{shown}: {what}" for what in long_lines(text)]
    with open(os.path.join(root, "README.md"), encoding="utf-8") as file:
        lines = len(file.read().split("\n")) - 1
    if lines > LONGEST_FRONT_PAGE:
        wrong.append(f"README.md: {lines} lines, {LONGEST_FRONT_PAGE} at most")
    mechanisms = os.path.join(root, "core", "price", "mechanisms")
    with open(os.path.join(mechanisms, "README.md"), encoding="utf-8") as file:
        index = file.read()
    wrong += [f"core/price/mechanisms/README.md: does not name {name}" for name in sorted(os.listdir(mechanisms))
              if name != "README.md" and f"({name})" not in index]
    print("\n".join(wrong) or "pages: links, lengths and the index of mechanisms are right")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else "."))
