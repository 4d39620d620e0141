#!/usr/bin/env python3
"""Decides whether transformers may run the Python code of a model directory.

    scripts/trusted_code.py MODEL_DIR

Prints "True" if the model is one of dotresize's and its code is that of this repository, byte
for byte, and "False" if it needs none. Any other code is refused: exit code 65.
"""

import json
import re
import sys
from pathlib import Path

CODE = Path(__file__).resolve().parents[1] / "worker" / "python"
CLASSES = {
    "AutoConfig": "configuration_dotresize.DotResizeConfig",
    "AutoModel": "modeling_dotresize.DotResizeModel",
    "AutoModelForCausalLM": "modeling_dotresize.DotResizeForCausalLM",
}
HEAD = "AutoModelForCausalLM"
# Without maps the file derives classes from those of the family, which `architectures` names.
LAYER_SIZES = {
    "AutoConfig": "modeling_layer_sizes.{}Config",
    "AutoModel": "modeling_layer_sizes.{}Model",
    "AutoModelForCausalLM": "modeling_layer_sizes.{}ForCausalLM",
}


class UntrustedCode(Exception):
    """The directory has code that is not dotresize's, or none that can be looked at; the message names the file."""


def code_of(config):
    """The forms that auto_map may have, and the files that have the classes."""
    if not config.get("norm_weights"):
        return [CLASSES], ("configuration_dotresize.py", "modeling_dotresize.py")
    head = re.fullmatch(r"\['(DotResize\w+)ForCausalLM'\]", str(config.get("architectures")))
    # Some families have a wrapper with images, and name all classes of the text part but the head's with Text.
    forms = [{auto: name.format(head[1] + text) for auto, name in LAYER_SIZES.items()} | {HEAD: LAYER_SIZES[HEAD].format(head[1])}
             for text in ("", "Text") if head]  # fmt: skip
    return forms, ("modeling_layer_sizes.py",)


def require_code_of_nemotron_nas(model_dir, config):
    """Raises UntrustedCode unless the directory is one that `dotresize export --to nemotron-nas` makes."""
    sys.path.append(str(CODE))
    from export_nemotron_nas import CONFIGURATION

    file = model_dir / "configuration_decilm.py"
    if config.get("auto_map") != {"AutoConfig": "configuration_decilm.DeciLMConfig"}:
        raise UntrustedCode(f"{model_dir}/config.json: auto_map does not name the code of `dotresize export`")
    if not file.is_file() or file.read_text(encoding="utf-8") != CONFIGURATION:
        raise UntrustedCode(f"{file}: not the file of `dotresize export`: untrusted code")


def may_run_code(model_dir):
    """True if the model has code of its own. Raises UntrustedCode if that is not this repository's."""
    try:
        config = json.loads((model_dir / "config.json").read_text(encoding="utf-8"))
    except ValueError as error:
        raise UntrustedCode(f"{model_dir}/config.json: not JSON: {error}") from error
    if config.get("model_type") == "nemotron-nas":
        require_code_of_nemotron_nas(model_dir, config)
        return True
    if config.get("model_type") != "dotresize":
        return False
    forms, files = code_of(config)
    if config.get("auto_map") not in forms:
        raise UntrustedCode(f"{model_dir}/config.json: auto_map does not name the code of dotresize")
    for name in files:
        if not (model_dir / name).is_file():
            raise UntrustedCode(f"{model_dir / name}: not there, though config.json names it")
        if (model_dir / name).read_bytes() != (CODE / name).read_bytes():
            raise UntrustedCode(f"{model_dir / name}: not the file of this repository: untrusted code")
    return True


def main(arguments):
    if len(arguments) != 1:
        print("usage: trusted_code.py MODEL_DIR", file=sys.stderr)
        return 64
    try:
        print(may_run_code(Path(arguments[0])))
    except (OSError, UntrustedCode) as error:
        print(f"trusted_code: error: {error}", file=sys.stderr)
        return 65
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
