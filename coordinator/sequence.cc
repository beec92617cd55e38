#include "coordinator/sequence.h"

#include <iterator>

namespace hearth::coordinator {

Status Sequence::take(const SampledToken& token) {
  const std::string name = "sequence " + std::to_string(id.value);
  REQUIRE(!answered, name + " has a token after its end");
  const std::uint64_t expected = std::uint64_t{prompt_tokens} + generated;
  REQUIRE(token.position == expected, name + " has a token at position " +
                                          std::to_string(token.position) + "; the next is " +
                                          std::to_string(expected));
  ++generated;
  const std::uint32_t wanted = request.sampling.max_tokens;
  REQUIRE(generated < wanted || token.finish != FinishReason::kNone,
          name + " goes on after its " + std::to_string(wanted) + " tokens");
  answered = token.finish != FinishReason::kNone;
  return ok_status();
}

Status Sequence::add_hash(const RowHash& hash) {
  REQUIRE(hash.position < tokens_wanted(), "sequence " + std::to_string(id.value) +
                                               " has a hash at position " +
                                               std::to_string(hash.position) + "; it has at most " +
                                               std::to_string(tokens_wanted()) + " positions");
  const bool fresh = hashes.emplace(std::pair(hash.position, hash.stage), hash).second;
  REQUIRE(fresh, "sequence " + std::to_string(id.value) + " has two hashes of stage " +
                     std::to_string(hash.stage) + " at position " + std::to_string(hash.position));
  return ok_status();
}

bool Sequence::hashes_complete(std::uint32_t stages) const {
  if (!waits_for_hashes()) return false;
  const Position end = stopped ? *stopped : held->position;
  // Rows behind the end may have been computed before the stop came to the first stage.
  const auto behind = hashes.lower_bound({end, 0});
  const auto count = static_cast<std::size_t>(std::distance(hashes.begin(), behind));
  return count >= std::size_t{end} * stages;
}

std::vector<RowHash> Sequence::sorted_hashes() {
  std::vector<RowHash> sorted;
  sorted.reserve(hashes.size());
  for (const auto& [key, hash] : hashes) {
    if (!stopped || hash.position < *stopped) sorted.push_back(hash);
  }
  hashes.clear();
  return sorted;
}

}  // namespace hearth::coordinator
