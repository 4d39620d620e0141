"""A model in a GGUF file as a Hugging Face directory, in float32: what the file's quantised weights stand for."""

import argparse
from pathlib import Path


def convert(file, directory):
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    source = {"pretrained_model_name_or_path": str(file.parent), "gguf_file": file.name}
    model = AutoModelForCausalLM.from_pretrained(**source, dtype=torch.float32)
    forget_quantization(model)
    model.save_pretrained(directory)
    AutoTokenizer.from_pretrained(**source).save_pretrained(directory)
    for written in directory.iterdir():
        written.chmod(0o644)


def forget_quantization(model):
    """The weights are dense now, and `save_pretrained` would say otherwise."""
    del model.config.quantization_config
    model.hf_quantizer = None
    model.is_quantized = False


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("gguf", type=Path)
    parser.add_argument("directory", type=Path, help="the new model directory")
    options = parser.parse_args()
    convert(options.gguf, options.directory)


if __name__ == "__main__":
    main()
