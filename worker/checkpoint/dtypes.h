#pragma once

#include <c10/core/ScalarType.h>

#include <string>

#include "job/model/dtype.h"

namespace dotresize {

/// The torch dtype of a safetensors dtype. Throws InputError, naming it, if it is not one that this
/// project reads: F64, F32, F16, BF16, I64, I32, I16, I8, U32, U16, U8 or BOOL.
at::ScalarType torch_dtype(const std::string& safetensors_dtype);

/// The safetensors dtype of a torch dtype of the list above. Throws std::logic_error for another.
std::string safetensors_dtype(at::ScalarType dtype);

at::ScalarType scalar_type(Dtype dtype);

/// "float32", "float16", "bfloat16" as config.json has them; C++'s name of other dtypes.
std::string dtype_name(at::ScalarType dtype);

}  // namespace dotresize
