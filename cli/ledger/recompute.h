// What the receipts of one choice of an answer say, computed again and compared for equality: each
// window's commitment to its tokens, the root of what left each stage, and the tokens sampled.
//
// A client's tokens are fed as they are, so that what a stage says of one position is judged by
// what came before it, and one wrong token does not make all later ones wrong. Without them the
// model's own are taken. What differs first, by window and then by stage, is named; where only a
// commitment differs, so is what it can be.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/crypto.h"
#include "cli/saved_answer.h"
#include "ledger/receipt.h"
#include "node/runner/local_runner.h"

namespace hearth::cli {

// One choice of an answer as its client has it, and its receipts.
struct ChoiceClaim {
  std::uint32_t choice = 0;
  std::vector<TokenId> prompt;
  SamplingParams sampling;  // whole, as the server had it
  Hash256 salt;             // of the choice
  SavedChoice saved;
  // Of one epoch, as ledger::check_receipts() gives them: by window, then by stage.
  std::vector<ledger::Receipt> receipts;
};

// What kind of thing does not agree.
enum class Differs : std::uint8_t {
  kModel,     // another file or program than the receipts name
  kRequest,   // the receipts are of another request: its size is another one
  kSalt,      // salt or prompt, or a request that is as long: nothing holds from the beginning
  kSampling,  // seed or sampling parameters
  kAnswer,    // what the client has kept of the answer
  kStage,     // what a stage says that it computed
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

struct Recomputed {
  std::optional<Difference> difference;  // nothing: it is proved
  std::uint64_t positions = 0;           // that the receipts cover
  std::vector<SampledToken> tokens;      // where it is proved: the answer, and what followed it
};

class Recomputer {
 public:
  // Of positions of the choice that were computed.
  using Progress = std::function<void(std::uint64_t done, std::uint64_t of)>;

  // `runner`: of the receipts' own split.
  Recomputer(node::LocalRunner& runner, Progress progress)
      : runner_(runner), progress_(std::move(progress)) {}

  // Errors are this machine's: no room, or a model that cannot be computed.
  Result<Recomputed> check(const ChoiceClaim& claim);

 private:
  // Tokens by position, those that were fed and what was sampled behind them; what left each stage
  // but the last; the tokens sampled, from the first of the answer on.
  struct Run {
    std::vector<TokenId> tokens;
    std::vector<std::vector<Hash256>> boundaries;
    std::vector<SampledToken> sampled;
  };
  Result<Run> run(const ChoiceClaim& claim, std::vector<TokenId> fed);

  node::LocalRunner& runner_;
  Progress progress_;
  std::uint64_t next_ = 1;
};

}  // namespace hearth::cli
