#pragma once

#include <string>

#include "server/store/job_store.h"
#include "server/store/state_dir.h"
#include "server/store/trash.h"

namespace dotresize {

/// Deletes an ended job with its events, logs and unfinished output. Throws NOT_FOUND,
/// FAILED_PRECONDITION.
void remove_job(JobStore& store, const StateDir& state, Trash& trash, const std::string& id);

}  // namespace dotresize
