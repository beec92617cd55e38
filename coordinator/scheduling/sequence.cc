#include "coordinator/scheduling/sequence.h"

#include <algorithm>
#include <iterator>
#include <string>

namespace hearth::coordinator {

// All requests with the shared scope use one scope: their clients accept that others in it may
// infer their prompts.
std::optional<Hash256> cache_scope(const Hash256& secret, const RequestPolicy& policy) {
  switch (policy.cache) {
    case CacheScope::kKey:
      return keyed_blake2b(secret, as_bytes("key " + policy.cache_owner.value_or(policy.owner)));
    case CacheScope::kShared: return keyed_blake2b(secret, as_bytes("shared"));
    case CacheScope::kOff: break;
  }
  return std::nullopt;
}

Result<bool> Sequence::take_cached(std::uint32_t positions, std::uint32_t most) {
  const std::string name = "sequence " + std::to_string(id.value);
  REQUIRE(scope && positions < tokens_known(), name, " has ", positions,
          " cached positions; with a scope it may have ", tokens_known() - 1,
          ", and without one none");
  REQUIRE(!token_at, name, " has cached positions after its first token");
  if (lost || !answer.empty()) return false;
  REQUIRE(cached == 0, name, " has cached positions a second time");
  cached = std::min(positions, most);
  return cached > 0;
}

Status Sequence::take(const SampledToken& token) {
  const std::string name = "sequence " + std::to_string(id.value);
  REQUIRE(!answered, name, " has a token after its end");
  const std::uint64_t expected = tokens_known() - again;
  REQUIRE(token.position == expected, name, " has a token at position ", token.position,
          "; the next is ", expected);
  if (again > 0) {
    --again;
    const TokenId before = answer[token.position - prompt_tokens];
    REQUIRE(token.token == before && token.finish == FinishReason::kNone, name, " has token ",
            token.token, " at position ", token.position, ", where it had ", before);
    return ok_status();
  }
  REQUIRE(request.embedding == 0 || embedded || token.finish == FinishReason::kError, name,
          " has a token before its embedding");
  answer.push_back(token.token);
  fruitless = 0;
  const std::uint32_t wanted = request.sampling.max_tokens;
  REQUIRE(answer.size() < wanted || token.finish != FinishReason::kNone, name,
          " goes on after its ", wanted, " tokens");
  answered = token.finish != FinishReason::kNone;
  return ok_status();
}

void Sequence::interrupt(TimePoint now, Duration patience, bool failed) {
  epoch = Epoch();
  pages = 0;
  lost = true;
  cached = 0;  // the next pipeline's receipts are of what it computes
  token_at.reset();
  if (failed) ++fruitless;
  lost_at = now;
  resume_by = now + patience;
}

const PrefixChain& Sequence::known_chain() {
  if (!scope) return chain;
  std::vector<TokenId> tokens = request.prompt;
  tokens.insert(tokens.end(), answer.begin(), answer.end());
  extend_chain(chain, *scope, tokens);
  return chain;
}

SequenceOpen Sequence::open() const {
  SequenceOpen open{id, prompt_tokens, request.report_hashes, request.sampling,
                    receipts ? request.receipt : std::nullopt};
  open.scope = scope;
  open.drafts = request.drafts;
  // With the first token all of them are known.
  if (request.score_prompt && answer.empty()) open.scored = request.prompt;
  if (answer.empty()) open.embedding = request.embedding;
  return open;
}

SubmitMessage Sequence::submit() const {
  SubmitMessage submit{epoch, open(), {}};
  submit.prompt.reserve(request.prompt.size() + answer.size());
  submit.prompt.insert(submit.prompt.end(), request.prompt.begin(), request.prompt.end());
  submit.prompt.insert(submit.prompt.end(), answer.begin(), answer.end());
  return submit;
}

Status Sequence::add_hash(const RowHash& hash) {
  REQUIRE(hash.position < tokens_wanted(), "sequence ", id.value, " has a hash at position ",
          hash.position, "; it has at most ", tokens_wanted(), " positions");
  const bool fresh = hashes.emplace(std::pair(hash.position, hash.stage), hash).second;
  REQUIRE(fresh, "sequence ", id.value, " has two hashes of stage ", hash.stage, " at position ",
          hash.position);
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
