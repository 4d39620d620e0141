#pragma once

#include <string>
#include <string_view>

#include "dotresize/v1/job.pb.h"

namespace dotresize {

/// Returns true for a path that is a remote URL: "hf://OWNER/NAME[@REVISION]" on the Hugging Face
/// Hub, or "s3://BUCKET/KEY" in an S3-compatible store.
bool is_remote(std::string_view path);

/// Returns true for a URL on the Hub. Only these have revisions.
bool is_on_hub(std::string_view path);

/// Error text for a remote path in the key (such as "model.path"); empty if it is valid.
std::string remote_fault(const std::string& key, const std::string& url);

/// Returns the URL without its revision: "hf://OWNER/NAME[/FILE]". S3 URLs stay as they are.
std::string without_revision(const std::string& url);

/// Returns the URL at this commit: "hf://OWNER/NAME@COMMIT/FILE". S3 URLs get the revision too: S3
/// has no revisions, but the text then identifies the content.
std::string at_revision(const std::string& url, const std::string& revision);

/// Returns true if `url` is `prefix` ("hf://OWNER/" or "s3://BUCKET/KEY") or lies below it.
bool is_url_below(const std::string& url, const std::string& prefix);

}  // namespace dotresize
