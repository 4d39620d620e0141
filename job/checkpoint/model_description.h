#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace dotresize {

/// A model as the exporters (worker/python/exporting.py) get it. They write only what this says,
/// and have no reader of their own.
struct ModelDescription {
  /// One object, for the exporters' standard input:
  ///   name: the last part of the directory's path, without links
  ///   config: every setting with its value, also where config.json leaves it to transformers
  ///   settings: config.json as that of a stock model of the family
  ///   tensors: file, dtype, shape, begin and end of exactly the tensors that the config implies;
  ///     whole: the name in the family's files of the tensor of all experts that it is a part of
  ///   companions: the names of the tokenizer's files and their like
  ///   files: stamps of all files of this description, from before they were read
  std::string json;
  std::vector<std::string> warnings;  ///< see SourceModel
};

/// Ends of the sentences that refuse models which the program that gets the description cannot use.
struct DescriptionRefusals {
  std::string wrapper;    ///< "DIR: is the text part of a gemma3, " ...
  std::string quantised;  ///< "DIR: its weights are quantised (fp8), " ...
};

/// Throws InputError for whatever a job would refuse in its model, for a directory without weights,
/// and for wrappers and quantised weights.
ModelDescription describe_model(const std::filesystem::path& dir,
                                const DescriptionRefusals& refusals);

}  // namespace dotresize
