// Reference: the requests of the simulation, and what each must answer: LocalRunner's tokens and
// hashes, in one process without a network.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "coordinator/coordinator.h"
#include "proto/step.h"
#include "tests/sim/sim_compute.h"

namespace hearth::sim {

struct Answer {
  std::vector<SampledToken> tokens;
  std::map<std::uint32_t, std::vector<RowHash>> hashes;  // by the number of stages
};

class Reference {
 public:
  static constexpr std::uint32_t kRequests = 24;
  static constexpr std::uint32_t kStagesLeast = 3;
  static constexpr std::uint32_t kStagesMost = 5;

  explicit Reference(const EnginePool& pool);
  const coordinator::GenerateRequest& request(std::uint32_t index) const {
    return requests_[index];
  }
  const Answer& answer(std::uint32_t index) const { return answers_[index]; }
  // StageOptions::draft: of the tokens that the answer will have, some, and wrong ones in between.
  // Both outlive it.
  std::function<std::vector<TokenId>(const SequenceOpen& open, Position position)> drafts(
      SimWorld& world) const;

 private:
  std::vector<coordinator::GenerateRequest> requests_;
  std::vector<Answer> answers_;
};

}  // namespace hearth::sim
