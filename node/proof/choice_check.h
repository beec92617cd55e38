// Recomputes one choice of an answer and compares the result with its receipts: each window's
// commitment to its tokens, the root of each stage's output, and the sampled tokens.
//
// A client's tokens are fed as they are, so that each position is judged by its own input and one
// wrong token does not make all later ones wrong. Without them, the model's own tokens are used.
// The result names the first difference, by window and then by stage. When only a commitment
// differs, it names the possible cause.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/crypto.h"
#include "ledger/receipt.h"
#include "node/proof/recompute.h"

namespace hearth::node {

// One choice of an answer as its client has it, and its receipts.
struct ChoiceClaim {
  std::uint32_t choice = 0;
  std::vector<TokenId> prompt;
  SamplingParams sampling;                     // whole, as the server had it
  Hash256 salt;                                // of the choice
  std::optional<std::vector<TokenId>> answer;  // if the client has its tokens
  // Hashes of stages' outputs that the client has: [stage][position].
  std::map<std::uint32_t, std::map<Position, Hash256>> hashes;
  // Receipts of one epoch, as from ledger::check_receipts(): by window, then by stage.
  std::vector<ledger::Receipt> receipts;
};

// The kind of difference.
enum class Differs : std::uint8_t {
  kModel,     // another file or program than the receipts name
  kRequest,   // the receipts are of a request of another size
  kSalt,      // salt or prompt, or another request of this size: no root agrees
  kSampling,  // seed or sampling parameters
  kAnswer,    // the client's copy of the answer
  kStage,     // a stage's claimed result
};
std::string_view differs_name(Differs what);  // "model", "request", ...

struct Difference {
  Differs what = Differs::kRequest;
  std::string text;  // a sentence
  std::optional<std::uint32_t> choice = {};
  std::optional<std::uint32_t> window = {};
  std::optional<std::uint32_t> stage = {};
  std::optional<Position> position = {};
};

struct ChoiceChecked {
  std::optional<Difference> difference;  // nothing: the answer is proved
  std::uint64_t positions = 0;           // positions that the receipts cover
  std::vector<SampledToken> tokens;      // if proved: the answer, and what followed it
};

// `runner`: of the receipts' own split. Errors concern only this machine: no room, an unsupported
// model, or kCancelled.
Result<ChoiceChecked> check_choice(LocalRunner& runner, const ChoiceClaim& claim,
                                   const RecomputeEvents& events);

}  // namespace hearth::node
