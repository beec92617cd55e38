// hearth doctor: what of this machine stands in the way, each with the line that mends it.
#pragma once

#include <string>
#include <vector>

#include "cli/doctor/findings.h"
#include "cli/doctor/probes.h"

namespace hearth::cli {

// kExitDone when nothing has failed, kExitFailed otherwise.
int run_doctor(const DoctorOptions& options);

std::vector<std::string> doctor_lines(const std::vector<Finding>& findings);
std::string doctor_json(const std::vector<Finding>& findings, const std::string& our_version);

}  // namespace hearth::cli
