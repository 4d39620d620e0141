"""Texts of files: of their columns if a file is a table of rows (JSON lines, JSON, parquet), else as they stand.

The first of these columns that a table has is read: `messages`, a list of {role, content} for each row; `conversations`, the same or a
list of {from, value}; `text`. Conversations are written as the model's chat template writes them. The template is untrusted code: it
runs in a sandbox without files, for a limited time.
"""

import datetime
import hashlib
import json
import os
import resource
import signal
import stat
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path

TEMPLATE, TEMPLATE_OF_PROCESSOR = "chat_template.jinja", "chat_template.json"
CONFIG, SPECIAL_TOKENS = "tokenizer_config.json", "special_tokens_map.json"
ADDED_TOKENS = "added_tokens.json"
TEMPLATE_FILES = (TEMPLATE, CONFIG, TEMPLATE_OF_PROCESSOR, SPECIAL_TOKENS, ADDED_TOKENS)  # as in job/plan/text_files.h
ABSENT = "absent"  # in place of a SHA-256
COLUMNS = ("messages", "conversations", "text")
ROLES = {"human": "user", "user": "user", "gpt": "assistant", "assistant": "assistant", "system": "system"}
BLANK_LINE = "\n\n"
TODAY = datetime.datetime(2024, 7, 26)  # the date that templates write: the same tokens every day
OTHER_KINDS = {b"\xff\xfe": "UTF-16", b"\xfe\xff": "UTF-16", b"\x1f\x8b": "gzip", b"(\xb5/\xfd": "zstd", b"\xfd7zXZ": "xz", b"BZh": "bzip2",
               b"PK\x03\x04": "zip", b"%PDF-": "PDF"}  # first bytes of files that people take for text
OLDEST_JINJA = (3, 1, 6)  # older sandboxes have known ways out


class InputError(Exception):
    """The model directory or a text cannot be used; the message names the file."""


def read_bytes(path, sha256=None):
    """Bytes of a regular file. Does not wait for the writer of a pipe."""
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise InputError(f"{path}: is not a regular file")
            content = file.read()
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from error
    if sha256 is not None and hashlib.sha256(content).hexdigest() != sha256:
        raise InputError(f"{path}: was changed while it was read")
    return content


def decode(path, content):
    """Text of UTF-8. A file of another kind is named in the error."""
    try:
        text = content.decode("utf-8")
        fault = f"byte {content.index(0)} is zero, as in UTF-16 or in files that are no text" if "\0" in text else None
    except UnicodeDecodeError as error:
        fault = f"byte {error.start} is invalid"
    if fault is None:
        return text
    kind = next((kind for start, kind in OTHER_KINDS.items() if content.startswith(start)), None)
    raise InputError(f"{path}: not UTF-8: {f'it begins as {kind} does' if kind else fault}")


def load_json(text, place):
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{place} is not JSON: {getattr(error, 'msg', 'a number or its depth is too large')}") from error


def rows_of_lines(path, text):
    rows = []
    for number, line in enumerate(text.split("\n"), 1):  # a string may have other line separators as they are
        if line.strip():
            rows.append(load_json(line, f"{path}: line {number}"))
    return rows


