#!/usr/bin/env python
"""Makes the tables of keys in docs/job-file.md from the comments of proto/dotresize/v1/job.proto.

A row is a key of the YAML job file. Its meaning is the field's comment with the comments of its enum
values; a sentence that begins with "Required" or "Default" goes to the column of defaults.

    scripts/job_keys.py   writes the tables between the markers of docs/job-file.md

tests/scripts/test_job_keys.py fails if they are not what is there.
"""

import pathlib
import re
import subprocess
import sys
import tempfile

from google.protobuf import descriptor_pb2

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROTO = "dotresize/v1/job.proto"
PAGE = ROOT / "docs/job-file.md"
FIRST = ["name", "model.path", "output.path", "method.size", "calibration.text", "calibration.tokens",
         "calibration.samples", "calibration.seqlen", "evaluation", "heal", "resources.ranks", "resources.device"]
LONGEST_CELL = 200
_MESSAGES = descriptor_pb2.FileDescriptorProto.MESSAGE_TYPE_FIELD_NUMBER
_FIELDS = descriptor_pb2.DescriptorProto.FIELD_FIELD_NUMBER
_ENUMS = descriptor_pb2.DescriptorProto.ENUM_TYPE_FIELD_NUMBER
_NESTED = descriptor_pb2.DescriptorProto.NESTED_TYPE_FIELD_NUMBER
_VALUES = descriptor_pb2.EnumDescriptorProto.VALUE_FIELD_NUMBER


class Proto:
    """Messages, enums and comments of the proto file, by full name."""

    def __init__(self):
        with tempfile.NamedTemporaryFile() as out:
            subprocess.run(["protoc", "--include_source_info", f"--proto_path={ROOT / 'proto'}",
                            f"--descriptor_set_out={out.name}", PROTO], check=True)
            file = descriptor_pb2.FileDescriptorSet.FromString(out.read()).file[0]
        comments = {tuple(place.path): " ".join((place.leading_comments + place.trailing_comments).split())
                    for place in file.source_code_info.location}
        self.messages, self.enums, self.comments = {}, {}, {}
        for index, message in enumerate(file.message_type):
            self._add(message, (_MESSAGES, index), f".{file.package}", comments)

    def _add(self, message, path, scope, comments):
        name = f"{scope}.{message.name}"
        self.messages[name] = message
        for index, field in enumerate(message.field):
            self.comments[name, field.name] = comments.get((*path, _FIELDS, index), "")
        for index, enum in enumerate(message.enum_type):
            self.enums[f"{name}.{enum.name}"] = [
                (value.name.rstrip("_"), comments.get((*path, _ENUMS, index, _VALUES, number), ""))
                for number, value in enumerate(enum.value)]
        for index, nested in enumerate(message.nested_type):
            self._add(nested, (*path, _NESTED, index), name, comments)

    def keys(self, message=".dotresize.v1.JobSpec", prefix=""):
        """Yields (key, default, meaning) of each field that a job file can set."""
        for field in self.messages[message].field:
            key, comment = prefix + field.name, self.comments[message, field.name]
            if comment:
                yield key, *_columns(comment, self.enums.get(field.type_name, []))
            if field.type == field.TYPE_MESSAGE:
                yield from self.keys(field.type_name, key + ".")


def _columns(comment, values):
    """Splits a comment into the default and the meaning, to which the enum's values are added."""
    default = values[0][0] if values else ""
    meaning = []
    for sentence in re.split(r"(?<=\.) (?=[A-Z`])", comment):
        found = re.fullmatch(r"(Default: |(?=Required))(.*)\.", sentence)
        if found:
            default = found[2][0].lower() + found[2][1:] if not found[1] else found[2]
        else:
            meaning.append(sentence)
    listed = [f"`{name}`" + (f": {what}" if what else "") for name, what in values]
    text = " ".join(meaning)
    if listed:
        text = text.removesuffix(".") + ". " + "; ".join(listed)
    if values and default == values[0][0]:
        default = f"`{default}`"
    return default, text.strip().removesuffix(".")


def table(rows):
    lines = ["| key | default | meaning |", "| --- | --- | --- |"]
    for key, default, meaning in rows:
        for cell in default, meaning:
            if len(cell) > LONGEST_CELL:
                sys.exit(f"job_keys: error: {key}: {len(cell)} characters, more than {LONGEST_CELL}: {cell}")
        lines.append(f"| `{key}` | {default} | {meaning} |")
    return "\n".join(lines)


def with_tables(page, rows):
    first = [row for key in FIRST for row in rows if row[0] == key]
    advanced = [row for row in rows if row[0] not in FIRST]
    for marker, chosen in ("first keys", first), ("advanced keys", advanced):
        begin, end = f"<!-- {marker} of job.proto, by scripts/job_keys.py -->\n", f"<!-- end of {marker} -->"
        before, rest = page.split(begin)
        page = before + begin + table(chosen) + "\n" + end + rest.split(end, 1)[1]
    return page


def main():
    PAGE.write_text(with_tables(PAGE.read_text(), list(Proto().keys())))


if __name__ == "__main__":
    main()
