#include "cli/ledger/recompute.h"

#include <algorithm>
#include <span>
#include <utility>

#include "base/limits.h"
#include "cli/terminal/interrupt.h"
#include "proto/committed_sampling.h"

namespace hearth::cli {
namespace {

std::uint32_t stages_of(const ChoiceClaim& claim) { return claim.receipts.front().stages; }

std::size_t windows_of(const ChoiceClaim& claim) {
  return claim.receipts.size() / stages_of(claim);
}

const ledger::Receipt& receipt_of(const ChoiceClaim& claim, std::size_t window,
                                  std::uint32_t stage) {
  return claim.receipts[window * stages_of(claim) + stage];
}

// Positions that were fed, of all windows.
std::uint32_t length_of(const ChoiceClaim& claim) {
  const ledger::Receipt& last = claim.receipts.back();
  return last.first_position + last.positions;
}

std::size_t answer_of(const ChoiceClaim& claim) {
  return claim.saved.token_ids ? claim.saved.token_ids->size() : 0;
}

bool is_stop(const ChoiceClaim& claim, TokenId token) {
  return std::ranges::find(claim.sampling.stop_tokens, token) != claim.sampling.stop_tokens.end();
}

Difference differs(Differs what, const ChoiceClaim& claim, std::string text) {
  return {what, "choice " + std::to_string(claim.choice) + ": " + std::move(text), claim.choice};
}

// What the receipts say openly: how many positions, and how many of them a prompt's.
std::optional<Difference> check_size(const ChoiceClaim& claim) {
  std::uint64_t prompt = 0;
  for (std::size_t w = 0; w < windows_of(claim); ++w) {
    prompt += receipt_of(claim, w, 0).prompt_positions;
  }
  const std::uint64_t length = length_of(claim);
  const std::uint64_t expected = std::min<std::uint64_t>(claim.prompt.size(), length);
  if (prompt != expected) {
    return differs(Differs::kRequest, claim,
                   "the receipts are of a prompt of " + std::to_string(prompt) +
                       " tokens; this request's has " + std::to_string(claim.prompt.size()) +
                       ": they are of another request");
  }
  const std::uint64_t most = claim.prompt.size() + claim.sampling.max_tokens - 1;
  if (length > most) {
    return differs(Differs::kRequest, claim,
                   "the receipts have " + std::to_string(length) +
                       " positions; this request may have " + std::to_string(most) +
                       ": they are of another request");
  }
  const std::uint64_t least = claim.prompt.size() + answer_of(claim) - 1;
  if (answer_of(claim) > 0 && length < least) {
    Difference out = differs(Differs::kRequest, claim,
                             "this answer took " + std::to_string(least) +
                                 " positions, the receipts have " + std::to_string(length) +
                                 ": later windows are missing, or they are of another request");
    out.position = static_cast<Position>(length);
    return out;
  }
  return std::nullopt;
}

bool commits_to(const ChoiceClaim& claim, std::size_t window, const std::vector<TokenId>& tokens) {
  const ledger::Receipt& receipt = receipt_of(claim, window, 0);
  if (tokens.size() < receipt.first_position + receipt.positions) return false;
  std::vector<std::uint32_t> part;
  part.reserve(receipt.positions);
  for (std::uint32_t i = 0; i < receipt.positions; ++i) {
    part.push_back(static_cast<std::uint32_t>(tokens[receipt.first_position + i]));
  }
  return ledger::commit_tokens(claim.salt, receipt.first_position, part,
                               encode_committed(claim.sampling)) == receipt.tokens;
}

bool root_holds(const ChoiceClaim& claim, const ledger::Receipt& receipt,
                std::span<const Hash256> rows) {
  const std::size_t end = std::size_t{receipt.first_position} + receipt.positions;
  if (rows.size() < end) return false;
  return ledger::boundary_root(claim.salt, receipt.first_position,
                               rows.subspan(receipt.first_position, receipt.positions)) ==
         receipt.out_root;
}

struct Place {
  std::size_t window = 0;
  std::uint32_t stage = 0;
};

// By window, then by stage: the first whose root is another one.
std::optional<Place> wrong_root(const ChoiceClaim& claim,
                                const std::vector<std::vector<Hash256>>& boundaries) {
  for (std::size_t w = 0; w < windows_of(claim); ++w) {
    for (std::uint32_t stage = 0; stage < boundaries.size(); ++stage) {
      if (!root_holds(claim, receipt_of(claim, w, stage), boundaries[stage])) {
        return Place{w, stage};
      }
    }
  }
  return std::nullopt;
}

// The first position of a wrong window, where the client has the hashes that its receipt signs.
std::optional<Position> wrong_row(const ChoiceClaim& claim, const Place& place,
                                  const std::vector<Hash256>& rows) {
  const auto stage = claim.saved.hashes.find(place.stage);
  if (stage == claim.saved.hashes.end()) return std::nullopt;
  const ledger::Receipt& receipt = receipt_of(claim, place.window, place.stage);
  const std::size_t end = std::size_t{receipt.first_position} + receipt.positions;
  std::vector<Hash256> said(end);
  for (std::size_t p = receipt.first_position; p < end; ++p) {
    const auto row = stage->second.find(static_cast<Position>(p));
    if (row == stage->second.end()) return std::nullopt;
    said[p] = row->second;
  }
  if (!root_holds(claim, receipt, said)) return std::nullopt;
  for (std::size_t p = receipt.first_position; p < std::min(end, rows.size()); ++p) {
    if (said[p] != rows[p]) return static_cast<Position>(p);
  }
  return std::nullopt;
}

Difference false_stage(const ChoiceClaim& claim, const Place& place,
                       const std::vector<Hash256>& rows) {
  const ledger::Receipt& receipt = receipt_of(claim, place.window, place.stage);
  const auto row = wrong_row(claim, place, rows);
  Difference out =
      differs(Differs::kStage, claim,
              "window " + std::to_string(place.window) + ", stage " + std::to_string(place.stage) +
                  ": what came in at layer " + std::to_string(receipt.layer_begin) +
                  " is right, and what went out of layer " + std::to_string(receipt.layer_end - 1) +
                  " is not what these layers give" +
                  (row ? ", from position " + std::to_string(*row) + " on" : "") + "; signed by " +
                  receipt.worker.hex());
  out.window = static_cast<std::uint32_t>(place.window);
  out.stage = place.stage;
  out.position = row;
  return out;
}

std::string token_text(const std::optional<TokenId>& token) {
  return token ? "token " + std::to_string(*token) : "the end of the answer";
}

// A token of the answer, by its place in it.
Difference false_token(const ChoiceClaim& claim, std::size_t at, std::optional<TokenId> model) {
  const std::uint32_t last = stages_of(claim) - 1;
  const auto position = static_cast<Position>(claim.prompt.size() + at);
  // It was sampled from the position before.
  const std::uint32_t window = (position - 1) / limits::kWindowPositions;
  Difference out = differs(
      Differs::kStage, claim,
      "window " + std::to_string(window) + ", stage " + std::to_string(last) + ": position " +
          std::to_string(position) + " has " + token_text((*claim.saved.token_ids)[at]) +
          ", and the receipts sign it; what came before it gives " + token_text(model) +
          "; signed by " + receipt_of(claim, window, last).worker.hex());
  out.window = window;
  out.stage = last;
  out.position = position;
  return out;
}

Difference changed_answer(const ChoiceClaim& claim, std::size_t at, std::optional<TokenId> model,
                          std::string_view why) {
  const auto position = static_cast<Position>(claim.prompt.size() + at);
  Difference out =
      differs(Differs::kAnswer, claim,
              "token " + std::to_string(at) + " of the answer (position " +
                  std::to_string(position) + ") is " + token_text((*claim.saved.token_ids)[at]) +
                  " here; " + std::string(why) + token_text(model));
  out.window = position / limits::kWindowPositions;
  out.position = position;
  return out;
}

// The tokens are as the model gives them, and a commitment is another one. `holds`: all roots
// between stages do, so that tokens and salt are right.
Difference other_commitment(const ChoiceClaim& claim, std::size_t window, bool roots_hold) {
  const std::string where = "window " + std::to_string(window) + ": ";
  Difference out;
  if (roots_hold && stages_of(claim) > 1) {
    out = differs(Differs::kSampling, claim,
                  where +
                      "what passed between the stages is right, and the commitment is not: the "
                      "seed or a sampling parameter of this request is another than the receipts'");
  } else if (window == 0 || stages_of(claim) == 1) {
    out = differs(
        Differs::kSalt, claim,
        where + "nothing is as the receipts have it: the salt or the prompt is another one, " +
            (stages_of(claim) == 1 ? "or the seed or a sampling parameter, " : "") +
            "or the receipts are of another request");
  } else {
    out =
        differs(Differs::kStage, claim,
                where + "its tokens are not those that the model gives; earlier windows are right");
  }
  out.window = static_cast<std::uint32_t>(window);
  return out;
}

}  // namespace

std::string_view differs_name(Differs what) {
  switch (what) {
    case Differs::kModel: return "model";
    case Differs::kRequest: return "request";
    case Differs::kSalt: return "salt";
    case Differs::kSampling: return "sampling";
    case Differs::kAnswer: return "answer";
    case Differs::kStage: return "stage";
  }
  return "request";
}

// `fed`: the prompt, and what is fed of the answer; the rest is the model's own.
Result<Recomputer::Run> Recomputer::run(const ChoiceClaim& claim, std::vector<TokenId> fed) {
  const std::uint32_t length = length_of(claim);
  const auto prompt = static_cast<std::uint32_t>(claim.prompt.size());
  Run out;
  out.tokens = fed;
  out.boundaries.resize(stages_of(claim) - 1, std::vector<Hash256>(length));
  SequenceOpen open;
  open.sequence = SequenceId(next_++);
  open.prompt_tokens = prompt;
  open.report_hashes = true;
  open.sampling = claim.sampling;
  // Neither decides what is sampled. An end that was not taken is to be seen as a token like
  // others.
  open.sampling.stop_tokens.clear();
  open.sampling.max_tokens = length >= prompt ? length - prompt + 1 : 1;
  bool done = false;
  std::uint32_t rows = 0;
  Status failed = ok_status();
  node::LocalRunner::Events events;
  events.on_hash = [&](const RowHash& hash) {
    if (hash.position >= length) return;
    if (hash.stage < out.boundaries.size()) {
      out.boundaries[hash.stage][hash.position] = hash.out;
    } else if (++rows == length && length < prompt) {
      done = true;
    }
  };
  events.on_token = [&](const SampledToken& token) {
    if (done || token.position > length) return;
    if (token.finish == FinishReason::kError) {
      failed = Error{token.error,
                     "this machine could not compute position " + std::to_string(token.position)};
      done = true;
      return;
    }
    SampledToken said = token;
    const bool own = token.position >= fed.size();
    said.finish = FinishReason::kNone;
    if (is_stop(claim, token.token)) said.finish = FinishReason::kStop;
    if (said.finish == FinishReason::kNone &&
        (token.position + 1 - prompt >= claim.sampling.max_tokens ||
         token.position + 1 >= runner_.spec().context)) {
      said.finish = FinishReason::kLength;
    }
    if (own) out.tokens.push_back(token.token);
    out.sampled.push_back(std::move(said));
    done = token.position == length || (own && out.sampled.back().finish != FinishReason::kNone);
  };
  TRY_VOID(runner_.submit(open, fed, events));
  while (!done) {
    if (interrupted()) return Error{ErrorCode::kCancelled, "interrupted"};
    TRY(const bool stepped, runner_.step());
    if (!stepped && !done) return Error{ErrorCode::kNoCapacity, "the engine stalled"};
    progress_(std::min(rows, length), length);
  }
  runner_.cancel(open.sequence);
  for (bool more = true; more;) {  // frees its KV
    TRY(more, runner_.step());
  }
  TRY_VOID(failed);
  return out;
}

Result<Recomputed> Recomputer::check(const ChoiceClaim& claim) {
  Recomputed out;
  out.positions = length_of(claim);
  out.difference = check_size(claim);
  if (out.difference) return out;
  const std::vector<TokenId> none;
  const std::vector<TokenId>& answer = claim.saved.token_ids ? *claim.saved.token_ids : none;
  std::vector<TokenId> fed = claim.prompt;
  const auto room = length_of(claim) - std::min<std::size_t>(length_of(claim), fed.size());
  fed.insert(fed.end(), answer.begin(),
             answer.begin() + static_cast<std::ptrdiff_t>(std::min(room, answer.size())));
  TRY(Run first, run(claim, std::move(fed)));

  const auto sampled_at = [](const Run& run, std::size_t at) -> std::optional<TokenId> {
    if (at >= run.sampled.size()) return std::nullopt;
    return run.sampled[at].token;
  };
  std::size_t at = 0;  // the first token that is not the model's
  while (at < answer.size() && sampled_at(first, at) == answer[at]) ++at;
  const auto wrong = wrong_root(claim, first.boundaries);
  for (std::size_t w = 0; w < windows_of(claim); ++w) {
    if (!commits_to(claim, w, first.tokens)) {
      if (at < answer.size()) {  // its receipts may sign the model's own
        std::vector<TokenId> own = claim.prompt;
        own.insert(own.end(), answer.begin(), answer.begin() + static_cast<std::ptrdiff_t>(at));
        TRY(const Run second, run(claim, std::move(own)));
        if (commits_to(claim, w, second.tokens)) {
          out.difference =
              changed_answer(claim, at, sampled_at(second, at), "the receipts and the model have ");
          return out;
        }
      }
      out.difference = other_commitment(claim, w, !wrong);
      return out;
    }
    if (wrong && wrong->window == w) {
      out.difference = false_stage(claim, *wrong, first.boundaries[wrong->stage]);
      return out;
    }
    const std::size_t end =
        receipt_of(claim, w, 0).first_position + receipt_of(claim, w, 0).positions;
    if (at < answer.size() && claim.prompt.size() + at < end) {
      out.difference = false_token(claim, at, sampled_at(first, at));
      return out;
    }
  }
  if (at < answer.size()) {
    out.difference = changed_answer(claim, at, sampled_at(first, at),
                                    "the last token is in no receipt, and the model gives ");
    return out;
  }
  out.tokens = std::move(first.sampled);
  return out;
}

}  // namespace hearth::cli
