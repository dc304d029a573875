"""The cause of a different outcome of a statement: the statement itself, or a failed earlier statement of its script.

    create type c as enum ('red');          42601: CREATE TYPE        a reason, and `c` is missing because of it
    create table t (color c);               type "c" does not exist   the same reason, and `t` as well
    select * from t;                        no such table             the same reason: CREATE TYPE blocks three
"""

import re

# SQLSTATEs of a missing object.
MISSING = {"42P01", "42883", "42704", "34000", "26000", "3F000", "42703", "55000", "3B001"}
NAMED = re.compile(
    r"""\b(?:table|view|index|sequence|type|domain|function|procedure|aggregate|schema|role|user|operator|cast|collation
        |insert\s+into|update|delete\s+from|copy|declare|prepare|savepoint|rule|trigger|statistics|policy|on|as|into)\s+
        (?:if\s+(?:not\s+)?exists\s+|only\s+|concurrently\s+)*((?:\w+|"[^"]+")(?:\.(?:\w+|"[^"]+"))*)""", re.I | re.X)
WORD = re.compile(r'[A-Za-z_]\w*')
CHANGES = re.compile(r"\s*(?:create|alter|drop|insert|update|delete|copy|declare|prepare|truncate|with|select|merge|set|grant|revoke)\b", re.I)
COMMENT = re.compile(r"--[^\n]*|/\*.*?\*/", re.S)


class Reasons:
    """The reasons of one script."""

    def __init__(self):
        self.undone, self.block = {}, None

    def of(self, statement, here, there):
        """The reason of a statement whose outcomes differ."""
        statement = COMMENT.sub(" ", statement)
        reason = self.reason(statement, here, there)
        if CHANGES.match(statement) and not re.match(r"\s*(?:select|with)\b(?!.*\binto\b)", statement, re.I | re.S):
            for name in NAMED.findall(statement)[:1]:
                self.undone.setdefault(plain(name), reason)
        if there[-1][0] != "error" and here[-1][0] == "error" and self.block is None:
            self.block = reason
        return reason

    def reason(self, statement, here, there):
        ours, theirs = here[-1] if here else ("rows", "", []), there[-1] if there else ("rows", "", [])
        if ours[0] == "lost":
            return f"LOST: {ours[1].strip()}"
        if ours[0] == "error" and ours[1] == "25P02" and self.block:
            return self.block
        if ours[0] == "error" and ours[1] in MISSING:
            for name in re.findall(r'"([^"]+)"|function (\w+)', ours[2]):
                if known := self.undone.get(plain(name[0] or name[1])):
                    return known
        if ours[0] != "error" or ours[1] in MISSING | {"22P02", "23503", "42P07", "0A000"} and theirs[0] == "error":
            for word in WORD.findall(statement):
                if known := self.undone.get(word.lower()):
                    return known
        if re.match(r"\s*explain\b", statement, re.I):
            return "EXPLAIN: each system has its own plans"
        if ours[0] == "error":
            return f"{ours[1]}: {shape(statement) if ours[1] == '42601' else masked(ours[2])}"
        if theirs[0] == "error":
            return f"accepted, where there it is {theirs[1]}: {masked(theirs[2])}"
        if ours[1] != theirs[1]:
            return f"another count or tag: {shape(statement)}"
        return "other rows"

    def went_well(self, statement, outcome):
        """Notes a statement with the same outcome. The end of a transaction block also ends its reasons."""
        statement = COMMENT.sub(" ", statement)
        if re.match(r"\s*(?:commit|rollback|abort|end)\b", statement, re.I) and not re.search(r"\bto\b", statement, re.I):
            self.block = None
        found = re.match(r"\s*drop\s+\w+\s+(?:if\s+exists\s+)?(\w+)", statement, re.I)
        if found and outcome[-1][0] != "error":
            self.undone.pop(plain(found[1]), None)


def plain(name):
    return name.split(".")[-1].strip('"').lower()


def masked(message):
    """A message without the parts that are specific to this statement."""
    message = re.sub(r'"[^"]*"', '".."', message)
    message = re.sub(r"\d+", "N", message)
    return message.split("\n")[0][:90]


def shape(statement):
    """The first words of a statement, which name its command."""
    words = re.findall(r"[A-Za-z]+|\S", statement)
    kept = 2 if words and words[0].lower() in ("create", "alter", "drop", "set", "comment") else 1
    return " ".join(word.upper() for word in words[:kept])
