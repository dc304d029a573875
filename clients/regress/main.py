"""The scripts, one after the other: `python main.py SCRIPTS PORT SCRATCH [OPTIONS] [SCRIPT ..]`, which `clients/regression` calls.

Each script has a fresh Isomer and a fresh database of the PostgreSQL, both with the objects of test_setup. Both run
each statement in turn. For COPY from a file of the server, the client sends the file's lines instead. Each server has
its own values of variables that a query sets, and its own settings, except for the time zone."""

import argparse
import collections
import json
import os
import pathlib
import re
import subprocess
import sys
import time

from reasons import Reasons
from script import Script, words
from side import Side, same

HERE = pathlib.Path(__file__).parent
# Scripts that must run before others, by the notes in PostgreSQL's own list of them.
BEFORE = {
    "aggregates": ["create_aggregate"],
    "horology": ["date", "time", "timetz", "timestamp", "timestamptz", "interval"],
    "join": ["create_misc"],
    "select_views": ["create_view"],
    "with": ["create_misc"],
}
FROM_FILE = re.compile(r"^\s*copy\s+(.*?)\s+from\s+'([^']*/data/\w+\.data)'(.*)$", re.I | re.S)
BLOCKS_MUCH = 100


class Isomer:
    """A server of its own, with an empty database."""

    def __init__(self, folder):
        command = [os.environ["ISOMER"], "serve", "--data", folder, "--sites", "2", "--listen", "127.0.0.1:0",
                   "--trust", "loopback", "--autopilot", "off"]
        self.log = open(f"{folder}.log", "w+")
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self.log, text=True)
        for line in self.process.stdout:
            if found := re.match(r"isomer serves .* at [0-9.]*:(\d+)", line):
                self.address = f"host=127.0.0.1 port={found[1]} user=isomer dbname=isomer"
                return
        raise OSError(f"Isomer does not start: see {folder}.log")

    def stop(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


class Run:
    """A script at both servers."""

    def __init__(self, here, there, sources):
        self.here, self.there, self.sources = here, there, sources
        self.reasons, self.differences = Reasons(), []
        self.count = self.equal = self.lost = 0

    def script(self, name, counts=True):
        script, skips, nested = Script((self.sources / "sql" / f"{name}.sql").read_text(errors="replace")), 0, 0
        while (part := script.part()) is not None:
            statement, command = part
            name, _, rest = command.partition(" ")
            # Blocks between \if and \endif are for psql's own tests, and for builds without an
            # option.
            if name == "if":
                skips, nested = skips or nested + 1, nested + 1
            elif name == "endif":
                nested -= 1
                skips = 0 if nested < skips else skips
            elif skips:
                continue
            elif name in ("q", "quit"):
                return
            elif name in ("c", "connect"):
                for side in (self.here, self.there):
                    side.close()
                    side.connect()
            elif name in ("set", "unset", "getenv"):
                self.variable(name, rest)
            elif name == "copy":
                self.statement([f"copy {rest}"], script, counts)
            elif statement and name not in ("gdesc", "crosstabview"):
                self.statement(statement, script, counts, name, rest)

    def variable(self, command, rest):
        for side in (self.here, self.there):
            named, *values = [side.expanded(word) if varies else word for word, varies in words(rest)]
            if command == "unset":
                side.variables.pop(named, None)
            elif command == "set":
                side.variables[named] = "".join(values)
            elif values == ["PG_ABS_SRCDIR"]:
                side.variables[named] = str(self.sources)

    def statement(self, statement, script, counts, command="", rest=""):
        read = []

        def data():
            if not read:
                read.append(script.data())
            return read[0]

        texts = [side.text(statement) for side in (self.there, self.here)]
        source = data
        if found := FROM_FILE.match(texts[0]):
            texts = [f"copy {found[1]} from stdin {found[3]}"] * 2
            source = lambda: pathlib.Path(found[2]).read_text()
        there = self.there.run(texts[0], source)
        here = self.here.run(texts[1], source)
        if counts:
            self.judge(texts[1], here, there)
        if here and here[-1][0] == "lost":
            self.here.close()
            self.here.connect()
        if there and there[-1][0] == "lost":
            raise OSError(f"PostgreSQL: {there[-1][1]}: {texts[0]}")
        if command == "gset":
            for side, outcome in ((self.there, there), (self.here, here)):
                self.keep(side, texts[0], outcome, rest.strip())
        if command == "gexec" and there[-1][0] == "rows":
            for row in there[-1][2]:
                for value in row:
                    if value:
                        self.statement([value], script, counts)

    def keep(self, side, text, outcome, prefix):
        """Keeps a row's values as variables, named by its columns; only the last word of a column's expression counts here."""
        if outcome[-1][0] == "rows" and len(outcome[-1][2]) == 1:
            columns = re.findall(r"(\w+)\s*(?:,|from\b|$)", re.sub(r"^\s*select\s", "", text, flags=re.I), re.I | re.M)
            for column, value in zip(columns, outcome[-1][2][0]):
                side.variables[prefix + column] = value or ""

    def judge(self, text, here, there):
        self.count += 1
        if same(here, there, text):
            self.equal += 1
            self.reasons.went_well(text, here)
            return
        reason = self.reasons.of(text, here, there)
        self.lost += bool(here) and here[-1][0] == "lost"
        self.differences.append((reason, text, here, there))
        self.reasons.went_well(text, there)


def main():
    parser = argparse.ArgumentParser(prog="clients/regression")
    parser.add_argument("sources", type=pathlib.Path)
    parser.add_argument("port")
    parser.add_argument("scratch")
    parser.add_argument("--json", help="what was found, as JSON, into this file")
    parser.add_argument("--markdown", help="the table, as a page's part, into this file")
    parser.add_argument("--show", action="store_true", help="each statement with another outcome")
    parser.add_argument("scripts", nargs="*")
    args = parser.parse_intermixed_args()
    listed = [line.split("#")[0].split() for line in (HERE / "scripts").read_text().splitlines()]
    aims = {name for kind, *names in filter(None, listed) if kind == "aim:" for name in names}
    names = args.scripts or [name for _, *names in filter(None, listed) for name in names]

    stock = f"host=127.0.0.1 port={args.port} user=postgres"
    root = Side(f"{stock} dbname=postgres")
    fresh = "create database {} template {} encoding 'UTF8' lc_collate 'C' lc_ctype 'C'"
    root.run(fresh.format("setup", "template0"), None)
    found, blocked, files = [], collections.Counter(), collections.defaultdict(set)
    for name in names:
        begun = time.monotonic()
        root.run("drop database if exists regression with (force)", None)
        root.run(fresh.format("regression", "template0"), None)
        isomer = Isomer(f"{args.scratch}/{name}")
        run = Run(Side(isomer.address), Side(f"{stock} dbname=regression"), args.sources)
        try:
            for before in ["test_setup", *BEFORE.get(name, [])]:
                run.script(before, counts=False)
            for side in (run.here, run.there):
                side.close()
                side.connect()
            run.script(name)
        except OSError:
            print(f"{name}: the server has ended with {isomer.process.poll()}\n{pathlib.Path(isomer.log.name).read_text()}")
            raise
        finally:
            run.there.close()
            isomer.stop()
        for reason, text, here, there in run.differences:
            blocked[reason] += 1
            files[reason].add(name)
            if args.show:
                print(f"--- {reason}\n{text}\n    here  {clipped(here)}\n    there {clipped(there)}")
        found.append({"script": name, "statements": run.count, "same": run.equal, "lost": run.lost,
                      "is_aim": name in aims, "seconds": round(time.monotonic() - begun, 1)})
        print(f"{name:22} {run.count:6} statements {run.equal:6} the same {share(run.equal, run.count):>6}", flush=True)
        subprocess.run(["rm", "-rf", f"{args.scratch}/{name}"], check=False)
    total = summed(found)
    aimed = summed([one for one in found if one["is_aim"]])
    lost = sum(one["lost"] for one in found)
    reasons = [{"reason": reason, "blocks": count, "scripts": sorted(files[reason])} for reason, count in blocked.most_common()]
    print(f"\nall: {total[1]} of {total[0]}, {share(total[1], total[0])}; those aimed at: {aimed[1]} of {aimed[0]}, "
          f"{share(aimed[1], aimed[0])}; connections lost: {lost}\n")
    for reason in reasons[:40]:
        print(f"{reason['blocks']:6}  {reason['reason']}")
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps({"scripts": found, "reasons": reasons}, indent=1))
    if args.markdown:
        pathlib.Path(args.markdown).write_text(page(found, total, aimed, reasons))
    sys.exit(1 if lost else 0)


def summed(found):
    return sum(one["statements"] for one in found), sum(one["same"] for one in found)


def share(part, whole):
    return f"{100 * part / whole:.1f}%" if whole else ""


def clipped(outcome):
    return repr(outcome)[:400]


def page(found, total, aimed, reasons):
    lines = ["| script | statements | same | |", "| --- | ---: | ---: | ---: |"]
    for one in [*found, {"script": "those aimed at (*)", "statements": aimed[0], "same": aimed[1], "is_aim": False},
                {"script": "all", "statements": total[0], "same": total[1], "is_aim": False}]:
        mark = " *" if one["is_aim"] else ""
        lines.append(f"| {one['script']}{mark} | {one['statements']} | {one['same']} | {share(one['same'], one['statements'])} |")
    lines += ["", "| blocks | reason | scripts |", "| ---: | --- | --- |"]
    for one in reasons:
        if one["blocks"] > BLOCKS_MUCH:
            reason = one["reason"].replace("|", "\\|")
            names = one["scripts"] if len(one["scripts"]) < 6 else [f"{len(one['scripts'])} of them"]
            lines.append(f"| {one['blocks']} | {reason} | {', '.join(names)} |")
    return "\n".join(lines) + "\n"


main()
