"""Writes a GGUF file in another type of llama.cpp's quantizer: quantize.py SOURCE.gguf OUT.gguf TYPE"""

import sys
from pathlib import Path

from comparison import Refused
from quantized_table import quantize

try:
    quantize(Path(sys.argv[1]), sys.argv[3], Path(sys.argv[2]))
except Refused as reason:
    sys.exit(str(reason))
