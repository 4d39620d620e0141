#include "job/spec/eval_request.h"

namespace dotresize {

std::string to_string(Runtime runtime) { return runtime == Runtime::kOwn ? "own" : "transformers"; }

}  // namespace dotresize
