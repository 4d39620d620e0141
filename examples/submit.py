"""Submits job files to a dotresize-server over gRPC and waits for them.

    python examples/submit.py HOST:PORT JOB.yaml ... [--request-id ID] [--tls-ca F [--cert F --key F]]

Ends with the exit codes of the command line (docs/cli.md), of the first job that does not succeed.
The options for TLS and the token of DOTRESIZE_TOKEN_FILE are those of the command line, too.
"""
import argparse, os, pathlib, sys, time, uuid
import grpc, yaml  # grpc reads the .proto files as they are, with grpcio-tools

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "proto"))
messages, services = grpc.protos_and_services("dotresize/v1/jobs.proto")
specs = grpc.protos("dotresize/v1/job.proto")
details = grpc.protos("google/rpc/error_details.proto")
rpc_status = grpc.protos("google/rpc/status.proto")

FAILED, CANCELLED, USAGE, BAD_DATA, UNAVAILABLE, TRY_AGAIN, DENIED = 1, 2, 64, 65, 69, 75, 77
EXIT_CODES = {grpc.StatusCode[name]: code for code, names in {
    BAD_DATA: "INVALID_ARGUMENT NOT_FOUND ALREADY_EXISTS FAILED_PRECONDITION OUT_OF_RANGE",
    TRY_AGAIN: "RESOURCE_EXHAUSTED ABORTED", DENIED: "UNAUTHENTICATED PERMISSION_DENIED",
}.items() for name in names.split()}


class BadJobFile(Exception):
    pass


def scalar(field, text, key):
    """The text of a YAML scalar as the type that the schema has for it."""
    try:
        if field.type == field.TYPE_BOOL:
            return {"true": True, "false": False}[text]
        if field.type == field.TYPE_ENUM:
            return field.enum_type.values_by_name[text].number
        return {field.TYPE_STRING: str, field.TYPE_DOUBLE: float, field.TYPE_UINT32: int}[field.type](text)
    except (KeyError, ValueError, TypeError):
        choices = ", ".join(field.enum_type.values_by_name) if field.enum_type else ""
        raise BadJobFile(f"{key}: {text!r} is not " + (f"one of {choices}" if choices else "such a value"))


def fill(message, values, folder, prefix=""):
    """Follows the schema: unknown keys are errors, a `path`, `tokens`, `text`, `save` or `use` becomes absolute."""
    if not isinstance(values, dict):
        raise BadJobFile(f"{prefix.rstrip('.') or 'the file'}: must be a section")
    for name, value in values.items():
        key, field = f"{prefix}{name}", message.DESCRIPTOR.fields_by_name.get(name)
        if field is None:
            raise BadJobFile(f"{key}: unknown key; the keys here are "
                             + ", ".join(message.DESCRIPTOR.fields_by_name))
        if value in ("", None):
            continue
        is_path = name in ("path", "tokens", "text", "save", "use")
        if field.type == field.TYPE_MESSAGE:
            getattr(message, name).SetInParent()
            fill(getattr(message, name), value, folder, f"{key}.")
        elif hasattr(getattr(message, name), "extend"):  # a list
            if not isinstance(value, list):
                raise BadJobFile(f"{key}: must be a list, as in [a.txt, b.txt]")
            getattr(message, name).extend(str(folder / text) for text in value)
        else:
            typed = scalar(field, value, key)
            setattr(message, name, str(folder / typed) if is_path else typed)
    return message


def read_job(file):
    try:
        # BaseLoader: every scalar is a text, and the schema says what it means.
        values = yaml.load(file.read_text(encoding="utf-8"), yaml.BaseLoader)
        return fill(specs.JobSpec(), values, file.resolve().parent)
    except (OSError, UnicodeDecodeError, yaml.YAMLError, BadJobFile) as error:
        raise BadJobFile(f"{file}: {error}") from None


