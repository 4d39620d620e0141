#pragma once

#include <string_view>

namespace dotresize {

/// Content of deploy/kubernetes/mpijob.yaml.
std::string_view mpi_job_yaml();

}  // namespace dotresize
