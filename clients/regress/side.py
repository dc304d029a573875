"""One of the two servers, as a client sees it: the outcomes of statements."""

import re
import select
import time

from psycopg import pq

from script import VARIABLE, named

SECONDS_MAX = 60
DONE = {pq.ExecStatus.COMMAND_OK, pq.ExecStatus.TUPLES_OK, pq.ExecStatus.EMPTY_QUERY}


class Side:
    """A connection, and psql's variables."""

    def __init__(self, address):
        self.address, self.variables = address, {}
        self.connect()

    def connect(self):
        self.conn = pq.PGconn.connect(f"{self.address} client_encoding=utf8".encode())
        if self.conn.status != pq.ConnStatus.OK:
            raise OSError(self.conn.error_message.decode())
        for setting in ("set timezone = 'PST8PDT'", "set statement_timeout = '30s'"):
            self.run(setting, None)

    def close(self):
        self.conn.finish()

    def text(self, statement):
        """A statement as it is sent, with its variables."""
        return "".join(part if isinstance(part, str) else self.value(*part) for part in statement).strip()

    def value(self, quote, name, written):
        """A variable's value; its text, if there is none."""
        if name not in self.variables:
            return written
        value = self.variables[name]
        return quote + value.replace(quote, 2 * quote) + quote if quote else value

    def expanded(self, word):
        """An argument of a command."""
        return VARIABLE.sub(lambda found: self.value(*named(found)), word)

    def run(self, text, data):
        """The outcome of a statement: for each statement in it ('rows', tag, rows) or ('error', SQLSTATE, message), or
        ('lost', why). `data` is sent to COPY FROM STDIN."""
        outcomes = []
        try:
            self.conn.send_query(text.encode(errors="surrogateescape"))
            while result := self.result():
                if result.status == pq.ExecStatus.COPY_IN:
                    self.conn.put_copy_data((data() if data else "").encode())
                    self.conn.put_copy_end()
                elif result.status == pq.ExecStatus.COPY_OUT:
                    outcomes.append(("rows", "COPY", self.copied()))
                elif result.status in DONE:
                    outcomes.append(("rows", result.command_status.decode(), rows(result)))
                else:
                    state = (result.error_field(pq.DiagnosticField.SQLSTATE) or b"").decode()
                    if not state:
                        return [("lost", self.conn.error_message.decode())]
                    message = result.error_field(pq.DiagnosticField.MESSAGE_PRIMARY)
                    outcomes.append(("error", state, message.decode()))
        except Exception as error:  # Of any kind: the connection cannot be used any more.
            return [("lost", str(error))]
        if self.conn.status != pq.ConnStatus.OK:
            return [("lost", self.conn.error_message.decode())]
        return outcomes

    def result(self):
        """Waits for the next result."""
        until = time.monotonic() + SECONDS_MAX
        while True:
            waits = self.conn.flush()
            if not waits and not self.conn.is_busy():
                return self.conn.get_result()
            left = until - time.monotonic()
            if left <= 0:
                raise TimeoutError(f"no answer in {SECONDS_MAX} s")
            select.select([self.conn.socket], [self.conn.socket] if waits else [], [], left)
            self.conn.consume_input()

    def copied(self):
        lines = []
        while True:
            count, data = self.conn.get_copy_data(0)
            if count <= 0:
                return lines
            lines.append((bytes(data).decode(errors="replace").rstrip("\n"),))


def rows(result):
    def value(row, column):
        value = result.get_value(row, column)
        return None if value is None else value.decode(errors="replace")
    return [tuple(value(row, column) for column in range(result.nfields)) for row in range(result.ntuples)]


def same(here, there, statement):
    """True if the outcomes are the same: rows in any order, unless the statement asks for one."""
    if len(here) != len(there):
        return False
    is_ordered = re.search(r"\border\s+by\b", outermost(statement), re.I)
    for ours, theirs in zip(here, there):
        if ours[0] != theirs[0] or ours[1] != theirs[1]:
            return False
        if ours[0] == "rows" and ours[2] != theirs[2]:
            if is_ordered or sorted(ours[2], key=repr) != sorted(theirs[2], key=repr):
                return False
    return True


def outermost(statement):
    """A statement without its parentheses: an ORDER BY in there does not order the rows."""
    while (shorter := re.sub(r"\([^()]*\)", " ", statement)) != statement:
        statement = shorter
    return statement