def connect(arguments):
    token_file = os.environ.get("DOTRESIZE_TOKEN_FILE")
    token = pathlib.Path(token_file).read_text().strip() if token_file else ""
    local = arguments.server.startswith(("127.", "localhost:", "[::1]:", "unix:"))
    if token and not arguments.tls_ca and not local:
        raise OSError("a token goes to another machine over TLS alone: --tls-ca")
    read = lambda file: pathlib.Path(file).read_bytes() if file else None
    credentials = grpc.ssl_channel_credentials(read(arguments.tls_ca), read(arguments.key),
                                               read(arguments.cert)) if arguments.tls_ca else None
    channel = grpc.secure_channel(arguments.server, credentials) if credentials else \
        grpc.insecure_channel(arguments.server)
    return services.JobsStub(channel), [("authorization", f"Bearer {token}")] if token else []


def follow(jobs, identity, job_id):
    """Prints progress until the job has ended; after a break the stream goes on where it was."""
    seen, failures = 0, 0
    while True:
        try:
            request = messages.WatchJobRequest(id=job_id, after_seq=seen)
            for event in jobs.WatchJob(request, metadata=identity):
                seen, failures = event.seq, 0
                if event.HasField("progress"):
                    print(f"{job_id} {event.progress.fraction:4.0%} {event.progress.phase}",
                          file=sys.stderr)
            return jobs.GetJob(messages.GetJobRequest(id=job_id), metadata=identity)
        except grpc.RpcError as error:
            failures += 1
            if error.code() != grpc.StatusCode.UNAVAILABLE or failures > 60:
                raise
            time.sleep(min(5, failures))


def explain(error):
    """A failed call, with the fields that the server objects to."""
    lines = [error.details() or error.code().name]
    for key, value in error.trailing_metadata() or ():
        if key != "grpc-status-details-bin":
            continue
        for detail in rpc_status.Status.FromString(value).details:
            bad = details.BadRequest()
            if detail.Unpack(bad):
                lines += [f"  {v.field}: {v.description}" for v in bad.field_violations]
    return "\n".join(lines)


def submit(jobs, identity, file, request_id):
    """Returns the exit code."""
    request = messages.CreateJobRequest(spec=read_job(file), request_id=request_id)
    job = jobs.CreateJob(request, metadata=identity)
    print(job.id, "already submitted" if job.already_submitted else "submitted", file=sys.stderr)
    job = follow(jobs, identity, job.id)
    if job.HasField("result"):
        print(job.result)
        return 0
    if job.state == messages.Job.CANCELLED:
        print(f"{job.id} was cancelled", file=sys.stderr)
        return CANCELLED
    print(f"{job.id} failed: {job.error.code}: {job.error.message}", file=sys.stderr)
    return BAD_DATA if job.error.code == "INVALID_INPUT" else FAILED


class Parser(argparse.ArgumentParser):
    """Ends as the command line does for an unknown option or a missing argument."""

    def error(self, message):
        self.print_usage(sys.stderr)
        self.exit(USAGE, f"{self.prog}: error: {message}\n")


def parse_arguments():
    parser = Parser(description=__doc__.splitlines()[0])
    parser.add_argument("server", metavar="HOST:PORT")
    parser.add_argument("files", nargs="+", type=pathlib.Path, metavar="JOB.yaml")
    parser.add_argument("--request-id", help="the same ID gives the same job (default: a new one); "
                                             "-2, -3 ... is added for further files")
    for option, what in (("tls-ca", "authority of the server's certificate"),
                         ("cert", "certificate of this client"), ("key", "its key")):
        name = "DOTRESIZE_" + option.upper().replace("-", "_")
        parser.add_argument(f"--{option}", default=os.environ.get(name),
                            help=f"{what} (PEM; default: ${name})")
    return parser.parse_args()


def main():
    arguments = parse_arguments()
    intent = arguments.request_id or str(uuid.uuid4())
    exit_code = 0
    for number, file in enumerate(arguments.files, 1):
        try:
            jobs, identity = connect(arguments)
            # Sending the same request_id again is safe: it gives the same job.
            code = submit(jobs, identity, file, intent if number == 1 else f"{intent}-{number}")
        except grpc.RpcError as error:
            print(f"submit.py: error: {file}: {explain(error)}", file=sys.stderr)
            code = EXIT_CODES.get(error.code(), UNAVAILABLE)
        except (BadJobFile, OSError) as error:
            print(f"submit.py: error: {error}", file=sys.stderr)
            code = BAD_DATA
        exit_code = exit_code or code
    return exit_code


if __name__ == "__main__":
    sys.exit(main())
