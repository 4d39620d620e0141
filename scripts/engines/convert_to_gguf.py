"""llama.cpp's own converter, to float32 and without a tokenizer: it knows those by a hash, and tokens are given as ids here.

convert_to_gguf.py CONVERTER FILE MODEL_DIR    CONVERTER: the folder of convert_hf_to_gguf.py
"""

import runpy
import sys
from pathlib import Path


def no_tokenizer(model):
    model._set_vocab_none()
    model.gguf_writer.add_vocab_size(model.hparams["vocab_size"])


def leave_out_tokenizers(conversion):
    known_class = conversion.get_model_class

    def get_model_class(*arguments, **options):
        model_class = known_class(*arguments, **options)
        model_class.set_vocab = no_tokenizer
        return model_class

    conversion.get_model_class = get_model_class


def main(converter, file, model_dir):
    sys.path[:0] = [str(converter), str(converter / "gguf-py")]
    import conversion

    leave_out_tokenizers(conversion)
    sys.argv = ["convert_hf_to_gguf.py", model_dir, "--outtype", "f32", "--outfile", file]
    runpy.run_path(str(converter / "convert_hf_to_gguf.py"), run_name="__main__")


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
