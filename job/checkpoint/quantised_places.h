#pragma once

#include <filesystem>

#include "job/checkpoint/checkpoint_table.h"
#include "job/model/model_config.h"

namespace dotresize {

/// Gives each weight of 8 or 4 bits its scales, which are stored beside it, and takes these out of
/// the table, with the scales of activations and caches. Weights of other dtypes stay as they are:
/// the files decide which ones are quantised. Throws InputError for a weight without scales, with
/// two kinds of them, with zero points, or with scales that do not fit it; and for quantised
/// weights beside the text part of a wrapper, which an output would copy.
void take_scales(const std::filesystem::path& dir, const Quantisation& quantisation,
                 CheckpointTable& table);

}  // namespace dotresize
