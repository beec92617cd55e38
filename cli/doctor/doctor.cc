#include "cli/doctor/doctor.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/ids.h"
#include "cli/terminal/escape.h"
#include "cli/terminal/exit_codes.h"
#include "cli/terminal/interrupt.h"

namespace hearth::cli {
namespace {

std::ptrdiff_t count_of(const std::vector<Finding>& findings, Health health) {
  return std::count_if(findings.begin(), findings.end(),
                       [&](const Finding& finding) { return finding.health == health; });
}

}  // namespace

std::vector<std::string> doctor_lines(const std::vector<Finding>& findings) {
  constexpr std::size_t kHealthColumns = 9;
  constexpr std::size_t kCheckColumns = 13;
  std::vector<std::string> lines;
  for (const Finding& finding : findings) {
    lines.push_back(fmt::format("{:<{}}{:<{}}{}", health_name(finding.health), kHealthColumns,
                                finding.check, kCheckColumns, escape_control(finding.text)));
    std::istringstream mends(finding.mend);
    for (std::string mend; std::getline(mends, mend);) {
      lines.push_back(std::string(kHealthColumns + kCheckColumns, ' ') +
                      "mend: " + escape_control(mend));
    }
  }
  lines.push_back(std::to_string(count_of(findings, Health::kFailed)) + " failed, " +
                  counted(count_of(findings, Health::kWarning), "warning"));
  return lines;
}

std::string doctor_json(const std::vector<Finding>& findings, const std::string& our_version) {
  using OrderedJson = nlohmann::ordered_json;
  OrderedJson all = OrderedJson::array();
  for (const Finding& finding : findings) {
    OrderedJson one = {
        {"check", finding.check}, {"health", health_name(finding.health)}, {"text", finding.text}};
    if (!finding.mend.empty()) one["mend"] = finding.mend;
    all.push_back(std::move(one));
  }
  const OrderedJson out = {{"version", our_version},
                           {"failed", count_of(findings, Health::kFailed)},
                           {"warnings", count_of(findings, Health::kWarning)},
                           {"findings", std::move(all)}};
  return out.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);  // paths may be no UTF-8
}

int run_doctor(const DoctorOptions& options) {
  catch_interrupts();
  const std::vector<Finding> findings = judge(probe_machine(options), HEARTH_VERSION);
  if (interrupted()) return kExitInterrupted;
  if (options.json) {
    std::printf("%s\n", escape_json(doctor_json(findings, HEARTH_VERSION)).c_str());
  } else {
    for (const std::string& line : doctor_lines(findings)) std::printf("%s\n", line.c_str());
  }
  return count_of(findings, Health::kFailed) > 0 ? kExitFailed : kExitDone;
}

}  // namespace hearth::cli
