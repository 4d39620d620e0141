#pragma once

#include <string_view>

namespace dotresize {

/// deploy/kubernetes/mpijob.yaml
std::string_view mpi_job_yaml();

}  // namespace dotresize
