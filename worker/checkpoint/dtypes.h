#pragma once

#include <c10/core/ScalarType.h>

#include <string>

#include "job/model/dtype.h"

namespace dotresize {

/// Returns the torch dtype of a safetensors dtype. Throws InputError, naming it, unless it is F64,
/// F32, F16, BF16, I64, I32, I16, I8, U32, U16, U8 or BOOL.
at::ScalarType torch_dtype(const std::string& safetensors_dtype);

/// Returns the safetensors dtype of a torch dtype of the list above. Throws std::logic_error for
/// others.
std::string safetensors_dtype(at::ScalarType dtype);

at::ScalarType scalar_type(Dtype dtype);

}  // namespace dotresize
