#pragma once

#include <string>
#include <string_view>

#include "dotresize/v1/job.pb.h"

namespace dotresize {

/// Whether a path of a job names something elsewhere: "hf://OWNER/NAME[@REVISION]" on the Hugging
/// Face Hub, "s3://BUCKET/KEY" in an S3-compatible store.
bool is_remote(std::string_view path);

/// Whether any path of the job does.
bool has_remote_paths(const v1::JobSpec& spec);

/// Whether it names something on the Hub, where places have revisions.
bool is_on_hub(std::string_view path);

/// What is wrong with a remote path in the key "model.path"; empty if nothing is.
std::string remote_fault(const std::string& key, const std::string& url);

/// The same place whatever its revision: "hf://OWNER/NAME", with no slash at its end.
std::string without_revision(const std::string& url);

/// The same place at this commit: "hf://OWNER/NAME@COMMIT/FILE". Stores of S3 have no revisions:
/// there it says which content was meant.
std::string at_revision(const std::string& url, const std::string& revision);

/// Whether `url` is `prefix`, "hf://OWNER/" or "s3://BUCKET/KEY", or lies below it.
bool is_url_below(const std::string& url, const std::string& prefix);

/// Throws InputError with the key of a remote path, and what to do: for what works with local files
/// alone.
void require_local_paths(const v1::JobSpec& spec);

}  // namespace dotresize
