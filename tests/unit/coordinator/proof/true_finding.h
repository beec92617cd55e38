// What a referee finds where every stage of two is right that says `kTruth`.
#pragma once

#include <string>
#include <vector>

#include "base/crypto.h"
#include "coordinator/proof/referee.h"
#include "proto/committed_sampling.h"
#include "tests/unit/coordinator/proof/receipt_stage.h"

namespace hearth::testing {

inline const char* const kTruth = "what passed between the stages";

inline coordinator::RefereeFinding finding_of(const coordinator::RefereeCase& request,
                                              std::vector<TokenId> sampled) {
  coordinator::RefereeFinding found;
  std::vector<std::uint32_t> tokens;
  for (const auto* part : {&request.prompt, &request.answer}) {
    for (const TokenId token : *part) tokens.push_back(static_cast<std::uint32_t>(token));
  }
  tokens.resize(request.positions);
  const Hash256 ends =
      ledger::commit_tokens(request.salt, 0, tokens, encode_committed(request.sampling));
  const Hash256 between =
      ledger::boundary_root(request.salt, 0, boundary_rows(kTruth, request.positions));
  found.windows[0] = {{ends, between}, {between, ends}};
  found.tokens = sampled;
  found.sampled = std::move(sampled);
  return found;
}

}  // namespace hearth::testing