def rows_of_json(path, text):
    """Rows of a JSON document, or of JSON lines, which often have the same ending."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return rows_of_lines(path, text)
    return document if isinstance(document, list) else [document]


def rows_of_parquet(path, content):
    import pyarrow
    import pyarrow.parquet

    pyarrow.set_memory_pool(pyarrow.system_memory_pool())  # others reserve more addresses than they use
    try:
        file = pyarrow.parquet.ParquetFile(pyarrow.BufferReader(content))
        names = file.schema_arrow.names
        chosen = column_of(path, names)
        return file.read(columns=[chosen], use_threads=False).to_pylist()
    except (pyarrow.ArrowException, OSError) as error:
        raise InputError(f"{path}: not a parquet file that can be read") from error


def column_of(path, names):
    for column in COLUMNS:
        if column in names:
            return column
    found = ", ".join(map(repr, list(names)[:20])) or "none"
    raise InputError(f"{path}: has the columns {found}, and one of {', '.join(COLUMNS)} is needed: rename the one to read")


def text_of_token(token):
    text = token.get("content") if isinstance(token, dict) else token
    return text if isinstance(text, str) else None


class ChatTemplate:
    """The chat template of a model, with its special tokens. `sha256`: what is known of each of TEMPLATE_FILES."""

    def __init__(self, model_dir, sha256=None):
        self.model_dir = Path(model_dir)
        self.sha256 = dict(zip(TEMPLATE_FILES, sha256 or [None] * len(TEMPLATE_FILES), strict=True))

    def _read(self, name):
        path, sha256 = self.model_dir / name, self.sha256[name]
        if sha256 == ABSENT or (sha256 is None and not path.exists()):
            return None
        return decode(path, read_bytes(path, sha256))

    def _read_object(self, name):
        text = self._read(name)
        document = {} if text is None else load_json(text, self.model_dir / name)
        if not isinstance(document, dict):
            raise InputError(f"{self.model_dir / name}: must be a JSON object")
        return document

    def _token_settings(self):
        """{file: settings} of the files that name tokens. As in transformers, added_tokens_decoder stands for all files but its own."""
        config = self._read_object(CONFIG)
        if "added_tokens_decoder" in config:
            return {CONFIG: config}
        return {CONFIG: config, SPECIAL_TOKENS: self._read_object(SPECIAL_TOKENS), ADDED_TOKENS: self._read_object(ADDED_TOKENS)}

    @cached_property
    def special_tokens(self):
        """Texts by name. The map has the last word, as in transformers; its null takes a token away."""
        settings = self._token_settings()
        given = settings[CONFIG] | settings.get(SPECIAL_TOKENS, {})
        texts = {name: text_of_token(token) for name, token in given.items() if name.endswith("_token")}
        return {name: text for name, text in texts.items() if text is not None}

    def tokens_of_transformers(self):
        """{text: file} of the tokens that transformers adds to those of tokenizer.json."""
        tokens = {}
        for file, given in self._token_settings().items():
            if file == ADDED_TOKENS:
                tokens |= dict.fromkeys(given, file)
                continue
            named = [token for name, token in given.items() if name.endswith("_token")]
            for name in ("additional_special_tokens", "extra_special_tokens", "added_tokens_decoder"):
                more = given.get(name) or []
                named += more.values() if isinstance(more, dict) else more if isinstance(more, list) else []
            tokens |= {text_of_token(token): file for token in named}
        return {text: file for text, file in tokens.items() if text}

    def splits_special_tokens(self):
        return self._read_object(CONFIG).get("split_special_tokens") is True

    def _source(self):
        """Text of the template, and its file."""
        text = self._read(TEMPLATE)
        if text is not None:
            return text, TEMPLATE
        for name in (CONFIG, TEMPLATE_OF_PROCESSOR):
            found = self._read_object(name).get("chat_template")
            if isinstance(found, list):  # one for each purpose
                found = {each.get("name"): each.get("template") for each in found if isinstance(each, dict)}
            if isinstance(found, dict):
                if "default" not in found:
                    raise InputError(f"{self.model_dir / name}: chat_template has templates named {', '.join(map(str, found))[:200]}, and messages "
                                     "are written with the one named default")
                found = found["default"]
            if isinstance(found, str):
                return found, name
            if found is not None:
                raise InputError(f"{self.model_dir / name}: chat_template is not a text")
        raise InputError(f"{self.model_dir}: has no chat template, which messages need, neither {TEMPLATE} nor chat_template in {CONFIG}: "
                         "give text, or a model with a template")

    @cached_property
    def _compiled(self):
        import jinja2.ext
        import jinja2.sandbox

        if tuple(map(int, jinja2.__version__.split(".")[:3])) < OLDEST_JINJA:
            raise ImportError(f"chat templates need jinja2 3.1.6 or newer, and {jinja2.__version__} is installed")

        class Generation(jinja2.ext.Extension):
            """{% generation %} marks what a model has written, which makes no difference to the text."""

            tags = {"generation"}

            def parse(self, parser):
                line = next(parser.stream).lineno
                return jinja2.nodes.Scope(parser.parse_statements(["name:endgeneration"], drop_needle=True)).set_lineno(line)

        class Environment(jinja2.sandbox.ImmutableSandboxedEnvironment):
            intercepted_binops = frozenset(["**"])  # one such operation may take for ever

            def call_binop(self, context, operator, left, right):
                raise jinja2.sandbox.SecurityError(f"the operator {operator} is not allowed")

        def raise_exception(message):
            raise TemplateRefusal(message)

        def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
            return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

        # The settings with which transformers runs templates.
        environment = Environment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols])
        environment.filters["tojson"] = tojson
        environment.globals.update(raise_exception=raise_exception, strftime_now=TODAY.strftime)
        text, name = self._source()
        try:
            return environment.from_string(text)
        except jinja2.TemplateSyntaxError as error:
            raise InputError(f"{self.model_dir / name}: not a chat template: a fault at line {error.lineno}") from error

    def write(self, messages, place):
        """Text of a conversation."""
        try:
            return self._compiled.render(messages=messages, tools=None, documents=None, add_generation_prompt=False, **self.special_tokens)
        except TemplateRefusal as refusal:
            raise InputError(f"{place}: the chat template of {self.model_dir} refuses it: {str(refusal)[:200]}") from refusal
        except (InputError, ImportError, MemoryError):
            raise
        except Exception as error:  # a template can fail in any way
            raise InputError(f"{place}: the chat template of {self.model_dir} fails: {type(error).__name__}") from error


class TemplateRefusal(Exception):
    """A template's own words about a conversation."""


