"""Files on the Hugging Face Hub and in S3-compatible stores, with the credentials of the environment and of the libraries'
own files."""

import concurrent.futures
import contextlib
import hashlib
import json
import os
import re
import sys
import threading
import time

CHUNK = 1 << 20
PARALLEL = 4
MOST_LISTED = 10_000
MOST_INDEX_BYTES = 64 << 20
CONFIG = "config.json"
INDEX = "model.safetensors.index.json"
SINGLE = "model.safetensors"
SUMS = "SHA256SUMS"
MARKER = "dotresize/unfinished-push"
REPORT = "dotresize/report.json"
OWNER = "dotresize/owner.json"
PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")
HUB = re.compile(r"hf://(datasets/)?([A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*)(?:@([\w.-]+))?((?:/[A-Za-z0-9][\w.-]*)*)", re.ASCII)
S3 = re.compile(r"s3://([a-z0-9][a-z0-9.-]{1,62})/([A-Za-z0-9][\w.=+-]*(?:/[A-Za-z0-9][\w.=+-]*)*)", re.ASCII)


class RemoteError(Exception):
    def __init__(self, code, message):
        super().__init__(message)
        self.code = code


class Moved(Exception):
    """The transfer has broken off, and may be tried again."""


class Meter:
    """Says every half second how far a transfer is. `done`: bytes that are there, `total`: of all."""

    def __init__(self):
        self.done, self.total, self.begun = 0, 0, 0
        self.start, self.last = time.monotonic(), time.monotonic()
        self.lock = threading.Lock()
        self.over = threading.Event()
        self.stopped = threading.Event()  # another file has failed
        self.thread = threading.Thread(target=self._loop, daemon=True)

    def begin(self, done, total):
        self.done = self.begun = done
        self.total = total
        self.tell()
        self.thread.start()

    def add(self, count):
        with self.lock:
            self.done += count
            if count > 0:
                self.last = time.monotonic()

    def tell(self):
        rate = max(0, self.done - self.begun) / max(1e-3, time.monotonic() - self.start)
        eta = (self.total - self.done) / rate if rate > 0 else None
        say({"progress": {"bytes_done": self.done, "bytes_total": self.total, "bytes_per_second": rate, "eta_s": eta}})

    def _loop(self):
        while not self.over.wait(0.5):
            self.tell()

    def end(self):
        if self.thread.is_alive():
            self.over.set()
            self.thread.join()
            self.tell()


def say(record):
    sys.stdout.write(json.dumps(record) + "\n")
    sys.stdout.flush()


