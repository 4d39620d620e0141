"""Submits job files to a dotresize-server over gRPC and waits for them. Needs its client: pip install ./client/python

    python examples/submit.py HOST:PORT JOB.yaml ... [--request-id ID] [--patience S] [--tls-ca F [--cert F --key F]]

Ends with the exit codes of the command line (docs/cli.md), of the first job that does not succeed.
The options for TLS and the token of DOTRESIZE_TOKEN_FILE are those of the command line, too.
"""
import argparse
import os
import sys
import uuid

import grpc
from dotresize.client import Client, JobFailed
from dotresize.v1 import jobs_pb2 as messages

FAILED, CANCELLED, USAGE, BAD_DATA, UNAVAILABLE, TRY_AGAIN, DENIED = 1, 2, 64, 65, 69, 75, 77
EXIT_CODES = {grpc.StatusCode[name]: code for code, names in {
    BAD_DATA: "INVALID_ARGUMENT NOT_FOUND ALREADY_EXISTS FAILED_PRECONDITION OUT_OF_RANGE",
    TRY_AGAIN: "RESOURCE_EXHAUSTED ABORTED", DENIED: "UNAUTHENTICATED PERMISSION_DENIED",
}.items() for name in names.split()}


def add_connection(parser):
    """The server, and the options that connect() takes."""
    parser.add_argument("server", metavar="HOST:PORT")
    for option, what in (("tls-ca", "authority of the server's certificate"),
                         ("cert", "certificate of this client"), ("key", "its key")):
        name = "DOTRESIZE_" + option.upper().replace("-", "_")
        parser.add_argument(f"--{option}", default=os.environ.get(name), help=f"{what} (PEM; default: ${name})")
    parser.add_argument("--patience", type=float, default=60, metavar="S",
                        help="for how many seconds a server that does not answer is called again (default: 60)")


def connect(arguments):
    return Client(arguments.server, tls_ca=arguments.tls_ca, cert=arguments.cert, key=arguments.key, patience_s=arguments.patience)


def submit(client, file, request_id):
    """Returns the exit code."""
    job = client.submit(file, request_id)
    print(job.id, "already submitted" if job.already_submitted else "submitted", file=sys.stderr)

    def tell(progress):
        print(f"{job.id} {progress.fraction:4.0%} {progress.phase}", file=sys.stderr)
    try:
        print(client.wait(job.id, tell).result)
        return 0
    except JobFailed as ended:
        print(ended, file=sys.stderr)
        if ended.job.state == messages.Job.CANCELLED:
            return CANCELLED
        return BAD_DATA if ended.job.error.code == "INVALID_INPUT" else FAILED


class Parser(argparse.ArgumentParser):
    """Ends as the command line does for an unknown option or a missing argument."""

    def error(self, message):
        self.print_usage(sys.stderr)
        self.exit(USAGE, f"{self.prog}: error: {message}\n")


def parse_arguments():
    parser = Parser(description=__doc__.splitlines()[0])
    add_connection(parser)
    parser.add_argument("files", nargs="+", metavar="JOB.yaml")
    parser.add_argument("--request-id", default=str(uuid.uuid4()), help="the same ID gives the same job (default: a new one); "
                                                                        "-2, -3 ... is added for further files")
    return parser.parse_args()


def main():
    arguments = parse_arguments()
    exit_code = 0
    for number, file in enumerate(arguments.files, 1):
        request_id = arguments.request_id if number == 1 else f"{arguments.request_id}-{number}"
        try:
            with connect(arguments) as client:
                code = submit(client, file, request_id)
        except grpc.RpcError as error:
            print(f"submit.py: error: {file}: {error.details() or error.code().name}", file=sys.stderr)
            code = EXIT_CODES.get(error.code(), UNAVAILABLE)
        except (ValueError, OSError) as error:  # BadJob; a token without TLS
            print(f"submit.py: error: {file}: {error}", file=sys.stderr)
            code = BAD_DATA
        exit_code = exit_code or code
    return exit_code


if __name__ == "__main__":
    sys.exit(main())
