"""A script for psql, as a sequence of statements and of psql's own commands.

    select 1; \\set name 'a b'
    copy t from stdin;      the lines up to \\. are read when the statement runs, if it asks for them
    ...

Left out: commands that show objects (\\d and others) are skipped, because they are psql's own statements."""

import re

VARIABLE = re.compile(r""":(?:'(\w+)'|"(\w+)"|(\w+))""")
DOLLAR = re.compile(r"\$(?:[A-Za-z_\x80-\U0010ffff][\w\x80-\U0010ffff]*)?\$")
# Commands that send the statement before them, beside a semicolon.
SENDS = {"g", "gx", "gset", "gexec", "gdesc", "crosstabview", "bind"}


class Script:
    """Reads a script from its beginning; `part` is the next one, until it is None."""

    def __init__(self, text):
        self.text, self.at = text, 0

    def line(self):
        """The rest of this line."""
        end = self.text.find("\n", self.at)
        end = len(self.text) if end < 0 else end
        line, self.at = self.text[self.at:end], end + 1
        return line

    def data(self):
        """The lines up to the end marker."""
        lines = []
        while self.at < len(self.text):
            line = self.line()
            if line == "\\.":
                break
            lines.append(line + "\n")
        return "".join(lines)

    def part(self):
        """(statement, command): each may be empty. A statement is a list of its text, and of variables in it as
        (quote, name, text). None at the end."""
        found, self.plain, depth = [], [], 0
        # CREATE FUNCTION .. BEGIN ATOMIC .. END contains semicolons.
        words, begun = [], 0
        text = self.text
        while self.at < len(text):
            sign = text[self.at]
            if sign == "'":
                is_escaped = self.plain and self.plain[-1][-1:] in "eE"
                self.quoted(r"'(?:[^'\\]|\\.|'')*'" if is_escaped else r"'(?:[^']|'')*'")
            elif sign == '"':
                self.quoted(r'"[^"]*"')
            elif text.startswith("--", self.at):
                self.quoted(r"--[^\n]*")
            elif text.startswith("/*", self.at):
                self.comment()
            elif sign == "$" and (tag := DOLLAR.match(text, self.at)):
                end = text.find(tag[0], tag.end())
                end = len(text) if end < 0 else end + len(tag[0])
                self.take(end)
            elif sign == "\\":
                if text.startswith("\\;", self.at):
                    self.at += 2
                    self.plain.append(";")
                    continue
                return self.command(found)
            elif sign == ":" and not text.startswith("::", self.at) and (name := VARIABLE.match(text, self.at)):
                found += ["".join(self.plain), named(name)]
                self.plain = []
                self.at = name.end()
            elif text.startswith("::", self.at):
                self.take(self.at + 2)
            elif sign.isalpha() or sign == "_":
                word = re.compile(r"[\w$]+").match(text, self.at)
                self.take(word.end())
                words.append(word[0].lower())
                if words[0] == "create" and ("function" in words[:4] or "procedure" in words[:4]):
                    begun += words[-1] in ("begin", "case")
                    begun -= words[-1] == "end" and begun > 0
            elif sign == ";" and depth == 0 and begun == 0:
                self.at += 1
                found.append("".join(self.plain))
                if "".join(map(str, found)).strip():
                    return found, ""
                found, self.plain, words = [], [], []
            else:
                depth = max(0, depth + {"(": 1, ")": -1}.get(sign, 0))
                self.take(self.at + 1)
        return None

    def take(self, end):
        self.plain.append(self.text[self.at:end])
        self.at = end

    def quoted(self, pattern):
        found = re.compile(pattern, re.DOTALL).match(self.text, self.at)
        self.take(found.end() if found else len(self.text))

    def comment(self):
        depth, at = 1, self.at + 2
        while depth and at < len(self.text):
            opens, closes = self.text.startswith("/*", at), self.text.startswith("*/", at)
            depth += opens - closes
            at += 2 if opens or closes else 1
        self.take(at)

    def command(self, found):
        """A command with the statement that it sends. If it sends none, the statement continues after it."""
        command = self.line()[1:].strip()
        name = re.match(r"[a-z]*", command)[0]
        found = found + ["".join(self.plain)]
        if name in SENDS:
            return found, command
        if name in ("r", "reset", "q", "quit"):
            return [], command
        # psql runs it at once, even in the middle of a statement; scripts only do so between
        # statements.
        return [], command


def named(found):
    """A reference to a variable: its quote, its name, and its text."""
    return (found[0][1] if found[0][1] in "'\"" else "", found[1] or found[2] or found[3], found[0])


def words(text):
    """The arguments of a command: words, some in quotes; with whether a variable may stand in them."""
    found = re.findall(r"'((?:[^'\\]|''|\\.)*)'|(\S+)", text)
    return [(quoted.replace("''", "'"), False) if quoted or not plain else (plain, True) for quoted, plain in found]