def sha256_of(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class Remote:
    """A file elsewhere, `place` its key or path there. `check`: (algorithm, hex digest) of its bytes, or None."""

    def __init__(self, name, size, tag, place, check=None):
        if not PLAIN.fullmatch(name) or not isinstance(size, int) or size < 0:
            raise RemoteError("INVALID", f"{name[:200]!r} is no plain name of a file with a size")
        self.name, self.size, self.tag, self.place, self.check = name, size, tag, place, check


class HubStore:
    """Files of a repository of the Hugging Face Hub (HF_ENDPOINT, HF_TOKEN or the file of `hf auth login`)."""

    def __init__(self, url):
        datasets, self.repo, self.revision, path = HUB.fullmatch(url).groups()
        self.kind = "dataset" if datasets else "model"
        self.path = path.lstrip("/")
        self.url = url
        self.place = f"hf://{datasets or ''}{self.repo}/{self.path}"  # at any revision
        os.environ["HF_HUB_DISABLE_PROGRESS_BARS"] = "1"
        os.environ["HF_HUB_DISABLE_TELEMETRY"] = "1"
        import huggingface_hub

        self.hub = huggingface_hub
        self.api = huggingface_hub.HfApi()

    @contextlib.contextmanager
    def explained(self):
        import httpx2
        from huggingface_hub import errors

        try:
            yield
        except errors.HfHubHTTPError as error:
            status = error.response.status_code if error.response is not None else 0
            if isinstance(error, errors.GatedRepoError):
                raise RemoteError("NO_PERMISSION", f"{self.url}: the token's owner has not been granted access") from None
            if status == 401 and self.hub.get_token() is None:
                raise RemoteError("NO_CREDENTIALS", f"{self.url}: is not there, or needs a token (HF_TOKEN)") from None
            code, what = {401: ("NO_CREDENTIALS", "the token (HF_TOKEN) is refused"), 403: ("NO_PERMISSION", "the token's owner may not do this"),
                          404: ("NOT_FOUND", "no such repository, revision or file"), 409: ("EXISTS", "somebody else has changed it meanwhile"),
                          412: ("EXISTS", "somebody else has changed it meanwhile")}.get(status, ("NETWORK", f"the Hub answers with {status}"))
            raise RemoteError(code, f"{self.url}: {what}") from None
        except (httpx2.HTTPError, errors.OfflineModeIsEnabled, ConnectionError) as error:
            raise RemoteError("NETWORK", f"{self.url}: the Hub does not answer: {type(error).__name__}") from None

    def info(self):
        with self.explained():
            call = self.api.dataset_info if self.kind == "dataset" else self.api.model_info
            return call(self.repo, revision=self.revision, files_metadata=True, timeout=30)

    def list(self):
        """({name: Remote} of the repository's top folder, commit)"""
        info = self.info()
        siblings = info.siblings or []
        if len(siblings) > MOST_LISTED:
            raise RemoteError("INVALID", f"{self.url}: has more than {MOST_LISTED} files")
        found = {}
        for file in siblings:
            name = file.rfilename
            if not PLAIN.fullmatch(name) or file.size is None:
                continue
            check = ("sha256", file.lfs.sha256) if file.lfs else ("git", file.blob_id) if file.blob_id else None
            found[name] = Remote(name, file.size, self.commit(info.sha), name, check)
        return found, self.commit(info.sha)

    def list_file(self):
        with self.explained():
            url = self.hub.hf_hub_url(self.repo, self.path, repo_type=self.kind, revision=self.revision)
            head = self.hub.get_hf_file_metadata(url, timeout=30, token=self.hub.get_token())
        check = {40: "git", 64: "sha256"}.get(len(head.etag or ""))
        name = self.path.rpartition("/")[2]
        file = Remote(name, head.size, self.commit(head.commit_hash), self.path, (check, head.etag) if check else None)
        return {name: file}, file.tag

    def commit(self, sha):
        if not re.fullmatch("[0-9a-f]{40}", sha or ""):
            raise RemoteError("INVALID", f"{self.url}: the Hub names no commit")
        return sha

    @contextlib.contextmanager
    def open(self, remote, offset):
        """Bytes of the file from `offset` on, and a hash if one comes with them."""
        from huggingface_hub.utils import build_hf_headers, get_session

        url = self.hub.hf_hub_url(self.repo, remote.place, repo_type=self.kind, revision=remote.tag)
        headers = {**build_hf_headers(), "Accept-Encoding": "identity", "Range": f"bytes={offset}-"}
        with self.explained(), get_session().stream("GET", url, headers=headers, timeout=30, follow_redirects=True) as answer:
            if answer.status_code >= 400:
                answer.read()
                self.hub.utils.hf_raise_for_status(answer)
            begins = answer.headers.get("Content-Range", "").startswith(f"bytes {offset}-")
            if answer.status_code not in (200, 206) or (offset > 0 and not (answer.status_code == 206 and begins)):
                raise RemoteError("NETWORK", f"{self.url}: the Hub does not go on in the middle of {remote.name}")
            yield answer.iter_bytes(CHUNK), None

    def names(self):
        """({name: file} of all that an output would lie beside, commit); no file if there is no such repository."""
        try:
            info = self.info()
        except RemoteError as error:
            if error.code == "NOT_FOUND" or (error.code == "NO_CREDENTIALS" and self.hub.get_token()):
                return {}, None
            raise
        own = {".gitattributes"}
        return {file.rfilename: file for file in info.siblings or [] if file.rfilename not in own}, info.sha

    def content(self, name):
        """Bytes of a small file of an output."""
        with self.explained():
            path = self.hub.hf_hub_url(self.repo, name, revision=self.revision)
            answer = self.hub.utils.get_session().get(path, headers=self.hub.utils.build_hf_headers(), timeout=30, follow_redirects=True)
            self.hub.utils.hf_raise_for_status(answer)
            return answer.content

    def push(self, local, options, meter):
        """One commit: all of the output, or nothing of it."""
        with self.explained():
            if self.hub.get_token() is None:
                raise RemoteError("NO_CREDENTIALS", f"{self.url}: needs a token that may write (HF_TOKEN)")
            self.api.create_repo(self.repo, private=True, exist_ok=True)
            if self.revision:
                self.api.create_branch(self.repo, branch=self.revision, exist_ok=True)
        there, head = self.names()
        require_free(self, there, local, options)
        if is_same(self, there, local):
            return head
        adds = []
        with self.explained():
            for file in local:
                add = self.hub.CommitOperationAdd(path_in_repo=file.name, path_or_fileobj=str(file.path))
                self.api.preupload_lfs_files(self.repo, [add], revision=self.revision)
                adds.append(add)
                meter.add(file.size)
            gone = [self.hub.CommitOperationDelete(path_in_repo=name) for name in there.keys() - {file.name for file in local}]
            commit = self.api.create_commit(self.repo, [*adds, *gone], commit_message="Model of dotresize",
                                            revision=self.revision, parent_commit=head)
        return commit.oid


class S3Store:
    """Objects of a bucket (AWS_ENDPOINT_URL, AWS_ACCESS_KEY_ID ..., or the files of the AWS command line)."""

    def __init__(self, url):
        self.bucket, self.key = S3.fullmatch(url).groups()
        self.url = self.place = url
        import boto3
        import botocore.config

        config = botocore.config.Config(connect_timeout=10, read_timeout=30, max_pool_connections=2 * PARALLEL,
                                        retries={"mode": "standard", "total_max_attempts": 4})
        with self.explained():
            self.client = boto3.session.Session().client("s3", config=config)

    @contextlib.contextmanager
    def explained(self):
        from boto3 import exceptions as of_boto
        from botocore import exceptions
        from urllib3.exceptions import HTTPError

        try:
            yield
        except (exceptions.NoCredentialsError, exceptions.PartialCredentialsError, exceptions.ProfileNotFound,
                exceptions.CredentialRetrievalError, exceptions.TokenRetrievalError):
            raise RemoteError("NO_CREDENTIALS", f"{self.url}: no credentials of S3 are configured (AWS_ACCESS_KEY_ID, "
                              "AWS_PROFILE, ~/.aws/credentials)") from None
        except exceptions.ClientError as error:
            raise self.refusal(str(error.response.get("Error", {}).get("Code", "")),
                               error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)) from None
        except of_boto.S3UploadFailedError as error:  # only its text tells the cause
            code = re.search(r"\((\w+)\) when calling", str(error))
            raise self.refusal(code[1] if code else "", 403 if code and code[1] == "AccessDenied" else 0) from None
        except (exceptions.BotoCoreError, HTTPError, ConnectionError) as error:
            raise RemoteError("NETWORK", f"{self.url}: the store does not answer: {type(error).__name__}") from None

    def refusal(self, name, status):
        if name in ("InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken", "InvalidToken", "TokenRefreshRequired"):
            return RemoteError("NO_CREDENTIALS", f"{self.url}: the store refuses the credentials ({name})")
        if status == 404 or name in ("NoSuchBucket", "NoSuchKey", "404"):
            return RemoteError("NOT_FOUND", f"{self.url}: no such {'bucket' if name == 'NoSuchBucket' else 'object'}")
        if status == 403:
            return RemoteError("NO_PERMISSION", f"{self.url}: the owner of the credentials may not do this")
        if status == 412:
            return RemoteError("INVALID", f"{self.url}: was changed while it was read")
        return RemoteError("NETWORK", f"{self.url}: the store answers with {status} {name}")

    def objects(self, delimiter=""):
        """{name beneath the key: object}"""
        prefix = self.key + "/"
        found = {}
        with self.explained():
            pages = self.client.get_paginator("list_objects_v2").paginate(
                Bucket=self.bucket, Prefix=prefix, Delimiter=delimiter)
            for page in pages:
                for each in page.get("Contents", []):
                    found[each["Key"][len(prefix):]] = each
                if len(found) > MOST_LISTED:
                    raise RemoteError("INVALID", f"{self.url}: has more than {MOST_LISTED} objects")
        return found

    def list_file(self):
        with self.explained():
            head = self.client.head_object(Bucket=self.bucket, Key=self.key)
        name = self.key.rpartition("/")[2]
        return {name: Remote(name, head["ContentLength"], head["ETag"], self.key)}, head["ETag"].strip('"')

    def list(self):
        """({name: Remote}, what changes with any of their ETags)"""
        found = {name: Remote(name, each["Size"], each["ETag"], f"{self.key}/{name}")
                 for name, each in self.objects(delimiter="/").items() if PLAIN.fullmatch(name)}
        if not found:
            raise RemoteError("NOT_FOUND", f"{self.url}: no object lies beneath it")
        return found, None

    @contextlib.contextmanager
    def open(self, remote, offset):
        with self.explained():
            answer = self.client.get_object(Bucket=self.bucket, Key=remote.place, IfMatch=remote.tag,
                                            **({"Range": f"bytes={offset}-"} if offset else {}))
            begins = answer.get("ContentRange", "").startswith(f"bytes {offset}-")
            if offset and not begins:
                raise RemoteError("NETWORK", f"{self.url}: the store does not go on in the middle of {remote.name}")
            yield answer["Body"].iter_chunks(CHUNK), answer.get("Metadata", {}).get("sha256")

    def names(self):
        return self.objects(), None

    def content(self, name):
        with self.explained():
            return self.client.get_object(Bucket=self.bucket, Key=f"{self.key}/{name}")["Body"].read(MOST_INDEX_BYTES)

    def push(self, local, options, meter):
        """No mixture of two models is ever loadable: first what made an old one so is taken away, last comes what makes this one so."""
        there, _ = self.names()
        identity = sha256_of(local[-1].path)  # SHA256SUMS
        require_free(self, there, local, options, self.marker(there) == identity)
        if is_same(self, there, local) and MARKER not in there:
            return identity
        ours = {file.name for file in local}
        with self.explained():
            if MARKER not in there:
                for name in (SUMS, INDEX, SINGLE, CONFIG):
                    if name in there:
                        self.client.delete_object(Bucket=self.bucket, Key=f"{self.key}/{name}")
            self.client.put_object(Bucket=self.bucket, Key=f"{self.key}/{MARKER}", Body=identity.encode())
        for file in local:
            if file.name == OWNER:  # first: what there is of this output is its owner's
                self.upload(file, there, meter)
        parts = [file for file in local if not file.last and file.name != OWNER]
        for_all(parts, lambda file: self.upload(file, there, meter), meter)
        with self.explained():
            for name in there.keys() - ours - {MARKER}:
                if "/" not in name or name.startswith("dotresize/"):  # other folders are not this output's
                    self.client.delete_object(Bucket=self.bucket, Key=f"{self.key}/{name}")
        for file in local:
            if file.last:
                self.upload(file, {}, meter)
        with self.explained():
            self.client.delete_object(Bucket=self.bucket, Key=f"{self.key}/{MARKER}")
        return identity

    def marker(self, there):
        if MARKER not in there:
            return None
        return self.content(MARKER)[:100].decode("ascii", "replace")

    def upload(self, file, there, meter):
        import boto3.s3.transfer

        key = f"{self.key}/{file.name}"
        with self.explained():
            if file.name in there and there[file.name]["Size"] == file.size:
                head = self.client.head_object(Bucket=self.bucket, Key=key)
                if head.get("Metadata", {}).get("sha256") == file.sha256:
                    meter.add(file.size)
                    return
            sent = 0

            def count(bytes_sent):
                nonlocal sent
                bytes_sent = min(bytes_sent, file.size - sent)  # parts that were sent again count once
                sent += bytes_sent
                meter.add(bytes_sent)

            self.client.upload_file(str(file.path), self.bucket, key, ExtraArgs={"Metadata": {"sha256": file.sha256}}, Callback=count,
                                    Config=boto3.s3.transfer.TransferConfig(max_concurrency=PARALLEL))


