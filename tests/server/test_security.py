"""Who may reach the server, with certificates of an authority made for the test."""

import os
import subprocess

import grpc
import pytest
from conftest import BINARIES, PROGRAM, Server, jobs_pb2, jobs_pb2_grpc


def openssl(*arguments):
    subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True)


class Authority:
    def __init__(self, folder):
        self.folder = folder
        folder.mkdir()
        self.certificate = folder / "ca.pem"
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
                "-subj", "/CN=authority", "-keyout", folder / "ca.key", "-out", self.certificate)

    def issue(self, name, days=2):
        """(certificate, key) for this host."""
        key, request, certificate = (self.folder / f"{name}.{kind}" for kind in ("key", "csr", "pem"))
        extensions = self.folder / f"{name}.cnf"
        extensions.write_text("subjectAltName=IP:127.0.0.1,DNS:localhost")
        openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", f"/CN={name}",
                "-keyout", key, "-out", request)
        openssl("x509", "-req", "-in", request, "-CA", self.certificate, "-CAkey", self.folder / "ca.key",
                "-CAcreateserial", "-days", days, "-extfile", extensions, "-out", certificate)
        return certificate, key


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("tls") / "own")


@pytest.fixture(scope="module")
def stranger(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("tls") / "other")


@pytest.fixture
def secure_server(make_server, authority):
    """Takes only clients with a certificate of the authority."""
    certificate, key = authority.issue("server")
    return make_server("--tls-cert", str(certificate), "--tls-key", str(key),
                       "--tls-client-ca", str(authority.certificate), DOTRESIZE_WORKER="/bin/false")


def list_jobs(server, authority, client=None):
    certificate, key = (path.read_bytes() for path in client) if client else (None, None)
    credentials = grpc.ssl_channel_credentials(authority.certificate.read_bytes(), key, certificate)
    with grpc.secure_channel(server.endpoint, credentials) as channel:
        return jobs_pb2_grpc.JobsStub(channel).ListJobs(jobs_pb2.ListJobsRequest(), timeout=20)


def is_turned_away(call):
    with pytest.raises(grpc.RpcError) as caught:
        call()
    return caught.value.code() == grpc.StatusCode.UNAVAILABLE


def test_client_with_a_certificate_is_served(secure_server, authority):
    assert not list_jobs(secure_server, authority, authority.issue("client")).jobs


def test_client_without_a_certificate_of_the_authority_is_turned_away(secure_server, authority, stranger):
    assert is_turned_away(lambda: list_jobs(secure_server, authority))
    assert is_turned_away(lambda: list_jobs(secure_server, authority, stranger.issue("client")))
    assert is_turned_away(lambda: secure_server.jobs.ListJobs(jobs_pb2.ListJobsRequest(), timeout=20))


def test_expired_certificate_is_turned_away(secure_server, authority):
    assert is_turned_away(lambda: list_jobs(secure_server, authority, authority.issue("old", days=-1)))


def test_client_does_not_talk_to_a_server_of_another_authority(secure_server, authority, stranger):
    assert is_turned_away(lambda: list_jobs(secure_server, stranger, authority.issue("client")))


def test_command_line_has_a_certificate(secure_server, authority):
    certificate, key = authority.issue("cli")
    command = [BINARIES / "dotresize", "list", "-o", "json", "--server", secure_server.endpoint]
    tls = ["--tls-ca", authority.certificate, "--cert", certificate, "--key", key]
    assert subprocess.run([*command, *tls], capture_output=True, timeout=60).returncode == 0
    environment = os.environ | {"DOTRESIZE_TLS_CA": str(authority.certificate),
                                "DOTRESIZE_CERT": str(certificate), "DOTRESIZE_KEY": str(key)}
    assert subprocess.run(command, env=environment, capture_output=True, timeout=60).returncode == 0
    assert subprocess.run(command, capture_output=True, timeout=60).returncode == 69
    assert subprocess.run([*command, "--cert", certificate], capture_output=True, timeout=60).returncode == 65


def refusal(tmp_path, *options):
    """What a server says that does not start for its options."""
    done = subprocess.run([PROGRAM, "--state", tmp_path / "state", "--listen", "0.0.0.0:0", *map(str, options)],
                          capture_output=True, text=True, timeout=20)
    assert done.returncode == 64, done.stderr
    return done.stderr


def test_address_that_others_reach_wants_certificates(tmp_path, authority):
    certificate, key = authority.issue("server")
    assert "--insecure" in refusal(tmp_path)
    assert "--insecure" in refusal(tmp_path, "--tls-cert", certificate, "--tls-key", key)
    assert "--tls-key" in refusal(tmp_path, "--insecure", "--tls-cert", certificate)
    assert "--tls-cert" in refusal(tmp_path, "--insecure", "--tls-client-ca", certificate)
    key.chmod(0o644)
    assert "chmod 600" in refusal(tmp_path, "--insecure", "--tls-cert", certificate, "--tls-key", key)


def test_insecure_address_is_warned_about(tmp_path):
    server = Server(tmp_path / "state", "--insecure")
    server.command[2] = "0.0.0.0:0"
    server.start()
    server.close()
    assert "clients need no certificate" in server.log()
