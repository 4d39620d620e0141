#pragma once

#include "dotresize/v1/jobs.pb.h"

namespace dotresize {

/// QUEUED → STARTING → RUNNING → SUCCEEDED | FAILED | CANCELLED. Returns true for the last three.
inline bool has_ended(v1::Job::State state) {
  return state == v1::Job::SUCCEEDED || state == v1::Job::FAILED || state == v1::Job::CANCELLED;
}

/// Returns true if the job may have processes.
inline bool is_launched(v1::Job::State state) {
  return state == v1::Job::STARTING || state == v1::Job::RUNNING;
}

}  // namespace dotresize