@contextmanager
def limited_time(seconds, what):
    """Limits the processor time of untrusted code. An operation in C is not interrupted; twice the time later the process is killed."""
    def stop(*_):
        raise InputError(f"{what} took more than {seconds:.0f} s")

    usage = resource.getrusage(resource.RUSAGE_SELF)
    soft, hard = resource.getrlimit(resource.RLIMIT_CPU)
    longest = int(usage.ru_utime + usage.ru_stime + 3 * seconds) + 1
    before = signal.signal(signal.SIGVTALRM, stop)
    if hard == resource.RLIM_INFINITY or longest < hard:
        resource.setrlimit(resource.RLIMIT_CPU, (longest, hard))
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
        resource.setrlimit(resource.RLIMIT_CPU, (soft, hard))


def messages_of(conversation, place):
    """A conversation as a list of {role, content}. Other keys of such messages stay for the template, except those whose value is
    null: transformers leaves them out too, and parquet has one for each key of any message."""
    wrong = InputError(f"{place} must be a list of objects with role and content, or with from and value")
    if not isinstance(conversation, list) or not conversation:
        raise wrong
    messages = []
    for message in conversation:
        if not isinstance(message, dict):
            raise wrong
        if "role" not in message and message.keys() >= {"from", "value"}:
            if message["from"] not in ROLES:
                raise InputError(f"{place}: from {str(message['from'])[:50]!r} is not one of {', '.join(ROLES)}")
            message = {"role": ROLES[message["from"]], "content": message["value"]}
        if not isinstance(message.get("role"), str) or not isinstance(message.get("content"), str | list | None):
            raise wrong
        messages.append({key: value for key, value in message.items() if value is not None})
    return messages


def text_of_rows(path, rows, template):
    if not rows:
        raise InputError(f"{path}: has no rows")
    for number, row in enumerate(rows, 1):
        if not isinstance(row, dict):
            raise InputError(f"{path}: row {number} is not an object")
    column = column_of(path, rows[0])
    values = []
    for number, row in enumerate(rows, 1):
        if row.get(column) is None:
            raise InputError(f"{path}: row {number} has no {column}")
        values.append(row[column])
    if column == "text":
        for number, value in enumerate(values, 1):
            if not isinstance(value, str):
                raise InputError(f"{path}: row {number}: text is not a text")
            if any("\ud800" <= letter <= "\udfff" for letter in value):
                raise InputError(f"{path}: row {number}: text has half of a surrogate pair, which is no character")
        return BLANK_LINE.join(values)
    places = [f"{path}: row {number}: {column}" for number in range(1, len(values) + 1)]
    conversations = [messages_of(value, place) for value, place in zip(values, places, strict=True)]
    with limited_time(5 + 0.02 * len(conversations), f"{path}: the chat template of {template.model_dir}"):
        # A template writes where a conversation begins and ends.
        return "".join(template.write(messages, place) for messages, place in zip(conversations, places, strict=True))


def looks_like_json_lines(text):
    """True if the first lines that are not blank are JSON objects."""
    lines = [line for line in text[:1 << 20].split("\n")[:20] if line.strip()]
    try:
        return bool(lines) and all(isinstance(json.loads(line), dict) for line in lines[:3])
    except (ValueError, RecursionError):
        return False


def text_of_file(path, template, sha256=None):
    """Text of a file, whose rows are written with the `template` if they are conversations."""
    content, ending = read_bytes(path, sha256), Path(path).suffix.lower()
    if ending == ".parquet":
        return text_of_rows(path, rows_of_parquet(path, content), template)
    if content.startswith(b"PAR1"):
        raise InputError(f"{path}: is a parquet file, not text: with a name that ends in .parquet its columns are read")
    text = decode(path, content)
    if ending in (".jsonl", ".json"):
        rows = (rows_of_lines if ending == ".jsonl" else rows_of_json)(path, text.removeprefix("\ufeff"))
        return text_of_rows(path, rows, template)
    if looks_like_json_lines(text):
        raise InputError(f"{path}: has JSON lines, not text: with a name that ends in .jsonl its columns are read")
    return text
