"""Submits job files over gRPC and waits: python examples/submit.py HOST:PORT JOB.yaml ..."""
import pathlib, sys, uuid
import grpc, yaml  # grpc reads the .proto files as they are, with grpcio-tools

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "proto"))
messages, services = grpc.protos_and_services("dotresize/v1/jobs.proto")
jobs = services.JobsStub(grpc.insecure_channel(sys.argv[1]))
for file in sys.argv[2:]:
    spec, folder = yaml.safe_load(open(file)), pathlib.Path(file).resolve().parent
    for part in (spec["model"], spec["output"], spec["calibration"], spec.get("evaluation", {})):
        for key in part.keys() & {"path", "tokens", "text"}:  # absolute: the server reads them
            path = part[key]
            part[key] = [str(folder / p) for p in path] if key == "text" else str(folder / path)
    # Sending the same request_id again is safe: it gives the same job.
    job = jobs.CreateJob(messages.CreateJobRequest(spec=spec, request_id=str(uuid.uuid4())))
    for event in jobs.WatchJob(messages.WatchJobRequest(id=job.id)):
        if event.HasField("progress"):
            print(f"{job.id} {event.progress.fraction:4.0%} {event.progress.phase}")
    job = jobs.GetJob(messages.GetJobRequest(id=job.id))
    print(job.result if job.HasField("result") else job.error)
