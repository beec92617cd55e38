// Any bytes as a file of nodes: a problem that can be planned, or a refusal that says why.
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/check.h"
#include "cli/plan/nodes_file.h"
#include "placement/plan.h"

namespace {

constexpr std::size_t kPlanned = 6;  // nodes: a plan takes its time

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace hearth;
  const placement::Model model{{100, 90, 110}, 50, 70, 1'000, 1};
  auto problem = cli::read_plan_nodes({reinterpret_cast<const char*>(data), size}, model);
  if (!problem.ok()) {
    INVARIANT(!problem.error().message.empty(), "a refusal says why");
    return 0;
  }
  INVARIANT(placement::check(*problem).ok(), "what is read is in its ranges");
  if (problem->nodes.size() > kPlanned) return 0;
  problem->objective =
      size % 2 == 0 ? placement::Objective::kLatency : placement::Objective::kThroughput;
  const auto plan = placement::plan(*problem);
  if (!plan.ok()) return 0;
  for (const placement::Stage& stage : plan->stages) {
    INVARIANT(placement::fits(*problem, stage), "a stage fits its node");
  }
  placement::improvements(*problem, *plan);
  return 0;
}
