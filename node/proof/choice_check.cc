#include "node/proof/choice_check.h"

#include <algorithm>
#include <span>
#include <utility>

#include "base/check.h"
#include "base/limits.h"
#include "ledger/dispute/compare_windows.h"
#include "proto/committed_sampling.h"

namespace hearth::node {
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

std::size_t answer_of(const ChoiceClaim& claim) { return claim.answer ? claim.answer->size() : 0; }

template <typename... Parts>
Difference differs(Differs what, const ChoiceClaim& claim, const Parts&... text) {
  return {what, message_of("choice ", claim.choice, ": ", text...), claim.choice};
}

// Compares the public figures of the receipts: the number of positions and of prompt positions.
std::optional<Difference> check_size(const ChoiceClaim& claim) {
  std::uint64_t prompt = 0;
  for (std::size_t w = 0; w < windows_of(claim); ++w) {
    prompt += receipt_of(claim, w, 0).prompt_positions;
  }
  const std::uint64_t length = length_of(claim);
  const std::uint64_t expected = std::min<std::uint64_t>(claim.prompt.size(), length);
  if (prompt != expected) {
    return differs(Differs::kRequest, claim, "the receipts are of a prompt of ", prompt,
                   " tokens; this request's has ", claim.prompt.size(),
                   ": they are of another request");
  }
  const std::uint64_t most = claim.prompt.size() + claim.sampling.max_tokens - 1;
  if (length > most) {
    return differs(Differs::kRequest, claim, "the receipts have ", length,
                   " positions; this request may have ", most, ": they are of another request");
  }
  const std::uint64_t least = claim.prompt.size() + answer_of(claim) - 1;
  if (answer_of(claim) > 0 && length < least) {
    Difference out = differs(Differs::kRequest, claim, "this answer took ", least,
                             " positions, the receipts have ", length,
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

// `rows` reach to the end of the receipt's window.
Hash256 root_of(const ChoiceClaim& claim, const ledger::Receipt& receipt,
                std::span<const Hash256> rows) {
  INVARIANT(rows.size() >= std::size_t{receipt.first_position} + receipt.positions,
            "a boundary has the rows of all windows");
  return ledger::boundary_root(claim.salt, receipt.first_position,
                               rows.subspan(receipt.first_position, receipt.positions));
}

// By window, then by stage: the first boundary between stages whose root is another one.
std::optional<ledger::WindowPlace> wrong_root(const ChoiceClaim& claim,
                                              const std::vector<std::vector<Hash256>>& boundaries) {
  ledger::WindowRoots claimed;
  ledger::WindowRoots found;
  for (std::size_t w = 0; w < windows_of(claim); ++w) {
    for (std::uint32_t stage = 0; stage < boundaries.size(); ++stage) {
      const ledger::Receipt& receipt = receipt_of(claim, w, stage);
      claimed[static_cast<std::uint32_t>(w)].push_back(receipt.out_root);
      found[static_cast<std::uint32_t>(w)].push_back(root_of(claim, receipt, boundaries[stage]));
    }
  }
  return ledger::first_difference(claimed, found, static_cast<std::uint32_t>(boundaries.size()));
}

// The first position of a wrong window, where the client has the hashes that its receipt signs.
std::optional<Position> wrong_row(const ChoiceClaim& claim, const ledger::WindowPlace& place,
                                  const std::vector<Hash256>& rows) {
  const auto stage = claim.hashes.find(place.stage);
  if (stage == claim.hashes.end()) return std::nullopt;
  const ledger::Receipt& receipt = receipt_of(claim, place.window, place.stage);
  const std::size_t end = std::size_t{receipt.first_position} + receipt.positions;
  std::vector<Hash256> said(end);
  for (std::size_t p = receipt.first_position; p < end; ++p) {
    const auto row = stage->second.find(static_cast<Position>(p));
    if (row == stage->second.end()) return std::nullopt;
    said[p] = row->second;
  }
  if (root_of(claim, receipt, said) != receipt.out_root) return std::nullopt;
  for (std::size_t p = receipt.first_position; p < std::min(end, rows.size()); ++p) {
    if (said[p] != rows[p]) return static_cast<Position>(p);
  }
  return std::nullopt;
}

Difference false_stage(const ChoiceClaim& claim, const ledger::WindowPlace& place,
                       const std::vector<Hash256>& rows) {
  const ledger::Receipt& receipt = receipt_of(claim, place.window, place.stage);
  const auto row = wrong_row(claim, place, rows);
  Difference out = differs(Differs::kStage, claim, "window ", place.window, ", stage ", place.stage,
                           ": the input of layer ", receipt.layer_begin,
                           " is right, but the signed output of layer ", receipt.layer_end - 1,
                           " differs from the computed one",
                           (row ? ", from position " + std::to_string(*row) + " on" : ""),
                           "; signed by ", receipt.worker.hex());
  out.window = place.window;
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
      message_of("window ", window, ", stage ", last, ": position ", position, " has ",
                 token_text((*claim.answer)[at]), ", which the receipts sign, but the model gives ",
                 token_text(model), "; signed by ", receipt_of(claim, window, last).worker.hex()));
  out.window = window;
  out.stage = last;
  out.position = position;
  return out;
}

Difference changed_answer(const ChoiceClaim& claim, std::size_t at, std::optional<TokenId> model,
                          std::string_view why) {
  const auto position = static_cast<Position>(claim.prompt.size() + at);
  Difference out =
      differs(Differs::kAnswer, claim, "token ", at, " of the answer (position ", position, ") is ",
              token_text((*claim.answer)[at]), " in this file; ", why, token_text(model));
  out.window = position / limits::kWindowPositions;
  out.position = position;
  return out;
}

// The tokens are the model's, and a commitment differs. `holds`: all roots between stages are
// right, so tokens and salt are right.
Difference other_commitment(const ChoiceClaim& claim, std::size_t window, bool roots_hold) {
  const std::string where = "window " + std::to_string(window) + ": ";
  Difference out;
  if (roots_hold && stages_of(claim) > 1) {
    out = differs(Differs::kSampling, claim, where,
                  "the activations between the stages are right, but the commitment is not: the "
                  "seed or a sampling parameter of this request differs from the receipts'");
  } else if (window == 0 || stages_of(claim) == 1) {
    out = differs(
        Differs::kSalt, claim,
        where + "nothing agrees with the receipts: they have another salt or another prompt, " +
            (stages_of(claim) == 1 ? "another seed or sampling parameter, " : "") +
            "or are of another request");
  } else {
    out = differs(Differs::kStage, claim, where,
                  "its tokens are not the model's; earlier windows are right");
  }
  out.window = static_cast<std::uint32_t>(window);
  return out;
}

std::optional<TokenId> sampled_at(const RecomputedRun& run, std::size_t at) {
  if (at >= run.sampled.size()) return std::nullopt;
  return run.sampled[at].token;
}

// The prompt, and so many tokens of the answer.
std::vector<TokenId> fed_of(const ChoiceClaim& claim, std::size_t answer) {
  std::vector<TokenId> fed = claim.prompt;
  if (answer > 0) {
    fed.insert(fed.end(), claim.answer->begin(),
               claim.answer->begin() + static_cast<std::ptrdiff_t>(answer));
  }
  return fed;
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

Result<ChoiceChecked> check_choice(LocalRunner& runner, const ChoiceClaim& claim,
                                   const RecomputeEvents& events) {
  ChoiceChecked out;
  out.positions = length_of(claim);
  out.difference = check_size(claim);
  if (out.difference) return out;
  const auto run = [&](std::vector<TokenId> fed) {
    const auto prompt = static_cast<std::uint32_t>(claim.prompt.size());
    return recompute(runner, stages_of(claim),
                     {{std::move(fed), prompt, claim.sampling}, length_of(claim), true}, events);
  };
  const std::vector<TokenId> none;
  const std::vector<TokenId>& answer = claim.answer ? *claim.answer : none;
  const auto room = length_of(claim) - std::min<std::size_t>(length_of(claim), claim.prompt.size());
  TRY(RecomputedRun first, run(fed_of(claim, std::min(room, answer.size()))));
  std::size_t at = 0;  // the first token that is not the model's
  while (at < answer.size() && sampled_at(first, at) == answer[at]) ++at;
  const auto wrong = wrong_root(claim, first.boundaries);
  for (std::size_t w = 0; w < windows_of(claim); ++w) {
    if (!commits_to(claim, w, first.tokens)) {
      out.difference = other_commitment(claim, w, !wrong);
      if (at == answer.size()) return out;
      // Its receipts may sign the model's own.
      TRY(const RecomputedRun second, run(fed_of(claim, at)));
      if (commits_to(claim, w, second.tokens)) {
        out.difference =
            changed_answer(claim, at, sampled_at(second, at), "the receipts and the model have ");
      }
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
                                    "no receipt covers the last token; the model gives ");
    return out;
  }
  out.tokens = std::move(first.sampled);
  return out;
}

}  // namespace hearth::node
