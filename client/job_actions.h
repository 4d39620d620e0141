#pragma once

#include <string>
#include <vector>

#include "client/verb.h"

namespace dotresize {

// What the verbs of verbs_jobs.cpp do. Each prints for people, or one JSON document, and returns
// the program's exit code. Throws RpcError, and InputError for files that cannot be read.

struct SubmitOptions {
  std::string job_file;
  std::string request_id;
  bool wait = false;
};

int submit_job(const SubmitOptions& options, const CommonOptions& common);

int print_status(const std::string& id, const CommonOptions& common);

/// Shows the job's progress until it has ended.
int print_progress(const std::string& id, const CommonOptions& common);

struct ListOptions {
  std::vector<std::string> states;
  std::string name;
  int limit = 20;
};

int list_jobs(const ListOptions& options, const CommonOptions& common);

/// The values of ListOptions::states.
std::vector<std::string> state_names();

/// `wait`: until the job's processes are gone.
int cancel_job(const std::string& id, bool wait, const CommonOptions& common);
int delete_job(const std::string& id, const CommonOptions& common);

/// `follow`: until the job has ended.
int print_logs(const std::string& id, bool follow, const CommonOptions& common);

/// `what`: the id of a job that has succeeded, or a model directory.
int print_report(const std::string& what, const CommonOptions& common);

}  // namespace dotresize
