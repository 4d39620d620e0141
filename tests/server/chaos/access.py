"""Access of test_chaos.py: the tokens of its clients, from which a fault takes one away for a while."""

import collections
import signal
import subprocess

import grpc
from conftest import PROGRAM, Server, jobs_pb2_grpc

CallDetails = collections.namedtuple("CallDetails", "method timeout metadata credentials wait_for_ready compression")


class WithToken(grpc.UnaryUnaryClientInterceptor, grpc.UnaryStreamClientInterceptor):
    """Adds a token to every call of a channel."""

    def __init__(self, token):
        self.metadata = [("authorization", f"Bearer {token}")]

    def intercept_unary_unary(self, continuation, call, request):
        return continuation(CallDetails(call.method, call.timeout, self.metadata, call.credentials, call.wait_for_ready,
                                        call.compression), request)  # fmt: skip

    intercept_unary_stream = intercept_unary_unary


class Access:
    """File of the tokens. `roles`: {name: role}; the admin root is of the test itself."""

    def __init__(self, file, roles):
        self.file = file
        self.tokens = {name: self.make(name, role) for name, role in {**roles, "root": "admin"}.items()}
        self.lines = file.read_text().splitlines()
        self.taken = set()

    def make(self, name, role):
        return subprocess.run([PROGRAM, "token", "--tokens", self.file, name, role],
                              capture_output=True, text=True, timeout=20, check=True).stdout.strip()  # fmt: skip

    def write(self):
        """Writes the lines of all who have their token, as an operator does."""
        new = self.file.with_name("tokens.new")
        new.write_text("".join(line + "\n" for line in self.lines if line.split()[0] not in self.taken))
        new.chmod(0o600)
        new.replace(self.file)


class ServerWithTokens(Server):
    """A server with access control, called as root."""

    def __init__(self, state, access, *options, **environment):
        super().__init__(state, "--tokens", str(access.file), *options, **environment)
        self.access = access

    def connect(self):
        super().connect()
        self.channel = grpc.intercept_channel(self.channel, WithToken(self.access.tokens["root"]))
        self.jobs = jobs_pb2_grpc.JobsStub(self.channel)


def reload(faults):
    faults.server.access.write()
    if not faults.down:  # else the next server reads the file
        faults.server.process.send_signal(signal.SIGHUP)


def revoke_token(faults, point):
    """Takes the token of a client whose jobs are not all over."""
    access = faults.server.access
    with faults.witness.lock:
        names = sorted({order.owner for order in faults.witness.unfinished()} - access.taken)
    if not names:
        return None
    name = names[int(point.choice * len(names))]
    faults.witness.without_token.add(name)
    access.taken.add(name)
    reload(faults)

    def restore():
        access.taken.discard(name)
        reload(faults)

    faults.end_later(point.lasts, restore)
    return f"token of {name}"
