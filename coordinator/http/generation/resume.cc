#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "coordinator/http/generation/generation.h"
#include "coordinator/http/generation/kept_request.h"

namespace hearth::coordinator::http {
namespace {

GenerationInput input_of(KeptRequest&& kept, Keep keep) {
  GenerationInput input;
  const SequenceOpen& open = kept.prompts.front().open;
  GenerationRequest& request = input.request;
  request.chat = kept.chat;
  request.n = kept.n;
  request.stream = kept.stream;
  request.include_usage = kept.include_usage;
  request.seed = open.sampling.seed;
  request.stop = std::move(kept.stop);
  request.sampling = open.sampling;
  request.ignore_eos = open.sampling.stop_tokens.empty();
  request.return_token_ids = kept.return_token_ids;
  request.return_hashes = open.report_hashes;
  request.asked.drafts = open.drafts;
  request.policy = std::move(kept.policy);
  request.policy.owner = keep.owner;
  request.echo = !kept.echoes.empty();
  request.tools = std::move(kept.answer.tools);
  request.parallel_tool_calls = kept.answer.parallel_tool_calls;
  request.separate_reasoning = kept.answer.separate_reasoning;
  input.prompt_tail = std::move(kept.answer.prompt_tail);
  input.echoes = std::move(kept.echoes);
  for (SubmitMessage& prompt : kept.prompts) input.prompts.push_back(std::move(prompt.prompt));
  input.keep = std::move(keep);
  return input;
}

std::vector<std::size_t> prompt_lengths(const KeptRequest& kept) {
  std::vector<std::size_t> lengths;
  for (const SubmitMessage& prompt : kept.prompts) {
    lengths.insert(lengths.end(), kept.n, prompt.prompt.size());
  }
  return lengths;
}

// For a model that is no longer served: the first model, which refuses the request.
const ServedModel& model_of(const Api& api, const RequestRow& row) {
  const auto fingerprint = kept_fingerprint(row.request);
  const ServedModel* found = fingerprint.ok() ? api.models.of_fingerprint(*fingerprint) : nullptr;
  return found != nullptr ? *found : api.model;
}

Status resume_request(const std::shared_ptr<Api>& api, RequestRow& row, const ServedModel& served,
                      Keep keep) {
  const model::ModelSpec& spec = served.spec;
  const StepShape shape{spec.hidden, spec.vocabulary, spec.context, false};
  const std::int64_t now = api->clock.unix_seconds();
  const std::int64_t longest = api->options.timeouts.kept;
  Begun begun;
  begun.kept = std::chrono::seconds(longest);
  if (row.ended != 0) {
    // The clock may have been wrong when the row was written.
    const std::int64_t age =
        std::clamp<std::int64_t>(now - std::max<std::int64_t>(row.ended, 0), 0, longest);
    if (age == longest) return Error{ErrorCode::kTimeout, "the kept request has expired"};
    begun.kept -= std::chrono::seconds(age);
  }
  TRY(KeptRequest kept, decode_kept_request(row.request, shape, served.fingerprint));
  begun.created = kept.created;
  begun.receipt = kept.receipt;
  begun.answers = read_answers(row.tokens, prompt_lengths(kept), shape);
  for (const SubmitMessage& prompt : kept.prompts) {
    begun.lengths.push_back(prompt.open.sampling.max_tokens);
  }
  GenerationInput input = input_of(std::move(kept), std::move(keep));
  input.model = served.number;
  if (api->options.accounts) {
    TRY(input.request.policy.account, api->options.accounts->of_key(input.request.policy.owner));
  }
  if (!Generation::resume(api, std::move(input), std::move(begun))) {
    return Error{ErrorCode::kNoCapacity, "too many kept requests run; some cannot be continued"};
  }
  return ok_status();
}

}  // namespace

std::vector<std::vector<SampledToken>> read_answers(const std::vector<Bytes>& rows,
                                                    const std::vector<std::size_t>& prompts,
                                                    const StepShape& shape) {
  std::vector<std::vector<SampledToken>> answers(prompts.size());
  for (const Bytes& row : rows) {
    auto message = decode_step_tokens(row, shape);
    if (!message.ok()) break;
    for (SampledToken& token : message->tokens) {
      const std::uint64_t choice = token.sequence.value;
      if (choice >= prompts.size() || token.finish == FinishReason::kError) return answers;
      std::vector<SampledToken>& answer = answers[choice];
      // Skips a token that another process wrote again, and all tokens behind a gap.
      const bool next = token.position == prompts[choice] + answer.size();
      const bool open = answer.empty() || answer.back().finish == FinishReason::kNone;
      if (next && open) answer.push_back(std::move(token));
    }
  }
  return answers;
}

void resume_requests(const std::shared_ptr<Api>& api, std::vector<RequestRow> rows) {
  const std::size_t before = api->generations.size();
  std::size_t resumed_rows = 0;
  // The oldest first.
  for (auto row = rows.rbegin(); row != rows.rend(); ++row) {
    const ServedModel& served = model_of(*api, *row);
    Keep keep = api->kept.keep(row->name, row->digest, row->owner, served.fingerprint);
    const Status resumed = resume_request(api, *row, served, keep);
    if (!resumed.ok()) {
      if (resumed.error().code != ErrorCode::kTimeout) {
        spdlog::warn("a kept request cannot be continued: {}", resumed.error().message);
      }
      api->kept.remove_row(keep);
      continue;
    }
    ++resumed_rows;
  }
  const std::size_t running = api->generations.size() - before;
  if (resumed_rows == 0) return;
  spdlog::info("continuing {} requests of the process before, keeping {} of its answers", running,
               resumed_rows - running);
}

}  // namespace hearth::coordinator::http