def is_same(store, there, local):
    """True if this output lies there already, whole."""
    return SUMS in there and {file.name for file in local} <= there.keys() and store.content(SUMS) == local[-1].path.read_bytes()


def covers(rights, store, there):
    """True if an output with these rights may replace what is there."""
    if rights["any"]:
        return True
    try:
        mark = json.loads(store.content(OWNER)) if OWNER in there else {}
        return any(rights[key] and mark.get(key) == rights[key] for key in ("job_id", "owner"))
    except (ValueError, AttributeError):
        return False


def require_free(store, there, local, options, unfinished=False):
    """Refuses what somebody else has put there. `unfinished`: this output, of a push that was broken off."""
    if not there or unfinished or (local and is_same(store, there, local)) or set(there) <= {"README.md", MARKER}:
        return
    if REPORT not in there and MARKER not in there:
        raise RemoteError("EXISTS", f"{store.url}: has files, and dotresize has not made them")
    if not options.overwrite:
        raise RemoteError("EXISTS", f"{store.url}: exists; output.overwrite: true replaces it")
    if not covers(options.rights, store, there):
        raise RemoteError("NO_PERMISSION", f"{store.url}: its {OWNER} does not name the owner of this job, so only an admin's job may "
                          "replace it; choose another place")


def for_all(items, action, meter):
    """action(item) of all, some at a time; the first error ends it."""
    with concurrent.futures.ThreadPoolExecutor(PARALLEL) as pool:
        futures = [pool.submit(action, item) for item in items]
        try:
            for future in concurrent.futures.as_completed(futures):
                future.result()
        except BaseException:
            meter.stopped.set()
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def store_of(url):
    if HUB.fullmatch(url):
        return HubStore(url)
    if S3.fullmatch(url):
        return S3Store(url)
    raise RemoteError("INVALID", f"{url[:300]!r} is neither hf://OWNER/NAME[@REVISION] nor s3://BUCKET/KEY")
